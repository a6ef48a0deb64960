// Which models a number of tensor-parallel ranks can divide.
#pragma once

#include <string>

#include "config/run_config.hpp"

namespace cohort {

/// Throws Error(config) if `tp` ranks cannot divide the model: heads and ffn_width must be multiples of tp, kv_heads a multiple
/// or a divisor of it, every rank must get some of the vocabulary (if that is known already), and with `sequence` the tokens of a
/// sample that each of `cp` context-parallel ranks has must be a multiple of tp. The message begins with `where` and names the
/// numbers and the nearest that fit. kv_heads and ffn_width have been filled in. Pure.
void check_tensor_parallel(const ModelSection& model, Count tp, bool sequence, const std::string& where = "", Count cp = 1);

}  // namespace cohort
