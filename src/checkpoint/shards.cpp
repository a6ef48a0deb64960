#include "checkpoint/shards.hpp"

#include <algorithm>
#include <exception>

#include "checkpoint/collective.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/shard_table.hpp"
#include "comm/agreement.hpp"

namespace cohort {
namespace {

constexpr int kRoot = 0;

std::vector<StateShard> in_order(std::vector<StateShard> shards) {
  std::stable_sort(shards.begin(), shards.end(), comes_before);
  return shards;
}

const StateShard& own_shard(const std::vector<StateShard>& shards, const StateShard& like) {
  const auto found = std::find_if(shards.begin(), shards.end(), [&](const StateShard& shard) {
    return shard.dataset == like.dataset && shard.begin == like.begin;
  });
  COHORT_CHECK(found != shards.end(), "rank 0 has no shard of {} at {}", like.dataset, like.begin);
  return *found;
}

/// Rank 0's side of a save: whole tensors out of all ranks' shards. Every shard that writes must be received, used or not: its
/// sender waits.
class Assembler {
 public:
  Assembler(Communicator& comm, const std::vector<StateShard>& own, std::vector<ShardedTensor> tensors)
      : comm_(comm), own_(own), tensors_(std::move(tensors)) {}

  std::vector<StoredTensor> stored() {
    std::vector<StoredTensor> list;
    for (const ShardedTensor& tensor : tensors_) {
      list.push_back({tensor.dataset, tensor.shape, DType::f32, [this] { return assemble(tensors_[next_++]); }});
    }
    return list;
  }
  void receive_the_rest() {
    while (next_ < tensors_.size()) {
      try {
        assemble(tensors_[next_++]);
      } catch (const Error&) {  // the failure that counts is the first
      }
    }
  }

 private:
  Tensor assemble(const ShardedTensor& tensor) {
    const Tensor whole = Tensor::zeros("checkpoint.tensor", tensor.shape);
    Count covered = 0;
    for (const ShardEntry& entry : tensor.entries) {
      if (!entry.shard.writes) continue;
      covered += entry.elements;
      Tensor part;
      if (entry.rank == kRoot) {
        part = own_shard(own_, entry.shard).elements.to_host();
      } else {
        part = Tensor::zeros("checkpoint.part", {entry.elements});
        comm_.recv(part.raw(), entry.elements, DType::f32, entry.rank);
      }
      for_each_run(entry.shard, entry.elements,
                   [&](Count i, Count at, Count n) { std::copy_n(part.f32() + i, n, whole.f32() + at); });
    }
    COHORT_CHECK(covered == tensor.shape.elements(), "the ranks write {} elements of {}, which has {}", covered, tensor.dataset,
                 tensor.shape.elements());
    return whole;
  }

  Communicator& comm_;
  const std::vector<StateShard>& own_;
  std::vector<ShardedTensor> tensors_;
  std::size_t next_ = 0;
};

// How rank 0 announces a tensor: its dataset, and whether all ranks need all of it. No dataset: that was the last.
struct Announcement {
  std::string dataset;
  bool whole = false;
};

Announcement announce(Communicator& comm, const Announcement& next) {
  const std::string text = broadcast_text(comm, (next.whole ? "*" : "-") + next.dataset, kRoot);
  return {text.substr(1), text.front() == '*'};
}

/// Rank 0's side of a load: reads one tensor after the other and hands its parts out.
class Distributor {
 public:
  Distributor(Communicator& comm, const std::vector<StateShard>& own, const std::vector<ShardedTensor>& tensors)
      : comm_(comm), own_(own), tensors_(tensors) {}

  /// An error of the file ends it between two tensors, so that no rank waits for a part.
  TrainingState run(const std::filesystem::path& path, std::string_view model) const {
    const CheckpointReader reader(resolve_checkpoint(path));
    std::vector<StoredTensor> stored;
    for (const ShardedTensor& tensor : tensors_) stored.push_back({tensor.dataset, tensor.shape, DType::f32, {}});
    check_stored(reader, model, stored);
    for (const ShardedTensor& tensor : tensors_) {
      const Tensor whole = Tensor::zeros("checkpoint.tensor", tensor.shape);
      reader.read(*reader.manifest().find(tensor.dataset), whole);
      hand_out(tensor, whole);
    }
    return reader.state();
  }

