// The modules of transformers that adapters join, and the weights here that they hold.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.hpp"

namespace cohort {

inline constexpr std::string_view kLoraA = "lora_a", kLoraB = "lora_b";  // names here
inline constexpr std::string_view kPeftA = "lora_A", kPeftB = "lora_B";  // PEFT's

/// "blocks.0.attention.query.lora_a" of "blocks.0.attention.query.weight"; "" of what is no weight of a layer.
std::string adapter_of(const std::string& weight, std::string_view adapter);

struct PeftModule {
  struct Part {
    std::string weight;  // here
    Count outputs;
    bool adapted;
  };
  std::string name;  // "model.layers.0.self_attn.q_proj"
  std::vector<Part> parts;
  Count inputs = 0;
  bool transposed = false;

  Count outputs() const;
  Count adapters() const;  // of its parts
  /// "base_model.model.NAME.lora_A.weight"
  std::string tensor(std::string_view adapter) const;
};

/// All linear layers of blocks that the model has, with what is adapted by its [lora]. Error (config): transformers has no such
/// model.
std::vector<PeftModule> linear_modules(const ModelSection& model);
/// Those with adapters.
std::vector<PeftModule> adapted_modules(const ModelSection& model);

}  // namespace cohort
