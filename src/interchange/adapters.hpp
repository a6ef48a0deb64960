// Low-rank adapters (nn/lora.hpp) of a checkpoint on their way to other forms: folded into the weights, and to and from the
// folders of Hugging Face's PEFT (adapter_config.json, adapter_model.safetensors).
//
// PEFT names an adapter after the module of transformers that it joins: base_model.model.MODULE.lora_A.weight [r, inputs] and
// lora_B.weight [outputs, r], also where the module keeps its weight transposed, as GPT-2's. A module that holds several weights
// of ours, as GPT-2's c_attn has query, key and value, has one adapter: of n adapters here their A below each other, their B as
// blocks on the diagonal, with the rank n r and the same factor alpha / r. Read back, each of the n takes all of A and its rows
// of B, with the rank of the file: the same products.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "interchange/tensor_source.hpp"

namespace cohort {

/// Views of the parameters of a model with adapters; `source` must outlive them. `where` names it in errors (checkpoint): its
/// tensors are not those of the model.

/// The parameters of the model without adapters: W + alpha / r B A where there are some. Sums are made in double precision.
std::unique_ptr<TensorSource> merged(const TensorSource& source, const ModelSection& model, const std::string& where);
/// The adapters alone, under PEFT's names.
std::unique_ptr<TensorSource> as_peft(const TensorSource& source, const ModelSection& model, const std::string& where);

/// What adapter_config.json says of them.
std::string peft_config_json(const ModelSection& model);

inline constexpr const char* kPeftConfigFile = "adapter_config.json";
inline constexpr const char* kPeftWeightsFile = "adapter_model.safetensors";

/// A folder of PEFT, as adapters of a model whose weights somebody else has.
class PeftFolder {
 public:
  /// `base` is the model without adapters. Error (checkpoint) names the file and the key or tensor: no such files, another method
  /// than LoRA or one that computes something else here (DoRA, biases, whole modules), a module that the model does not have.
  PeftFolder(const std::filesystem::path& folder, const ModelSection& base);
  ~PeftFolder();

  /// With its [lora].
  const ModelSection& model() const;
  /// All parameters of model(): the weights of `base`, which must outlive it, and the adapters.
  std::unique_ptr<TensorSource> joined(const TensorSource& base, const std::string& where) const;

 private:
  struct Source;  // of one weight's adapter, in the file
  struct Contents;
  class Joined;
  std::unique_ptr<Contents> contents_;
};

}  // namespace cohort
