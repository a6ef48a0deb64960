// The whole forward pass of gpt2, llama, qwen3 and mlp in double precision, put together from the references of the ops: what the
// models are tested against. Weights are looked up by their names, as a checkpoint has them. No dropout.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "config/run_config.hpp"
#include "models/model.hpp"
#include "ops/reference/activation.hpp"
#include "ops/reference/attention.hpp"
#include "ops/reference/cross_entropy.hpp"
#include "ops/reference/embedding.hpp"
#include "ops/reference/matmul.hpp"
#include "ops/reference/norm.hpp"
#include "ops/reference/pointwise.hpp"
#include "ops/reference/rope.hpp"

namespace cohort::test {

namespace reference = ops::reference;
using reference::Array;
using reference::Input;

/// Values or gradients of all parameters, by name.
using Weights = std::map<std::string, Array>;

/// The parts of a flat tensor (values or gradients) of a registry.
inline Weights by_name(const ParameterRegistry& registry, const Tensor& flat) {
  const Tensor host = flat.to_host();
  Weights weights;
  for (const auto& parameter : registry.all()) {
    const float* first = host.f32() + parameter->offset;
    weights[parameter->name] = Array(first, first + parameter->elements());
  }
  return weights;
}

class ReferenceModel {
 public:
  ReferenceModel(const ModelSection& config, Weights weights_) : weights(std::move(weights_)), config_(config) {}

  /// The sum over the counted targets, nats.
  double loss(const ModelInput& input) const {
    const Count classes = config_.kind == "mlp" ? config_.classes : config_.vocabulary;
    return reference::cross_entropy(logits(input), input.targets, classes, 1.0).loss;
  }

  /// [samples * tokens, V]; mlp: [samples, classes].
  Array logits(const ModelInput& input) const {
    if (config_.kind == "mlp") return mlp_logits(input);
    const Count rows = static_cast<Count>(input.inputs.size());
    const Count tokens = rows / input.samples;
    // The learned positions of these tokens; samples may be shorter than the context.
    const Input positions = gpt2() ? Input(weights.at("positions.weight")).first(tokens * config_.width) : Input{};
    Array x = reference::embedding_forward(input.inputs, weights.at("embedding.weight"), positions, config_.width);
    for (Count layer = 0; layer < config_.layers; ++layer) {
      const std::string block = "blocks." + std::to_string(layer);
      add(x, attention(block + ".attention", norm(block + ".norm1", x, rows), input.samples, tokens));
      add(x, feed_forward(block + ".feed_forward", norm(block + ".norm2", x, rows), rows));
    }
    x = norm("norm", x, rows);
    return product(x, weights.at(config_.tied_head ? "embedding.weight" : "head.weight"), rows);
  }

  /// Logits of each sample's last row.
  Array last_logits(const ModelInput& input) const {
    const Array all = logits(input);
    const Count row = config_.kind == "mlp" ? config_.classes : config_.vocabulary;
    const Count rows = static_cast<Count>(all.size()) / row;
    Array last;
    for (Count sample = 1; sample <= input.samples; ++sample) {
      const auto end = all.begin() + sample * (rows / input.samples) * row;
      last.insert(last.end(), end - row, end);
    }
    return last;
  }

  Weights weights;

 private:
  bool gpt2() const { return config_.kind == "gpt2"; }

  static void add(Array& x, const Array& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
  // x [rows, k] times the transpose of weight [n, k].
  static Array product(const Array& x, const Array& weight, Count rows) {
    const Count k = static_cast<Count>(x.size()) / rows;
    return reference::matmul(x, false, weight, true, rows, static_cast<Count>(weight.size()) / k, k);
  }
  Array linear(const std::string& name, const Array& x, Count rows) const {
    const Array y = product(x, weights.at(name + ".weight"), rows);
    const auto bias = weights.find(name + ".bias");
    return bias == weights.end() ? y : reference::add_bias(y, bias->second, rows, static_cast<Count>(bias->second.size()));
  }
  Array norm(const std::string& name, const Array& x, Count rows) const {
    const Array& weight = weights.at(name + ".weight");
    if (!gpt2()) return reference::rmsnorm_forward(x, weight, rows, config_.width, config_.norm_epsilon).out;
    return reference::layernorm_forward(x, weight, weights.at(name + ".bias"), rows, config_.width, config_.norm_epsilon).out;
  }
  // The heads of a row one after the other, each normalised by itself, where the model has weights for that.
  Array head_norm(const std::string& name, const Array& heads, Count rows) const {
    const auto weight = weights.find(name + ".weight");
    if (weight == weights.end()) return heads;
    const Count size = static_cast<Count>(weight->second.size()), all = static_cast<Count>(heads.size()) / size;
    EXPECT_EQ(all % rows, 0);
    return reference::rmsnorm_forward(heads, weight->second, all, size, config_.norm_epsilon).out;
  }
  Array attention(const std::string& name, const Array& x, Count samples, Count tokens) const {
    const Count rows = samples * tokens;
    const Array query = linear(name + ".query", x, rows);
    const Count head_size = static_cast<Count>(query.size()) / rows / config_.heads;
    const reference::Heads heads{samples, tokens, config_.heads, config_.kv_heads, head_size};
    const Array parts[] = {head_norm(name + ".query_norm", query, rows),
                           head_norm(name + ".key_norm", linear(name + ".key", x, rows), rows), linear(name + ".value", x, rows)};
    Array qkv;
    for (Count r = 0; r < rows; ++r) {
      for (const Array& part : parts) {
        const Count width = static_cast<Count>(part.size()) / rows;
        qkv.insert(qkv.end(), part.begin() + r * width, part.begin() + (r + 1) * width);
      }
    }
    if (!gpt2()) qkv = reference::rope(qkv, heads, config_.rope_theta, +1);
    return linear(name + ".output", reference::attention_forward(qkv, heads).out, rows);
  }
  Array feed_forward(const std::string& name, const Array& x, Count rows) const {
    Array hidden = linear(name + ".up", x, rows);
    if (gpt2()) {
      for (double& z : hidden) z = reference::gelu(z);
    } else {
      const Array gate = linear(name + ".gate", x, rows);
      for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] *= reference::silu(gate[i]);
    }
    return linear(name + ".down", hidden, rows);
  }
  Array mlp_logits(const ModelInput& input) const {
    Array x(input.features.begin(), input.features.end());
    for (Count layer = 0; layer < config_.layers; ++layer) {
      x = linear("layers." + std::to_string(layer), x, input.samples);
      for (double& z : x) z = reference::relu(z);
    }
    return linear("head", x, input.samples);
  }

  ModelSection config_;
};

}  // namespace cohort::test
