#include "parallel/zero/stage.hpp"

#include <array>

namespace cohort {

int zero_stage(std::string_view strategy) {
  constexpr std::array<std::string_view, 3> kNames{"zero1", "zero2", "zero3"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (strategy == kNames[i]) return static_cast<int>(i) + 1;
  }
  return 0;
}

}  // namespace cohort
