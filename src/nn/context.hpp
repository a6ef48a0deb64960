// What forward and backward need beside the model and its input.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "nn/activation_offload.hpp"
#include "nn/context_parallel.hpp"
#include "nn/kv_cache.hpp"
#include "ops/exec.hpp"
#include "ops/pointwise.hpp"
#include "tensor/arena.hpp"

namespace cohort {

/// How samples are packed with documents that do not see each other; where the model runs. Empty: a sample is one document.
struct PackedDocuments {
  std::span<const std::int32_t> first_keys;  // [B, T] of whole samples: see ops::AttentionShape
  std::span<const std::int32_t> positions;   // of the rows that are here: each token's position in its document

  bool empty() const { return first_keys.empty(); }
};

struct StepContext {
  ops::Exec exec = {};
  DType dtype = DType::f32;      // of activations, as of the parameters' `compute`
  Arena* activations = nullptr;  // what forward saves for backward, and the scratch memory of both
  // Where what blocks save is until backward; null: in the arena.
  ActivationOffload* offload = nullptr;
  Tensor loss_sum = {};   // [1] fp64, where the model adds its loss
  bool training = false;  // dropout acts only in training
  std::uint64_t seed = 0;
  std::uint32_t step = 0;             // optimizer step, keys the dropout masks
  std::span<const Count> slots = {};  // [B] position of each sample in the global batch, keys the dropout masks; set by the model
  PackedDocuments documents = {};     // likewise
  // Where only a part of each sample's tokens is here; null: all of them are.
  const ContextParallel* sequence = nullptr;
  // Where the rows are new tokens of texts whose earlier ones the cache has (KvCache::begin_*); null: they are whole samples.
  const KvCache* cache = nullptr;
  std::size_t cache_layer = 0;  // that of the block at work

  // If set, the model calls it with each unit's name and output in forward: the search for the first layer that is not finite.
  std::function<void(const std::string&, const Tensor&)> inspect = {};

  // If set, the model calls it at each layer of a pass, forward and backward: on one CPU that of a large model may take minutes,
  // and nobody else would show that the process continues.
  void (*heartbeat)() = nullptr;
  void show_life() const {
    if (heartbeat != nullptr) heartbeat();
  }

  Tensor take(const Shape& shape) const { return activations->take(shape, dtype); }
  /// For statistics.
  Tensor take_fp32(const Shape& shape) const { return activations->take(shape, DType::f32); }
  /// For gradients of what is frozen, which an op computes and nobody reads.
  Tensor take_zeros_fp32(const Shape& shape) const {
    const Tensor zeros = take_fp32(shape);
    zeros.zero();
    return zeros;
  }
  Tensor take_bytes(Bytes bytes) const { return activations->take({bytes}, DType::u8); }
  StepContext with_input(std::span<const Count> slots_of_input, const PackedDocuments& documents_of_input) const {
    StepContext copy = *this;
    copy.slots = slots_of_input;
    copy.documents = documents_of_input;
    return copy;
  }
  StepContext with_activations(Arena& arena) const {
    StepContext copy = *this;
    copy.activations = &arena;
    return copy;
  }
  StepContext with_cache_layer(std::size_t index) const {
    StepContext copy = *this;
    copy.cache_layer = index;
    return copy;
  }
  /// The dropout mask of place `layer` in the model.
  ops::DropoutKey dropout_key(double probability, std::uint32_t layer) const {
    return {training ? probability : 0.0, seed, step, layer, slots, sequence ? sequence->rows() : ops::TokenRows{}};
  }
};

}  // namespace cohort
