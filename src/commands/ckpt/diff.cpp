// `cohort ckpt diff`: two checkpoints, or two runs, compared tensor by tensor.
#include "commands/ckpt/diff.hpp"

#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/store/store.hpp"
#include "commands/ckpt/output.hpp"
#include "commands/commands.hpp"
#include "commands/common/step_option.hpp"
#include "runtime/failure_exit.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

struct CkptDiffOptions {
  std::string a, b;
  std::optional<Count> step;
  double tolerance = 0.0;
  Count limit = 20;
  bool each_step = false;
  bool json = false;
};

CheckpointDifference compare(const fs::path& a, const fs::path& b, double tolerance) {
  const CheckpointReader first(a);
  const CheckpointReader second(b);
  ReadingLine line(fmt::format("comparing step {}", first.state().step));
  return {first.state().step, compare_tensors(first, second, tolerance, line.progress()),
          compare_states(first.state(), second.state()), compare_run_files(first.state().run_file, second.state().run_file)};
}

std::vector<CheckpointDifference> compare_each_step(const CkptDiffOptions& options) {
  const std::vector<StoredCheckpoint> in_a = list_checkpoints(options.a);
  const std::vector<StoredCheckpoint> in_b = list_checkpoints(options.b);
  std::vector<CheckpointDifference> steps;
  for (const StoredCheckpoint& a : in_a) {
    for (const StoredCheckpoint& b : in_b) {
      if (a.step == b.step) steps.push_back(compare(a.folder, b.folder, options.tolerance));
    }
  }
  if (!steps.empty()) return steps;
  const auto text = [](const std::vector<StoredCheckpoint>& checkpoints) {
    std::vector<std::string> numbers;
    for (const StoredCheckpoint& checkpoint : checkpoints) numbers.push_back(std::to_string(checkpoint.step));
    return numbers.empty() ? "none" : join(numbers);
  };
  fail(ExitCode::checkpoint, "--each-step: no step has a checkpoint in both runs; {} has steps {}; {} has steps {}", options.a,
       text(in_a), options.b, text(in_b));
}

int diff(const CkptDiffOptions& options) {
  if (!is_printing_rank()) return 0;
  if (!std::isfinite(options.tolerance) || options.tolerance < 0.0 || options.limit < 0) {
    fail(ExitCode::usage, "--tolerance {}, --limit {}: both must be 0 or more", options.tolerance, options.limit);
  }
  bool unequal = false;
  if (options.each_step) {
    const std::vector<CheckpointDifference> steps = compare_each_step(options);
    auto json = nlohmann::ordered_json::array();
    for (const CheckpointDifference& step : steps) {
      unequal = unequal || step.unequal();
      json.push_back(as_json(step, options.limit));
    }
    options.json ? print_json(json) : fmt::print("{}", as_text(steps, options.limit));
  } else {
    const fs::path a = resolve_checkpoint(options.a, options.step);
    const fs::path b = resolve_checkpoint(options.b, options.step);
    const CheckpointDifference difference = compare(a, b, options.tolerance);
    unequal = difference.unequal();
    if (options.json) {
      nlohmann::ordered_json json{{"a", a.string()}, {"b", b.string()}};
      json.update(as_json(difference, options.limit));
      print_json(json);
    } else {
      fmt::print("A: {}\nB: {}\n\n{}", a.string(), b.string(), as_text(difference, options.limit));
    }
  }
  return unequal ? static_cast<int>(ExitCode::unequal) : 0;
}

}  // namespace

void add_ckpt_diff(CLI::App& ckpt, Action& action) {
  auto* command = ckpt.add_subcommand("diff", "Compare two checkpoints or runs tensor by tensor");
  command->footer(
      "Exit code 0 if tensors and training state are equal, 11 if not. Writer, losses and run file are shown but not compared:\n"
      "layouts may differ. Elements are compared bit for bit, or, with --tolerance,\n"
      "count as different if |a-b| is larger. 16-bit elements are compared as fp32. relative: |a-b| / max(|a|, |b|).\n"
      "Examples:\n"
      "  cohort ckpt diff runs/a runs/b                           the newest of each\n"
      "  cohort ckpt diff runs/a runs/b --each-step               where they start to differ\n"
      "  cohort ckpt diff runs/a runs/b --tolerance 1e-6 --json");
  const auto options = std::make_shared<CkptDiffOptions>();
  command->add_option("a", options->a, "A checkpoint's folder, or a run's: its newest checkpoint")->required();
  command->add_option("b", options->b, "Another one")->required();
  add_step_option(*command, options->step);
  command->add_option("--tolerance", options->tolerance, "Largest |a-b| that counts as equal");
  command->add_flag("--each-step", options->each_step, "Two runs: compare all steps that both have")->excludes("--step");
  command->add_option("--limit", options->limit, "List at most this many tensors; 0: all")->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([&action, options] { action = [options] { return diff(*options); }; });
}

}  // namespace cohort
