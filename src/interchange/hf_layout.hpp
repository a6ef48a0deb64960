// Names and layouts: the parameters of gpt2 and llama here, and the tensors of transformers' GPT2LMHeadModel and LlamaForCausalLM
// that hold the same numbers.
//
//   gpt2, block i                                             llama, block i
//   blocks.i.norm1              h.i.ln_1                      layers.i.input_layernorm
//   blocks.i.attention.query    h.i.attn.c_attn, columns C    layers.i.self_attn.q_proj
//   blocks.i.attention.key      ... the next C                layers.i.self_attn.k_proj
//   blocks.i.attention.value    ... the last C                layers.i.self_attn.v_proj
//   blocks.i.attention.output   h.i.attn.c_proj               layers.i.self_attn.o_proj
//   blocks.i.norm2              h.i.ln_2                      layers.i.post_attention_layernorm
//   blocks.i.feed_forward.gate                                layers.i.mlp.gate_proj
//   blocks.i.feed_forward.up    h.i.mlp.c_fc                  layers.i.mlp.up_proj
//   blocks.i.feed_forward.down  h.i.mlp.c_proj                layers.i.mlp.down_proj
//   embedding, positions        wte, wpe                      embed_tokens
//   norm                        ln_f                          norm
//   head, if not tied           lm_head                       lm_head
//
// Names there begin with "transformer." (gpt2) and "model." (llama), but for lm_head. Matrices here are [outputs, inputs], as in
// torch.nn.Linear and so in llama; GPT-2's Conv1D has [inputs, outputs], so c_attn, c_proj and c_fc are transposed.
// Rotary positions pair elements i and i + HS/2 of a head in transformers and here alike (ops/reference/rope.hpp), so rows of
// query and key need no permutation; the weights that Meta published pair neighbours and need one.
#pragma once

#include <memory>
#include <vector>

#include "config/run_config.hpp"
#include "interchange/tensor_source.hpp"

namespace cohort {

/// The parameters of the model, in its order.
std::vector<TensorInfo> parameters_of(const ModelSection& model);

/// Views of a source, which must outlive them, under the names and in the layouts of the other side. `where` names the source in
/// errors. Both throw Error(checkpoint) if its tensors are not exactly those of the model.

/// From Cohort's parameters to transformers' tensors.
std::unique_ptr<TensorSource> as_hugging_face(const TensorSource& ours, const ModelSection& model, const std::string& where);

/// From transformers' tensors to Cohort's parameters. Names may lack their prefix, as those of a model without a head do. Left
/// out are what older versions stored beside weights (causal masks, rotary frequencies), and the lm_head of a tied model, which
/// must equal the embedding.
std::unique_ptr<TensorSource> as_cohort(const TensorSource& theirs, const ModelSection& model, const std::string& where);

}  // namespace cohort
