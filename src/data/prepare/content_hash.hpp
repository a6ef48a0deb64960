// 128 bits that stand for the content of a text. Two texts with the same hash are taken for the same: among 10^9 different ones
// the chance of one mistake is below 10^-20. Not for texts that somebody makes to deceive.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace cohort {

struct ContentHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  auto operator<=>(const ContentHash&) const = default;
};

/// Two independent lanes: each step is a bijection of the lane's state and of the word that it takes in.
inline ContentHash hash_of(std::string_view text) {
  constexpr std::uint64_t kLow = 0x9E3779B97F4A7C15u, kHigh = 0xC2B2AE3D27D4EB4Fu;  // odd; golden ratio and a prime
  ContentHash hash{text.size(), ~std::uint64_t{text.size()}};
  const auto take = [&](std::uint64_t word) {
    hash.low = std::rotl(hash.low ^ word, 29) * kLow;
    hash.high = (hash.high + word) * kHigh;
    hash.high ^= hash.high >> 32;
  };
  for (; text.size() >= 8; text.remove_prefix(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);
    take(word);
  }
  std::uint64_t rest = 0;
  if (!text.empty()) std::memcpy(&rest, text.data(), text.size());
  take(rest);
  for (const std::uint64_t word : {hash.high, hash.low, hash.high}) take(word ^ (word >> 31));  // all bits of all
  return hash;
}

}  // namespace cohort
