// What a checkpoint must hold for a run to resume from it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "checkpoint/load/shards.hpp"
#include "checkpoint/read/tensor_reader.hpp"

namespace cohort {

/// The stored tensor that holds the fp32 elements of `tensor`: where /model is stored rounded, /optim/master for a value. Null if
/// there is none.
const ManifestTensor* source_of(const Manifest& manifest, const std::string& tensor);

/// Throws Error(checkpoint), before anything is read, unless the checkpoint is of this model, has exactly its values, and has the
/// optimizer states that the shards name, all of the right shapes and of floating types. `wanted` marks the manifest's tensors of
/// which some rank holds a part.
void check_model(const TensorReader& reader, const TrainingState& state, std::string_view model,
                 const std::vector<StateShard>& shards, const std::vector<std::uint8_t>& wanted);

}  // namespace cohort
