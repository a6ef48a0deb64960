// The form that a family has in Hugging Face's transformers: its config.json, and where each parameter lies among its tensors.
//
// Matrices here are [outputs, inputs], as in torch.nn.Linear. Rotary positions pair elements i and i + HS/2 of a head in
// transformers and here alike (ops/reference/rope.hpp), so rows of query and key need no permutation; the weights that Meta
// published pair neighbours and need one.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "config/run_config.hpp"
#include "models/hf_keys.hpp"

namespace cohort {

/// A tensor of transformers, and the parameters here whose rows, one below the other, it holds.
struct Correspondence {
  std::string theirs;
  std::vector<std::string> ours;
  bool transposed = false;  // theirs is [inputs, outputs], as GPT-2's Conv1D has them
};

struct HuggingFaceForm {
  std::string model_type;    // "gpt2"
  std::string architecture;  // "GPT2LMHeadModel"
  std::string prefix;        // of the names of all tensors but lm_head
  /// Asks for every key that changes what the model computes; those that are left out have the meaning that transformers gives
  /// them. Error (checkpoint) names the file and the key.
  ModelSection (*read)(const HfKeys& config);
  /// What read() understands, but for the keys that all models have: architectures, initializer_range, tie_word_embeddings.
  nlohmann::ordered_json (*write)(const ModelSection& model);
  /// Every parameter once.
  std::vector<Correspondence> (*correspondences)(const ModelSection& model);
  std::vector<std::string> derived = {};  // ends of the names of tensors that follow from the configuration, and are left out
};

/// The names that transformers' Llama has and most models after it: "model.embed_tokens", "model.layers.i.NAME", "model.norm",
/// "lm_head". `of_block` gives each NAME and the parameter of a block here ("self_attn.q_proj", "attention.query"); all are
/// weights.
std::vector<Correspondence> llama_style(const ModelSection& model,
                                        const std::vector<std::pair<std::string, std::string>>& of_block);

/// The keys that Llama and most models after it share: sizes, norm, rotary positions; and what must be so of all of them here:
/// SiLU, no bias and no dropout in attention. With the meaning that they have when they are left out.
void read_llama_keys(const HfKeys& config, ModelSection& model);
/// The same keys, and head_dim.
nlohmann::ordered_json llama_keys(const ModelSection& model, Count head_size);

/// The keys model.rope_... from rope_theta, rope_scaling and rope_parameters. Scaling other than linear and llama3 is refused.
void read_rope(const HfKeys& config, ModelSection& model);

}  // namespace cohort
