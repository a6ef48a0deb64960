// GPT-2 (Radford et al. 2019): learned positions, LayerNorm, GELU, biases everywhere, head tied to the embedding by default.
#pragma once

#include <memory>

#include "models/decoder.hpp"

namespace cohort {

std::unique_ptr<Decoder> make_gpt2(const ModelSection& config, const Placement& placement, TensorParallel& parallel,
                                   std::span<const ChunkSpec> chunks);

}  // namespace cohort
