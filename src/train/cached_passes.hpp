// The forward passes of text generation, with a KV cache: over a prompt, and over one more token of each of several texts.
// Sampling, and when a text ends, is the business of generate.hpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/graph.hpp"
#include "models/predictor.hpp"
#include "tensor/arena.hpp"
#include "train/input_buffer.hpp"

namespace cohort {

class CachedPasses {
 public:
  /// For up to `slots` texts at once, of up to `tokens` tokens, or the model's context if that is less. `hooks` are those of the
  /// strategy that keeps the parameters; both must outlive this.
  CachedPasses(Predictor& model, Count slots, Count tokens, ops::Kernels kernels, Hooks& hooks);

  /// Positions of a slot.
  Count positions() const { return cache_->sizes().tokens; }
  Bytes cache_bytes_per_token() const { return cache_->bytes_per_token(); }

  // Each returns logits [rows, V] (fp32, on the host), valid until the next pass. What a row's are does not depend on other rows.

  /// The tokens become what the slot holds, from position 0 on: one row, of what follows them. // Collective over: pp, tp
  std::span<const float> run_prompt(Count slot, std::span<const std::int32_t> tokens);

  /// Token `token` at `position` of `slot`, which holds all before it.
  struct Row {
    Count slot;
    Count position;
    std::int32_t token;
  };
  /// A row each. // Collective over: pp, tp
  std::span<const float> run_tokens(std::span<const Row> rows);

  /// Slot `to` becomes what slot `from` is.
  void copy_slot(Count to, Count from) { cache_->copy_slot(to, from); }

  /// Makes the last pass again, to find the first unit on this rank whose output is not finite; "" if all are.
  // Collective over: pp, tp
  std::string first_unit_not_finite();

 private:
  std::span<const float> run(StepContext context);
  // On a GPU a pass over a few tokens is hundreds of kernels of microseconds: it is recorded, and launched as one.
  std::span<const float> run_recorded(const StepContext& context, const ModelInput& input);

  // What a recording depends on: the numbers and addresses that its kernels have.
  struct Recorded {
    Count rows = 0, parts = 0;  // of the pass, and of the keys of its longest text
    const std::int32_t* inputs = nullptr;
    bool operator==(const Recorded&) const = default;
  };

  Predictor& model_;
  Hooks& hooks_;
  ops::Kernels kernels_;
  std::unique_ptr<KvCache> cache_;
  Arena activations_;
  InputBuffer buffer_;
  std::vector<std::int32_t> tokens_;  // of the last pass
  Count samples_ = 0;                 // likewise
  bool row_by_row_ = false;           // likewise
  Tensor logits_;                     // [slots, V]
  gpu::Graph graph_;
  Recorded last_;                                 // of the last pass that run_recorded() made
  Tensor logits_on_device_, logits_from_device_;  // [rows, >= V], and pinned [slots, >= V]
};

}  // namespace cohort
