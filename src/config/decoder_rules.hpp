// Checks that families of decoders share.
#pragma once

#include "config/run_config.hpp"

namespace cohort {

/// model.width must be a multiple of model.heads; with rotary positions the size of a head must also be even, since they turn
/// pairs of features. Error (config).
void check_width_of_heads(const RunConfig& config, bool rotary);
/// model.kv_heads: 0 becomes model.heads, of which it must be a divisor. Error (config).
void resolve_kv_heads(RunConfig& config);
/// The frequencies between which llama3's scaling changes must be in order. Error (config).
void check_rope_scaling(const RunConfig& config);

/// The usual inner width of a SwiGLU: 8/3 C, which makes three matrices as large as the two of width 4 C, rounded up to a
/// multiple of 32 (Touvron et al. 2023, section 2.2).
inline Count swiglu_width(Count width) { return (8 * width + 95) / 96 * 32; }

}  // namespace cohort
