// `cohort ckpt prune`: deletes the checkpoints of a run that a retention does not keep.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/inspect/inventory.hpp"
#include "checkpoint/store/folders.hpp"
#include "checkpoint/store/retention.hpp"
#include "checkpoint/store/store.hpp"
#include "comm/self_communicator.hpp"
#include "commands/ckpt/output.hpp"
#include "commands/commands.hpp"
#include "rundir/run_lock.hpp"
#include "runtime/failure_exit.hpp"
#include "runtime/launcher.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

struct CkptPruneOptions {
  std::string run;
  Retention retention;
  bool dry_run = false;
  bool leftovers = false;
  bool json = false;
};

/// What is to happen with something in the folder.
struct Fate {
  CheckpointEntry entry;
  bool goes = false;
  std::string why;
};

// A folder with the name under which a checkpoint is deleted: a save of that step may be writing there.
bool is_being_saved(const fs::path& run, Count step) {
  std::error_code error;
  return fs::exists(checkpoints_folder(run) / temporary_name(step), error);
}

std::vector<Fate> fates_of(const CkptPruneOptions& options) {
  std::vector<Fate> fates;
  std::vector<RetentionCandidate> candidates;
  for (CheckpointEntry& entry : inventory_of(options.run)) {
    candidates.push_back({entry.step, entry.kind == EntryKind::complete, validation_loss_of(entry.state.validation_loss)});
    fates.push_back({std::move(entry), false, ""});
  }
  const std::vector<RetentionVerdict> verdicts = apply_retention(candidates, options.retention);
  for (std::size_t i = 0; i < fates.size(); ++i) {
    Fate& fate = fates[i];
    if (fate.entry.kind == EntryKind::leftover) {
      fate.goes = options.leftovers;
      fate.why = options.leftovers ? "a leftover" : "a save may be in progress: if none is, delete it with --leftovers";
    } else if (fate.entry.kind == EntryKind::incomplete || fate.entry.kind == EntryKind::stranger ||
               fate.entry.kind == EntryKind::set_aside) {
      fate.why = fate.entry.reason;
    } else if (!verdicts[i].stays && is_being_saved(options.run, fate.entry.step) && !options.leftovers) {
      fate.why = "this step is being saved again, or such a save was killed: see --leftovers";
    } else if (const auto stranger = stranger_in(fate.entry.folder); stranger && !verdicts[i].stays) {
      fate.why = fmt::format("{} was not written by Cohort", stranger->string());
    } else {
      fate.goes = !verdicts[i].stays;
      fate.why = verdicts[i].reason;
    }
  }
  return fates;
}

void carry_out(const CkptPruneOptions& options, const std::vector<Fate>& fates) {
  if (options.leftovers) tidy_checkpoints(options.run);
  // A former checkpoint that still counted has its step's name now.
  std::vector<StoredCheckpoint> now = list_checkpoints(options.run);
  for (const Fate& fate : fates) {
    if (!fate.goes || fate.entry.kind == EntryKind::leftover) continue;
    for (const StoredCheckpoint& checkpoint : now) {
      if (checkpoint.step == fate.entry.step) remove_checkpoint(options.run, checkpoint);
    }
  }
}

nlohmann::ordered_json as_json(const CkptPruneOptions& options, const std::vector<Fate>& fates) {
  nlohmann::ordered_json json{{"run", options.run}, {"dry_run", options.dry_run}, {"entries", nlohmann::ordered_json::array()}};
  for (const Fate& fate : fates) {
    json["entries"].push_back({{"folder", fate.entry.folder.string()},
                               {"kind", name_of(fate.entry.kind)},
                               {"bytes", fate.entry.bytes},
                               {"deleted", fate.goes},
                               {"why", fate.why}});
  }
  return json;
}

void print(const CkptPruneOptions& options, const std::vector<Fate>& fates) {
  Table table({"", "size", "", "why"});
  Bytes freed = 0;
  Count gone = 0;
  for (const Fate& fate : fates) {
    table.add({fate.entry.folder.filename().string(), human_bytes(fate.entry.bytes), fate.goes ? "goes" : "stays", fate.why});
    if (!fate.goes) continue;
    freed += fate.entry.bytes;
    ++gone;
  }
  fmt::print("{}{} {}, {} in total\n", table.str(4), gone, options.dry_run ? "would be deleted" : "deleted", human_bytes(freed));
}

// Nobody may save in the run while leftovers are deleted: a save in progress looks like one.
std::unique_ptr<RunLock> lock_against_saves(Communicator& alone, const CkptPruneOptions& options) {
  if (!options.leftovers || options.dry_run) return nullptr;
  return std::make_unique<RunLock>(
      alone, options.run, read_launcher_facts(current_environment()),
      LockOptions{.say = [](const std::string& text) { print_error_line(text); },
                  .way_out = "prune without --leftovers, which keeps what may be a save in progress"});
}

int prune(const CkptPruneOptions& options) {
  if (!is_printing_rank()) return 0;
  const Retention& retention = options.retention;
  if (retention.keep < 1 || retention.keep_every < 0) {
    fail(ExitCode::usage, "--keep {}, --keep-every {}: --keep must be 1 or more, and --keep-every 0 or more", retention.keep,
         retention.keep_every);
  }
  std::error_code error;
  if (!fs::is_directory(checkpoints_folder(options.run), error)) {
    fail(ExitCode::checkpoint, "{}: no checkpoints found; name a run's folder", options.run);
  }
  const std::unique_ptr<Communicator> alone = make_self_communicator("prune");
  const std::unique_ptr<RunLock> lock = lock_against_saves(*alone, options);
  const std::vector<Fate> fates = fates_of(options);
  if (!options.dry_run) carry_out(options, fates);
  options.json ? print_json(as_json(options, fates)) : print(options, fates);
  return 0;
}

}  // namespace

void add_ckpt_prune(CLI::App& ckpt, Action& action) {
  auto* command = ckpt.add_subcommand("prune", "Delete old checkpoints of a run");
  command->footer(
      "Keeps the newest ones, those of every M steps, and the one with the lowest validation loss. Damaged ones are neither\n"
      "counted nor deleted. The run file's keys checkpoint.keep, keep_every and keep_best do the same after each save.\n"
      "Examples:\n"
      "  cohort ckpt prune runs/demo --keep 2 --dry-run                      what would be deleted\n"
      "  cohort ckpt prune runs/demo --keep 2 --keep-every 1000 --keep-best");
  const auto options = std::make_shared<CkptPruneOptions>();
  command->add_option("run", options->run, "A run's folder")->required();
  command->add_option("--keep", options->retention.keep, "How many of the newest to keep, 1 or more")->required();
  command->add_option("--keep-every", options->retention.keep_every, "Also keep those whose step is a multiple of this; 0: none");
  command->add_flag("--keep-best", options->retention.keep_best, "Also keep the one with the lowest validation loss");
  command->add_flag("--dry-run", options->dry_run, "Only show what would be deleted");
  command->add_flag(
      "--leftovers", options->leftovers,
      "Also delete what killed saves left; refused while a job trains in this run: a save in progress looks the same");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([&action, options] { action = [options] { return prune(*options); }; });
}

}  // namespace cohort
