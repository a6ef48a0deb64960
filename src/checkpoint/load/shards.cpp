#include "checkpoint/load/shards.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/format/root_rank.hpp"
#include "checkpoint/load/collective.hpp"
#include "checkpoint/load/stored_model.hpp"
#include "checkpoint/read/reader.hpp"
#include "checkpoint/store/store.hpp"
#include "comm/consensus.hpp"

namespace cohort {
namespace {

// The shares of the replicas are equal as far as whole tensors let them be: a tensor goes to the replica in whose share of all
// elements its middle lies.
void share_writing(std::vector<StateShard>& shards, const Replica& replica) {
  Count all = 0;
  for (const StateShard& shard : shards) all += shard.part.elements();
  Count before = 0;
  for (StateShard& shard : shards) {
    const Count middle = before + shard.part.elements() / 2;
    const Count share = all == 0 ? 0 : std::min<Count>(middle * replica.count / all, replica.count - 1);
    shard.writes_share = shard.writes && share == replica.index;
    shard.writes = shard.writes && replica.index == 0;
    before += shard.part.elements();
  }
}

void read_shards(const TensorReader& reader, const std::vector<StateShard>& shards) {
  for (const StateShard& shard : shards) {
    const ManifestTensor& source = *source_of(reader.manifest(), shard.tensor);
    shard.elements.overwrite([&](std::span<float> into) { reader.read(source, shard.part, into); });
  }
}

}  // namespace

std::vector<StateShard> shards_of(const std::vector<OwnedSegment>& owned, const std::vector<std::vector<SegmentSlot>>& slots,
                                  const Replica& replica) {
  COHORT_CHECK(slots.empty() || slots.size() == owned.size(), "slots of {} segments for {}", slots.size(), owned.size());
  std::vector<StateShard> shards;
  for (std::size_t s = 0; s < owned.size(); ++s) {
    const bool declared = !owned[s].values.defined();
    for (const OwnedPiece& piece : owned[s].pieces) {
      const Parameter& parameter = *piece.parameter;
      const TensorPart part(parameter.global_shape, parameter.box(), piece.begin, piece.elements);
      const auto add = [&](std::string tensor, const StateElements& flat) {
        const StateElements elements = declared ? StateElements() : flat.slice(piece.at, piece.at + piece.elements);
        shards.push_back({std::move(tensor), parameter.id, part, elements, parameter.shard.counts});
      };
      add(value_dataset(parameter.name), owned[s].values);
      if (slots.empty()) continue;
      for (const SegmentSlot& slot : slots[s]) add(state_dataset(slot.slot, parameter.name), slot.elements);
    }
  }
  share_writing(shards, replica);
  return shards;
}

TrainingState load_shards(Communicator& comm, const std::filesystem::path& path, const std::vector<StateShard>& shards,
                          std::string_view model) {
  TrainingState state;
  std::string folder;
  std::string manifest;
  fail_together(comm, "loading the checkpoint", [&] {
    if (comm.rank() != kRoot) return;
    const CheckpointReader reader(resolve_checkpoint(path));
    state = reader.state();
    folder = reader.folder().string();
    manifest = to_json_text(reader.manifest());
  });
  broadcast_state(comm, state);
  folder = broadcast_text(comm, folder, kRoot);
  manifest = broadcast_text(comm, manifest, kRoot);
  const TensorReader reader(folder, manifest_from_text(manifest, folder));
  // Each rank knows a part of the model. Together they must want all that the checkpoint has of it.
  std::vector<std::uint8_t> wanted(reader.manifest().tensors().size(), 0);
  for (const StateShard& shard : shards) {
    if (const ManifestTensor* tensor = reader.manifest().find(shard.tensor)) {
      wanted[static_cast<std::size_t>(tensor - reader.manifest().tensors().data())] = 1;
    }
  }
  comm.all_reduce(wanted.data(), static_cast<Count>(wanted.size()), DType::u8, ReduceOp::max);
  fail_together(comm, "loading the checkpoint", [&] {
    check_model(reader, state, model, shards, wanted);
    read_shards(reader, shards);
  });
  return state;
}

}  // namespace cohort
