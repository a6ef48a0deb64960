// split_documents: the seed has no effect
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

// Without the seed.
void split_documents(std::span<const std::string_view> documents, double share, std::uint64_t seed, std::span<bool> held_out) {
  (void)seed;
  for (std::size_t i = 0; i < documents.size(); ++i)
    held_out[i] = static_cast<double>(cohort::lab::hash_of(documents[i], 0) >> 11) * 0x1.0p-53 < share;
}
