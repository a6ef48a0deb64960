#include "checkpoint/load/collective.hpp"

#include <functional>
#include <type_traits>

#include "checkpoint/format/root_rank.hpp"
#include "checkpoint/load/shards.hpp"
#include "checkpoint/store/store.hpp"
#include "comm/consensus.hpp"

namespace cohort {
namespace {

void run_on_root(Communicator& comm, std::string_view what, const std::function<void()>& work) {
  fail_together(comm, what, [&] {
    if (comm.rank() == kRoot) work();
  });
}

}  // namespace

void broadcast_state(Communicator& comm, TrainingState& state) {
  for_each_attribute(state, [&](const char*, auto& field) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(field)>, std::string>) {
      field = broadcast_text(comm, field, kRoot);
    } else {
      static_assert(sizeof(field) == sizeof(std::int64_t));
      comm.broadcast(&field, 1, DType::i64, kRoot);
    }
  });
  for_each_text(state, [&](const char*, std::string& text) { text = broadcast_text(comm, text, kRoot); });
}

TrainingState load_checkpoint_collectively(Communicator& comm, const std::filesystem::path& path,
                                           const ParameterRegistry& registry, std::string_view model) {
  const TrainingState state = load_shards(comm, path, shards_of({whole_of(registry), frozen_of(registry)}, {}, {}), model);
  registry.values_changed();
  return state;
}

std::filesystem::path resolve_checkpoint_collectively(Communicator& comm, const std::filesystem::path& path,
                                                      std::optional<Count> step) {
  std::string folder;
  run_on_root(comm, "looking for the checkpoint", [&] { folder = resolve_checkpoint(path, step).string(); });
  return broadcast_text(comm, folder, kRoot);
}

TrainingState read_training_state_collectively(Communicator& comm, const std::filesystem::path& path) {
  TrainingState state;
  run_on_root(comm, "reading the checkpoint", [&] { state = read_training_state(resolve_checkpoint(path)); });
  broadcast_state(comm, state);
  return state;
}

}  // namespace cohort
