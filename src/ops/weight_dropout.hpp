// Dropout of the softmax weights of attention, for the CPU's loops and the portable kernels.
#pragma once

#include "base/random.hpp"
#include "ops/pointwise.hpp"

namespace cohort::ops {

/// What dropout multiplies the softmax weights of one head by; by 1 for probability 0. The element's index in its sample is
/// (head * T + query) * T + key, in positions of the whole sequence and over all heads of the model. constexpr, so that it also
/// works in device code, where key.slots must lie on the device.
class WeightDropout {
 public:
  constexpr WeightDropout(const DropoutKey& key, Count sample, Count heads, Count head, Count tokens)
      : random_(key.seed, RandomPurpose::dropout, key.step, key.layer),
        probability_(key.probability),
        keep_scale_(static_cast<float>(1.0 / (1.0 - key.probability))),
        tokens_(tokens),
        first_(key.probability > 0.0 ? mask_of(key, sample, heads, head) * tokens * tokens : 0) {}

  constexpr bool active() const { return probability_ > 0.0; }
  constexpr float factor(Count query, Count key) const {
    const auto index = static_cast<std::uint64_t>(first_ + query * tokens_ + key);
    return random_.uniform(index) >= probability_ ? keep_scale_ : 0.0f;
  }

 private:
  // Every head of every sample of the global batch has a mask.
  static constexpr Count mask_of(const DropoutKey& key, Count sample, Count heads, Count head) {
    const Count all_heads = key.all_heads == 0 ? heads : key.all_heads;
    return key.slots.data()[sample] * all_heads + key.first_head + head;
  }

  CounterRandom random_;
  double probability_;
  float keep_scale_;
  Count tokens_;
  Count first_;
};

}  // namespace cohort::ops
