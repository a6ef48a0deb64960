// What forward and backward need beside the model and its input.
#pragma once

#include <cstdint>
#include <span>

#include "ops/exec.hpp"
#include "ops/pointwise.hpp"
#include "tensor/arena.hpp"

namespace cohort {

struct StepContext {
  ops::Exec exec = {};
  Arena* activations = nullptr;  // what forward saves for backward, and the scratch memory of both
  bool training = false;         // dropout acts only in training
  std::uint64_t seed = 0;
  std::uint32_t step = 0;             // optimizer step, keys the dropout masks
  std::span<const Count> slots = {};  // [B] position of each sample in the global batch, keys the dropout masks; set by the model

  Tensor take(const Shape& shape) const { return activations->take(shape); }
  StepContext with_slots(std::span<const Count> of_input) const {
    StepContext copy = *this;
    copy.slots = of_input;
    return copy;
  }
  /// The dropout mask of place `layer` in the model.
  ops::DropoutKey dropout_key(double probability, std::uint32_t layer) const {
    return {training ? probability : 0.0, seed, step, layer, slots};
  }
};

}  // namespace cohort
