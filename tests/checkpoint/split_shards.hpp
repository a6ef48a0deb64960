// Tensors of which several dims are split at once, as experts with tensor parallelism inside are, and the rest by ZeRO. Every
// element is the number of its place, computed from the definition of a box, so that none can be taken for another.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "checkpoint_fixture.hpp"

namespace cohort::test {

/// Over how many ranks each axis goes. Splits are uneven.
struct Splits {
  int experts = 1;  // dim 0 of what belongs to experts
  int inner = 1;    // dim 1
  int tensor = 1;   // the last dim
  int zero = 1;     // of what these leave

  int ranks() const { return experts * inner * tensor * zero; }
  std::string name() const { return fmt::format("experts {} x inner {} x tensor {} x zero {}", experts, inner, tensor, zero); }
};

inline const std::vector<std::pair<std::string, Shape>> kSplitParameters{
    {"experts.up.weight", {6, 170, 1100}},  // [E, C, F]: more than a block of checksums
    {"experts.down.weight", {6, 9, 4, 7}},
    {"attention.weight", {13, 17}},  // all experts have it: split over `inner` and `tensor` alone
    {"norm.weight", {11}},           // every rank has it whole
    {"temperature", {}}};

/// What each element holds; exact in fp32.
inline float value_at(const std::string& tensor, Count element) {
  return static_cast<float>(tensor.starts_with(kModelGroup) ? element : -1 - element);
}

/// Where element i of a part lies in the tensor, from the definition.
inline Count place_of(const TensorPart& part, Count i) {
  Count rest = part.begin() + i, place = 0, stride = 1;
  for (int dim = part.shape().dims() - 1; dim >= 0; --dim) {
    const auto d = static_cast<std::size_t>(dim);
    place += (part.box().start[d] + rest % part.box().count[d]) * stride;
    rest /= part.box().count[d];
    stride *= part.shape()[dim];
  }
  return place;
}

/// What rank `rank` of so many has, with its elements or with zeros for them.
inline std::vector<StateShard> shards_of_split(const Splits& splits, int rank, bool filled) {
  const int zero = rank % splits.zero;
  const int tensor = rank / splits.zero % splits.tensor;
  const int inner = rank / splits.zero / splits.tensor % splits.inner;
  const int expert = rank / splits.zero / splits.tensor / splits.inner;
  ParameterRegistry registry;
  for (const auto& [name, shape] : kSplitParameters) {
    ShardSpec shard;
    const auto split = [&](int dim, Axis axis, int place, int parts) {
      const auto edge = [&, n = shape[dim]](Count r) { return n * r * (r + 1) / (parts * (parts + 1)); };
      if (parts > 1) shard.splits.push_back({dim, axis, edge(place), edge(place + 1)});
    };
    const bool of_experts = name.starts_with("experts");
    if (of_experts) split(0, Axis::dp, expert, splits.experts);
    if (shape.dims() > 1) {
      split(of_experts ? 1 : 0, Axis::cp, inner, splits.inner);
      split(shape.dims() - 1, Axis::tp, tensor, splits.tensor);
    }
    shard.counts = (of_experts || expert == 0) && (shape.dims() > 1 || (inner == 0 && tensor == 0));
    registry.declare(name, shape, {}, 0, shard);
  }
  // ZeRO's block of all of it, one parameter behind the other.
  const Count begin = registry.elements() * zero / splits.zero, end = registry.elements() * (zero + 1) / splits.zero;
  OwnedSegment own{Tensor::zeros("test", {end - begin}), {}, {}, {}};
  for (const auto& parameter : registry.all()) {
    const Count from = std::max(begin, parameter->offset), to = std::min(end, parameter->offset + parameter->elements());
    if (from < to) own.pieces.push_back({parameter.get(), from - parameter->offset, from - begin, to - from});
  }
  const Tensor moments = Tensor::zeros("test", {end - begin});
  const std::vector<StateShard> shards = shards_of({own}, {{{"m", moments}}}, {});
  for (const StateShard& shard : shards) {
    if (!filled) break;
    float* values = shard.elements.to_host().f32();
    for (Count i = 0; i < shard.part.elements(); ++i) values[i] = value_at(shard.tensor, place_of(shard.part, i));
  }
  return shards;
}

/// How many elements of these shards are not those of their places.
inline Count wrong_elements(const std::vector<StateShard>& shards) {
  Count wrong = 0;
  for (const StateShard& shard : shards) {
    const float* values = shard.elements.to_host().f32();
    for (Count i = 0; i < shard.part.elements(); ++i) {
      wrong += values[i] != value_at(shard.tensor, place_of(shard.part, i)) ? 1 : 0;
    }
  }
  return wrong;
}

}  // namespace cohort::test
