// `cohort ckpt verify`: reads everything in checkpoints and lists all that is damaged.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/console.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/read/verify.hpp"
#include "checkpoint/store/store.hpp"
#include "commands/ckpt/output.hpp"
#include "commands/commands.hpp"
#include "commands/common/step_option.hpp"
#include "runtime/failure_exit.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

struct CkptVerifyOptions {
  std::vector<std::string> paths;
  bool all = false;
  std::optional<Count> step;
  bool json = false;
};

struct Verified {
  fs::path folder;
  Bytes bytes = 0;
  double seconds = 0.0;
  std::vector<Damage> damage;
};

std::vector<fs::path> folders_of(const CkptVerifyOptions& options) {
  std::vector<fs::path> folders;
  for (const std::string& path : options.paths) {
    const std::vector<StoredCheckpoint> found = options.all ? list_checkpoints(path) : std::vector<StoredCheckpoint>{};
    for (const StoredCheckpoint& checkpoint : found) folders.push_back(checkpoint.folder);
    if (found.empty()) folders.push_back(resolve_checkpoint(path, options.step));
  }
  return folders;
}

Verified verify(const fs::path& folder) {
  Verified verified{folder, 0, 0.0, {}};
  const double begin = steady_seconds();
  ReadingLine line("verifying " + folder.filename().string());
  verified.damage = find_damage(folder, [&](Bytes done, Bytes all) {
    verified.bytes = done;
    line.update(done, all);
  });
  verified.seconds = steady_seconds() - begin;
  return verified;
}

void print(const Verified& verified) {
  if (verified.damage.empty()) {
    fmt::print("{}: OK; {} of tensors read in {:.2f} s, all checksums match\n", verified.folder.string(),
               human_bytes(verified.bytes), verified.seconds);
    return;
  }
  fmt::print("{}: DAMAGED in {} place{}\n", verified.folder.string(), verified.damage.size(),
             verified.damage.size() == 1 ? "" : "s");
  for (const Damage& damage : verified.damage) fmt::print("  {}\n", damage.what);
}

nlohmann::ordered_json as_json(const Verified& verified) {
  nlohmann::ordered_json json{{"folder", verified.folder.string()},
                              {"sound", verified.damage.empty()},
                              {"bytes", verified.bytes},
                              {"seconds", verified.seconds},
                              {"damage", nlohmann::ordered_json::array()}};
  for (const Damage& damage : verified.damage) {
    json["damage"].push_back({{"file", damage.file}, {"dataset", damage.dataset}, {"what", damage.what}});
  }
  return json;
}

int verify_all(const CkptVerifyOptions& options) {
  if (!is_printing_rank()) return 0;
  int damaged = 0;
  auto json = nlohmann::ordered_json::array();
  for (const fs::path& folder : folders_of(options)) {
    const Verified verified = verify(folder);
    if (!verified.damage.empty()) ++damaged;
    if (options.json) {
      json.push_back(as_json(verified));
    } else {
      print(verified);
      flush_console();  // the next may take long
    }
  }
  if (options.json) print_json(json);
  return damaged > 0 ? static_cast<int>(ExitCode::checkpoint) : 0;
}

}  // namespace

void add_ckpt_verify(CLI::App& ckpt, Action& action) {
  auto* command = ckpt.add_subcommand("verify", "Read a whole checkpoint and list everything that is damaged");
  command->footer(
      "Exit code 0 if all are intact, 6 if one is damaged. Checking continues after damage is found.\n"
      "Examples:\n"
      "  cohort ckpt verify runs/demo                             the newest checkpoint\n"
      "  cohort ckpt verify runs/demo --all                       all of them\n"
      "  cohort ckpt verify runs/demo/checkpoints/step_00000400   this one");
  const auto options = std::make_shared<CkptVerifyOptions>();
  command->add_option("paths", options->paths, "Folders of checkpoints, or of runs: their newest checkpoint")->required();
  add_step_option(*command, options->step);
  command->add_flag("--all", options->all, "All complete checkpoints of a run")->excludes("--step");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([&action, options] { action = [options] { return verify_all(*options); }; });
}

}  // namespace cohort
