#include "labs/grading/contributions.hpp"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "base/text.hpp"

namespace cohort::labs {
namespace {

constexpr double kBase = 8.0;

}  // namespace

float digit_of(int rank) { return static_cast<float>(std::pow(kBase, rank)); }

std::string wrong_contributions(double sum, int ranks) {
  std::string no_sum = fmt::format("{} is no sum of the ranks' values", sum);
  if (!std::isfinite(sum) || sum < 0.0 || sum != std::floor(sum)) return no_sum;
  std::vector<std::string> words;
  double rest = sum;
  for (int rank = 0; rank < ranks; ++rank) {
    const int times = static_cast<int>(std::fmod(rest, kBase));
    rest = std::floor(rest / kBase);
    if (times == 0) words.push_back(fmt::format("the value of rank {} is missing", rank));
    if (times > 1)
      words.push_back(fmt::format("that of rank {} is in it {}", rank, times == 2 ? "twice" : fmt::format("{} times", times)));
  }
  return rest > 0.0 ? no_sum : join(words, ", ");
}

}  // namespace cohort::labs
