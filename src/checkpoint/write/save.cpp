#include <chrono>
#include <ctime>

#include "base/error.hpp"
#include "base/file.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/format/root_rank.hpp"
#include "checkpoint/read/reader.hpp"
#include "checkpoint/store/folders.hpp"
#include "checkpoint/write/on_commit.hpp"
#include "checkpoint/write/rank_files.hpp"
#include "checkpoint/write/save.hpp"
#include "checkpoint/write/whole_file.hpp"
#include "comm/consensus.hpp"
#include "comm/self_communicator.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

void on_root(Communicator& comm, const std::function<void()>& work) {
  fail_together(comm, "saving the checkpoint", [&] {
    if (comm.rank() == kRoot) work();
  });
}

// What lacks when all files are there. What fails after the new checkpoint counts does not make the save a failure.
Saved commit(const fs::path& run_folder, const fs::path& temporary, Manifest manifest, const TrainingState& state,
             const SaveOptions& options) {
  manifest.step = state.step;
  for_each_text(state, [&](const std::string& name, const std::string& text) {
    manifest.texts["/" + name] = crc32_of(text.data(), static_cast<Bytes>(text.size()));
  });
  write_file_atomically(temporary / kManifestFile, to_json_text(manifest));
  if (options.verify) CheckpointReader(temporary).verify();
  publish_checkpoint(run_folder, temporary, state.step);
  Saved saved{state.step, checkpoints_folder(run_folder) / step_name(state.step), manifest.bytes(), ""};
  try {
    prune_checkpoints(run_folder, state.step, options.retention);
    run_on_commit(options.on_commit, saved.folder, state.step);
  } catch (const std::exception& error) {
    saved.trouble = error.what();
  }
  return saved;
}

// One checkpoint from its first file to its name; write(folder) writes all files but the manifest, which it returns on rank 0.
// Collective over: comm
Saved save_files(Communicator& comm, const fs::path& run_folder, TrainingState state, const SaveOptions& options,
                 const std::function<Manifest(const fs::path& folder, const TrainingState& state)>& write) {
  if (state.created.empty()) state.created = now_utc();
  const fs::path temporary = checkpoints_folder(run_folder) / temporary_name(state.step);
  Saved saved;
  try {
    on_root(comm, [&] {
      make_folders(checkpoints_folder(run_folder));
      tidy_checkpoints(run_folder, options.alone ? std::nullopt : std::optional(state.step));
      make_folders(temporary);
    });
    Manifest manifest = write(temporary, state);
    on_root(comm, [&] { saved = commit(run_folder, temporary, std::move(manifest), state, options); });
  } catch (const Error&) {
    // Give the space back, which may be what was lacking. Nothing counts on it: the name is not that of a checkpoint.
    if (comm.rank() == kRoot) remove_unfinished_save(temporary);
    throw;
  }
  saved.step = state.step;
  saved.folder = broadcast_text(comm, saved.folder.string(), kRoot);
  saved.bytes = all_reduce_value(comm, saved.bytes, ReduceOp::max);
  saved.trouble = broadcast_text(comm, saved.trouble, kRoot);
  return saved;
}

// One that holds a whole tensor has it in memory from the first block to the last.
WriteItem write_item_of(const StoredTensor& tensor, int order) {
  const Count all = tensor.shape.elements();
  const auto read = [read = tensor.read, all, whole = Tensor()](Count begin, Count elements) mutable {
    if (!whole.defined()) {
      whole = read();
      COHORT_CHECK(whole.elements() == all, "{} elements instead of {}", whole.elements(), all);
    }
    const Tensor block = whole.reshaped({all}).slice(begin, begin + elements);
    if (begin + elements == all) whole = Tensor();  // the block keeps its memory
    return block;
  };
  return {tensor.dataset, order, tensor.dtype, TensorPart(tensor.shape), read};
}

}  // namespace

Saved save_parts(Communicator& comm, const fs::path& run_folder, std::vector<WriteItem> parts, const TrainingState& state,
                 const SaveOptions& options) {
  sort_write_items(parts);
  return save_files(comm, run_folder, state, options, [&](const fs::path& folder, const TrainingState& complete) {
    return options.form == CheckpointForm::per_rank ? write_rank_files(comm, folder, parts, complete, options.storage)
                                                    : write_whole_file(comm, folder, parts, complete, options.storage);
  });
}

Saved save_parts_of_ranks(const fs::path& run_folder, std::vector<std::vector<WriteItem>> ranks, const TrainingState& state,
                          const SaveOptions& options) {
  COHORT_CHECK(options.form == CheckpointForm::per_rank, "the files of ranks in the form {}", name_of(options.form));
  for (std::vector<WriteItem>& parts : ranks) sort_write_items(parts);
  const std::unique_ptr<Communicator> self = make_self_communicator("checkpoint");
  return save_files(*self, run_folder, state, options, [&](const fs::path& folder, const TrainingState& complete) {
    Manifest manifest = write_files_of_ranks(folder, ranks, options.storage);
    write_index(folder, manifest, complete);
    return manifest;
  });
}

fs::path save_shards(Communicator& comm, const fs::path& run_folder, const std::vector<StateShard>& shards,
                     const TrainingState& state, const SaveOptions& options) {
  return save_parts(comm, run_folder, write_items_of(shards, options), state, options).folder;
}

fs::path save_checkpoint(const fs::path& run_folder, const std::vector<StoredTensor>& tensors, const TrainingState& state,
                         const SaveOptions& options) {
  std::vector<WriteItem> parts;
  for (const StoredTensor& tensor : tensors) parts.push_back(write_item_of(tensor, static_cast<int>(parts.size())));
  const std::unique_ptr<Communicator> self = make_self_communicator("checkpoint");
  return save_parts(*self, run_folder, std::move(parts), state, options).folder;
}

}  // namespace cohort
