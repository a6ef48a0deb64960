// `cohort ckpt ls`: the checkpoints of a run, or of all runs below a folder.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/inspect/inventory.hpp"
#include "checkpoint/store/retention.hpp"
#include "commands/ckpt/output.hpp"
#include "commands/commands.hpp"
#include "runtime/failure_exit.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

struct CkptLsOptions {
  std::vector<std::string> paths;
  bool json = false;
};

/// A run's entries, and which of them is the newest and the best; -1 if there is none.
struct Listed {
  fs::path run;
  std::vector<CheckpointEntry> entries;
  std::ptrdiff_t newest = -1;
  std::ptrdiff_t best = -1;
};

Listed list_run(const fs::path& run) {
  Listed listed{run, inventory_of(run)};
  std::vector<RetentionCandidate> candidates;
  for (const CheckpointEntry& entry : listed.entries) {
    const bool sound = entry.kind == EntryKind::complete;
    candidates.push_back({entry.step, sound, validation_loss_of(entry.state.validation_loss)});
    if (sound) listed.newest = static_cast<std::ptrdiff_t>(candidates.size()) - 1;
  }
  const std::vector<RetentionVerdict> verdicts = apply_retention(candidates, {});
  const auto best = std::find_if(verdicts.begin(), verdicts.end(), [](const RetentionVerdict& verdict) { return verdict.best; });
  if (best != verdicts.end()) listed.best = best - verdicts.begin();
  return listed;
}

std::vector<fs::path> runs_of(const std::vector<std::string>& paths) {
  std::vector<fs::path> runs;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      fail(ExitCode::checkpoint, "{}: no such folder; name a run's folder, or one that holds runs", path);
    }
    for (const fs::path& run : find_runs(path)) {
      if (std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(run);
    }
  }
  return runs;
}

std::string marks_of(const Listed& listed, std::size_t i) {
  std::vector<std::string> marks;
  if (listed.newest == static_cast<std::ptrdiff_t>(i)) marks.emplace_back("newest");
  if (listed.best == static_cast<std::ptrdiff_t>(i)) marks.emplace_back("best");
  return join(marks, " ");
}

void print(const Listed& listed) {
  Table table({"step", "form", "size", "parameters", "optimizer", "val loss", "created", "layout", ""});
  std::string others;
  std::size_t complete = 0;
  for (std::size_t i = 0; i < listed.entries.size(); ++i) {
    const CheckpointEntry& entry = listed.entries[i];
    if (entry.kind != EntryKind::complete) {
      others += fmt::format("  {} ({}, {}): {}\n", entry.folder.filename().string(), name_of(entry.kind),
                            human_bytes(entry.bytes), entry.reason);
      continue;
    }
    ++complete;
    const TrainingState& state = entry.state;
    const double loss = validation_loss_of(state.validation_loss);
    table.add({std::to_string(entry.step), std::string(name_of(entry.form)), human_bytes(entry.bytes),
               human_count(static_cast<double>(entry.parameters)), entry.has_optimizer ? "yes" : "no",
               std::isfinite(loss) ? fmt::format("{:.4f}", loss) : "-", state.created,
               fmt::format("{}: {}", counted(state.ranks, "rank"), state.layout), marks_of(listed, i)});
  }
  fmt::print("{}\n{}", listed.run.string(), complete > 0 ? table.str(9) : "no complete checkpoint\n");
  if (!others.empty()) fmt::print("not checkpoints:\n{}", others);
}

nlohmann::ordered_json as_json(const Listed& listed) {
  nlohmann::ordered_json json{{"run", listed.run.string()}, {"entries", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < listed.entries.size(); ++i) {
    const CheckpointEntry& entry = listed.entries[i];
    nlohmann::ordered_json item{{"folder", entry.folder.string()}, {"kind", name_of(entry.kind)}, {"bytes", entry.bytes}};
    if (entry.step >= 0) item["step"] = entry.step;
    if (entry.kind == EntryKind::complete) {
      item["form"] = name_of(entry.form);
      item["parameters"] = entry.parameters;
      item["optimizer"] = entry.has_optimizer;
      item["newest"] = listed.newest == static_cast<std::ptrdiff_t>(i);
      item["best"] = listed.best == static_cast<std::ptrdiff_t>(i);
      for_each_field(entry.state, [&](const char* name, const auto& field) { item[name] = field; });
    } else {
      item["reason"] = entry.reason;
    }
    json["entries"].push_back(std::move(item));
  }
  return json;
}

int list(const CkptLsOptions& options) {
  if (!is_printing_rank()) return 0;
  const std::vector<fs::path> runs = runs_of(options.paths);
  if (runs.empty() && !options.json) {
    fmt::print("no run with checkpoints in {}\n", join(options.paths));
    return 0;
  }
  auto json = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Listed listed = list_run(runs[i]);
    if (options.json) {
      json.push_back(as_json(listed));
    } else {
      fmt::print("{}", i > 0 ? "\n" : "");
      print(listed);
    }
  }
  if (options.json) print_json(json);
  return 0;
}

}  // namespace

void add_ckpt_ls(CLI::App& ckpt, Action& action) {
  auto* command = ckpt.add_subcommand("ls", "List the checkpoints of a run, or of all runs below a folder");
  command->footer(
      "Folders that are not complete checkpoints are listed below the others with the reason: a save in progress or killed,\n"
      "no manifest, damage. Elements are not read: `cohort ckpt verify` does that.\n"
      "Examples:\n"
      "  cohort ckpt ls runs/demo\n"
      "  cohort ckpt ls runs --json");
  const auto options = std::make_shared<CkptLsOptions>();
  command->add_option("paths", options->paths, "Folders of runs, or folders that hold runs")->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([&action, options] { action = [options] { return list(*options); }; });
}

}  // namespace cohort
