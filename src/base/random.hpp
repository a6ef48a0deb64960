// Counter-based random numbers: a pure function of a key and a counter, so that every rank, in every layout, draws the same value
// for the same global element. Philox-4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC11).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace cohort {

/// What a random number is for. Part of the key, so that two uses never share a stream.
enum class RandomPurpose : std::uint32_t { init = 1, dropout = 2, shuffle = 3, sample = 4, synth = 5, test = 6 };

/// The ten rounds of Philox-4x32 on one counter.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// A stream of random numbers addressed by index: (seed, purpose, step, stream) name the stream, `index` the element in it.
/// `stream` tells apart the uses within one purpose: the parameter for init, the layer for dropout, the epoch for shuffle.
class CounterRandom {
 public:
  constexpr CounterRandom(std::uint64_t seed, RandomPurpose purpose, std::uint32_t step = 0, std::uint32_t stream = 0)
      // The counter has 128 bits: 64 for the index, 32 for the step, 32 for the stream; the purpose goes into the key.
      : key_{static_cast<std::uint32_t>(seed) ^ (static_cast<std::uint32_t>(purpose) * 0x85EBCA6Bu),
             static_cast<std::uint32_t>(seed >> 32)},
        step_(step),
        stream_(stream) {}

  /// Four independent 32-bit words for element `index`.
  constexpr std::array<std::uint32_t, 4> words(std::uint64_t index) const {
    return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), step_, stream_}, key_);
  }
  constexpr std::uint32_t u32(std::uint64_t index) const { return words(index)[0]; }
  constexpr std::uint64_t u64(std::uint64_t index) const {
    const auto w = words(index);
    return (std::uint64_t{w[1]} << 32) | w[0];
  }
  /// Uniform in [0, 1).
  constexpr double uniform(std::uint64_t index) const { return static_cast<double>(u64(index) >> 11) * 0x1.0p-53; }
  /// Four standard normals, for the elements 4 block to 4 block + 3 (Box & Muller 1958, on the four words of `block`).
  constexpr std::array<float, 4> normals(std::uint64_t block) const {
    const auto w = words(block);
    std::array<float, 4> result{};
    for (std::size_t pair = 0; pair < 2; ++pair) {
      // In (0, 1], so that the logarithm stays finite: an fp32 rounds the largest word up to 2^32.
      const float u1 = (static_cast<float>(w[2 * pair]) + 1.0f) * 0x1.0p-32f;
      const float angle = static_cast<float>(w[2 * pair + 1]) * (0x1.0p-32f * 2.0f * std::numbers::pi_v<float>);
      const float radius = std::sqrt(-2.0f * std::log(u1));
      result[2 * pair] = radius * std::cos(angle);
      result[2 * pair + 1] = radius * std::sin(angle);
    }
    return result;
  }
  /// The standard normal of one element.
  constexpr float normal(std::uint64_t index) const { return normals(index / 4)[index % 4]; }

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint32_t step_;
  std::uint32_t stream_;
};

}  // namespace cohort
