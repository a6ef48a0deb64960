// The models and batch shapes that the tests of loss and gradients run over.
#pragma once

#include <string>
#include <vector>

#include "model_problem.hpp"

namespace cohort::test {

struct ModelCase {
  std::string name;
  ModelSection config;
  Count samples;
  Count tokens;
};

inline void PrintTo(const ModelCase& model_case, std::ostream* out) { *out << model_case.name; }
inline std::string name_of_case(const ::testing::TestParamInfo<ModelCase>& info) { return info.param.name; }

inline std::vector<ModelCase> model_cases() {
  std::vector<ModelCase> cases{
      {"gpt2_tied", gpt2_config(true), 3, 6},
      {"gpt2_untied", gpt2_config(false), 3, 6},
      {"gpt2_one_token", gpt2_config(), 3, 1},
      {"gpt2_one_sample", gpt2_config(), 1, 6},
      {"gpt2_short_samples", gpt2_config(), 2, 4},
      {"llama_one_kv_head_tied", llama_config(1, true), 3, 6},
      {"llama_one_kv_head_untied", llama_config(1, false), 3, 6},
      {"llama_two_kv_heads_tied", llama_config(2, true), 3, 6},
      {"llama_two_kv_heads_untied", llama_config(2, false), 3, 6},
      {"llama_all_kv_heads_tied", llama_config(4, true), 3, 6},
      {"llama_all_kv_heads_untied", llama_config(4, false), 3, 6},
      {"llama_one_token", llama_config(), 3, 1},
      {"llama_one_sample", llama_config(), 1, 6},
      {"llama_short_samples", llama_config(), 2, 5},
      {"qwen3_one_kv_head_tied", qwen3_config(1, true), 3, 6},
      {"qwen3_two_kv_heads_untied", qwen3_config(2, false), 3, 6},
      {"qwen3_one_sample", qwen3_config(4, true), 1, 6},
      {"mlp", mlp_config(), 7, 0},
      {"mlp_one_sample", mlp_config(), 1, 0},
  };
  ModelCase gpt2{"gpt2_odd_sizes", gpt2_config(), 2, 7};
  gpt2.config.layers = 1;
  gpt2.config.width = 15;
  gpt2.config.heads = gpt2.config.kv_heads = 5;
  gpt2.config.ffn_width = 7;
  gpt2.config.context = 7;
  gpt2.config.vocabulary = 7;
  cases.push_back(gpt2);
  ModelCase llama{"llama_odd_sizes", llama_config(1, false), 2, 7};
  llama.config.width = 18;
  llama.config.heads = 3;
  llama.config.ffn_width = 7;
  llama.config.context = 7;
  llama.config.vocabulary = 7;
  llama.config.norm_epsilon = 1e-2;  // large enough to show if it were ignored
  cases.push_back(llama);
  ModelCase mlp{"mlp_one_layer", mlp_config(), 6, 0};
  mlp.config.layers = 1;
  cases.push_back(mlp);
  return cases;
}

/// One of each kind, where the shape matters little.
inline std::vector<ModelCase> main_cases() {
  return {{"gpt2", gpt2_config(), 4, 6},
          {"llama", llama_config(2, false), 4, 6},
          {"qwen3", qwen3_config(2, false), 4, 6},
          {"mlp", mlp_config(), 4, 0}};
}

}  // namespace cohort::test
