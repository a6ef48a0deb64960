// An array for an exercise that notices when something is written beside it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "labs/grading/grading.hpp"

namespace cohort::labs {

class Guarded {
 public:
  explicit Guarded(std::vector<float> values) : size_(values.size()), memory_(size_ + 2 * kMargin, kGuard) {
    std::copy(values.begin(), values.end(), memory_.begin() + kMargin);
  }

  std::span<float> span() { return std::span(memory_).subspan(kMargin, size_); }
  std::span<const float> span() const { return std::span(memory_).subspan(kMargin, size_); }
  float operator[](std::size_t i) const { return memory_[kMargin + i]; }
  std::size_t size() const { return size_; }

  /// Rejects if something was written up to 64 elements before or behind the array. `name`: "rank 1: data".
  void check(std::string_view name) const {
    for (std::size_t i = 0; i < kMargin; ++i) {
      if (memory_[i] != kGuard) reject("{}: something was written {} before its first element", name, kMargin - i);
      if (memory_[kMargin + size_ + i] != kGuard)
        reject("{}: something was written to element {}, but it has {}", name, size_ + i, size_);
    }
  }

 private:
  static constexpr std::size_t kMargin = 64;
  static constexpr float kGuard = -7.25e12f;  // no exercise computes it

  std::size_t size_;
  std::vector<float> memory_;
};

}  // namespace cohort::labs