 private:
  void hand_out(const ShardedTensor& tensor, const Tensor& whole) const {
    const auto is_whole = [&](const ShardEntry& entry) { return entry.elements == tensor.shape.elements(); };
    const bool all_whole = tensor.entries.size() == static_cast<std::size_t>(comm_.size()) &&
                           std::all_of(tensor.entries.begin(), tensor.entries.end(), is_whole);
    announce(comm_, {tensor.dataset, all_whole});
    if (all_whole) comm_.broadcast(whole.raw(), whole.elements(), DType::f32, kRoot);
    for (const ShardEntry& entry : tensor.entries) {
      if (all_whole && entry.rank != kRoot) continue;
      const Tensor part = Tensor::zeros("checkpoint.part", {entry.elements});
      for_each_run(entry.shard, entry.elements,
                   [&](Count i, Count at, Count n) { std::copy_n(whole.f32() + at, n, part.f32() + i); });
      if (entry.rank == kRoot) {
        own_shard(own_, entry.shard).elements.copy_from(part);
      } else {
        comm_.send(part.raw(), entry.elements, DType::f32, entry.rank);
      }
    }
  }

  Communicator& comm_;
  const std::vector<StateShard>& own_;
  const std::vector<ShardedTensor>& tensors_;
};

/// The other ranks' side.
void receive_shards(Communicator& comm, const std::vector<StateShard>& own) {
  for (Announcement next = announce(comm, {}); !next.dataset.empty(); next = announce(comm, {})) {
    for (const StateShard& shard : own) {
      if (shard.dataset != next.dataset) continue;
      const Tensor part = Tensor::zeros("checkpoint.part", {shard.elements.elements()});
      if (next.whole) {
        comm.broadcast(part.raw(), part.elements(), DType::f32, kRoot);
      } else {
        comm.recv(part.raw(), part.elements(), DType::f32, kRoot);
      }
      shard.elements.copy_from(part);
    }
  }
}

}  // namespace

std::vector<StateShard> shards_of(const std::vector<OwnedSegment>& owned, const std::vector<SegmentState>& states, bool writes) {
  std::vector<StateShard> shards;
  for (std::size_t s = 0; s < owned.size(); ++s) {
    for (const OwnedPiece& piece : owned[s].pieces) {
      const Parameter& parameter = *piece.parameter;
      const auto add = [&](std::string dataset, const StateElements& flat) {
        shards.push_back({std::move(dataset), parameter.id, parameter.global_shape,
                          ShardMap(parameter.global_shape, parameter.shard), piece.begin,
                          flat.slice(piece.at, piece.at + piece.elements), writes && parameter.shard.counts});
      };
      add(value_dataset(parameter.name), owned[s].values);
      for (const SegmentState& state : states) add(state_dataset(state.slot, parameter.name), state.segments[s]);
    }
  }
  return shards;
}

std::filesystem::path save_shards(Communicator& comm, const std::filesystem::path& run_folder,
                                  const std::vector<StateShard>& given, const TrainingState& state, const SaveOptions& options) {
  const std::vector<StateShard> shards = in_order(given);
  std::vector<ShardedTensor> tensors = collect_shards(comm, shards);
  std::string folder;
  std::exception_ptr failure;
  if (comm.rank() == kRoot) {
    Assembler assembler(comm, shards, std::move(tensors));
    try {
      folder = save_checkpoint(run_folder, assembler.stored(), state, options).string();
    } catch (...) {
      failure = std::current_exception();
      assembler.receive_the_rest();
    }
  } else {
    for (const StateShard& shard : shards) {
      if (!shard.writes) continue;
      const Tensor host = shard.elements.to_host();
      comm.send(host.raw(), host.elements(), DType::f32, kRoot);
    }
  }
  agree(comm, "saving the checkpoint", [&] {
    if (failure) std::rethrow_exception(failure);
  });
  return broadcast_text(comm, folder, kRoot);
}

TrainingState load_shards(Communicator& comm, const std::filesystem::path& path, const std::vector<StateShard>& given,
                          std::string_view model) {
  const std::vector<StateShard> shards = in_order(given);
  const std::vector<ShardedTensor> tensors = collect_shards(comm, shards);
  TrainingState state;
  std::exception_ptr failure;
  if (comm.rank() == kRoot) {
    try {
      state = Distributor(comm, shards, tensors).run(path, model);
    } catch (...) {
      failure = std::current_exception();
    }
    announce(comm, {});
  } else {
    receive_shards(comm, shards);
  }
  agree(comm, "loading the checkpoint", [&] {
    if (failure) std::rethrow_exception(failure);
  });
  broadcast_state(comm, state);
  return state;
}

}  // namespace cohort
