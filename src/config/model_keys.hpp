// The keys of [model]: those that families share, with the families that take each, and those that only one family has. Part of
// the table in schema.cpp.
#pragma once

#include <string>
#include <vector>

#include "config/key_spec.hpp"

namespace cohort {

std::vector<KeySpec> model_keys();

/// "tokens for gpt2, llama; two_moons for mlp"
std::string data_kinds_of_models();

}  // namespace cohort
