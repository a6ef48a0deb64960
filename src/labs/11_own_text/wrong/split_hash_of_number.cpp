// split_documents: have the same text
#include <algorithm>
#include <cmath>
#include <cohort/lab11_own_text.hpp>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// A hash, but of the document's number.
void split_documents(std::span<const std::string_view> documents, double share, std::uint64_t seed, std::span<bool> held_out) {
  for (std::size_t i = 0; i < documents.size(); ++i)
    held_out[i] = static_cast<double>(cohort::lab::hash_of(std::to_string(i), seed) >> 11) * 0x1.0p-53 < share;
}
