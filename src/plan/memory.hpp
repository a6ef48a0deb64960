// The memory of a rank by kind: what is predicted (train/counted_step.hpp), and what the papers say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "config/run_config.hpp"
#include "tensor/memory_kind.hpp"
#include "train/counted_step.hpp"

namespace cohort {

/// largest_memory(): what `cohort train --dry-run` says, too.
struct PredictedMemory {
  ByKind<Bytes> kinds;       // each by itself: one stage may have the most parameters, another the most activations
  Bytes total = 0;           // of the stage that needs most in all
  Bytes host = 0, disk = 0;  // what is offloaded there instead, at most
  Bytes others = 0;          // of no kind, such as tables of positions; not in total
};
PredictedMemory predict_memory(const std::vector<CountedStep>& stages);
/// The same, counted now. `config` is validated and its vocabulary known.
PredictedMemory predict_memory(const RunConfig& config);

struct PaperMemory {
  double bytes = 0.0;
  std::string formula;  // "" if the papers have none
};

/// The papers' formulas, of P parameters on the rank (a tensor-parallel part of a stage) shared by N:
///   parameters, gradients, optimizer   Rajbhandari et al. 2020 ("ZeRO"), sections 3.1 and 5: 16-bit training keeps 2 P, 2 P and
///       12 P (weights, momentum and variance in fp32). Stage 1 divides the optimizer's by N, stage 2 the gradients too, stage 3
///       all. For fp32 we say 4 P, 4 P and 8 P; for another optimizer than Adam its slots, and nothing where several work.
///   activations   Korthikanti et al. 2022, section 4, for 16 bits, with s tokens here, b samples, h width, a heads, t = tp:
///       a layer keeps s b h (10 + 24/t + 5 a s/(h t)), with sequence parallelism s b h/t (34 + 5 a s/h), with full recomputation
///       2 s b h, by t where sequence parallelism divides it here; times the layers of the stage and the micro-batches under way
///       (section 4.2.3). Twice for fp32. Our selective recomputation keeps two terms of its section 4.1: the layer's input, 2 s
///       b h, and that of the output projection, 2 s b h/t. With activation_offload a GPU has as many layers as the largest chunk
///       of a stage, three at most, and in a pipeline each chunk's output, 2 s b h, of the micro-batches under way. With
///       checkpointed_layers those and the others are summed; with offload, too, the others alone count so.
/// Ours differ: master weights count as parameters and gradients are fp32, so that 16-bit training takes 6 P, 4 P and 8 P; and
/// flash attention keeps one number a row and head where the paper's keeps three a s x s matrices of a layer (the term 5 a s/h),
/// and dropout masks are computed again instead of kept.
ByKind<PaperMemory> paper_memory(const RunConfig& config);

/// Our bytes of activations that each token leaves in each layer, here, with whole layers or checkpoints: the counterpart of the
/// paper's s b h (...) divided by s b. What a third layer adds to the activations of two. 0 for a model without layers alike.
Bytes activation_bytes_per_token_and_layer(const RunConfig& config);

/// Whether it is what CPU kernels take to compute in 16 bits (ops/cpu/fp32_copies.hpp), which no GPU has and no plan is about.
bool is_emulation_label(std::string_view label);

}  // namespace cohort
