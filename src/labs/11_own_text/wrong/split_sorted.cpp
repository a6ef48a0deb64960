// split_documents: is not there
#include <algorithm>
#include <cmath>
#include <cohort/lab11_own_text.hpp>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

// The smallest hashes: how many depends on the other documents.
void split_documents(std::span<const std::string_view> documents, double share, std::uint64_t seed, std::span<bool> held_out) {
  std::vector<std::uint64_t> hashes;
  for (const std::string_view document : documents) hashes.push_back(cohort::lab::hash_of(document, seed));
  std::vector<std::uint64_t> sorted = hashes;
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<std::size_t>(share * static_cast<double>(documents.size()));
  for (std::size_t i = 0; i < documents.size(); ++i)
    held_out[i] = count > 0 && hashes[i] <= sorted[std::min(count, sorted.size()) - 1];
}
