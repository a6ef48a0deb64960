// Llama (Touvron et al. 2023): RMSNorm, rotary positions, SwiGLU, grouped-query attention, no biases.
#pragma once

#include <memory>

#include "models/decoder.hpp"

namespace cohort {

std::unique_ptr<Decoder> make_llama(const ModelSection& config, const Placement& placement, TensorParallel& parallel,
                                    std::span<const ChunkSpec> chunks);

}  // namespace cohort
