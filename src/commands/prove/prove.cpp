// `cohort prove`: shows that layouts train as one rank does.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "commands/commands.hpp"
#include "commands/common/learners_code.hpp"
#include "commands/common/load_run.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/output_file.hpp"
#include "commands/common/override_options.hpp"
#include "commands/prove/proof_picture.hpp"
#include "runtime/failure_exit.hpp"
#include "runtime/runtime.hpp"
#include "train/precision.hpp"
#include "train/proof.hpp"

namespace cohort {
namespace {

struct ProveOptions {
  std::string run_file;
  std::vector<std::string> overrides;
  std::vector<std::string> layouts;
  std::string svg;
  bool overwrite = false;
  Count steps = 10;
  bool find = false;
  bool json = false;
  std::string with;
};

std::vector<Layout> layouts_of(const ProveOptions& options, const RunConfig& config, Communicator& world,
                               std::vector<std::string>& refused) {
  if (options.layouts.empty()) return all_layouts(config, world.size(), refused);
  std::vector<Layout> layouts;
  fail_together(world, "reading the layouts", [&] {
    for (const std::string& words : options.layouts) layouts.push_back(layout_from_words(config, words, world.size()));
  });
  return layouts;
}

struct Line {
  const Layout* layout;
  ProofResult result;
};

const char* verdict_of(const ProofResult& result) { return result.equal() ? "equal" : "DIFFERS"; }

void print_table(const std::vector<Line>& lines, const std::vector<std::string>& refused, const Tolerance& tolerance, bool find) {
  Table table({"layout", "loss", "norm", "gradients", "weights", "loss curve", "verdict"});
  for (const Line& line : lines) {
    const ProofResult& r = line.result;
    const auto number = [](double x) { return x == 0.0 ? std::string("0") : fmt::format("{:.1e}", x); };
    table.add({line.layout->name, number(r.losses), number(r.norms), number(r.gradients), number(r.weights), number(r.curve),
               verdict_of(r)});
  }
  fmt::print("\nLargest differences from one rank:\n{}Allowed: {:.0e} ({}).\n", table.str(), tolerance.value, tolerance.reason);
  fmt::print(
      "Each step is compared with the step that one rank takes from the layout's current weights; weights, allowed\n"
      "{:.0e}, with what one rank's optimizer makes of the layout's gradients. \"Loss curve\" is the distance to\n"
      "the losses of an independent run on one rank: rounding drives the two apart, faster at higher rates; that is no error.\n",
      kUpdateTolerance);
  if (!refused.empty()) fmt::print("\nRefused for this run:\n");
  for (const std::string& reason : refused) fmt::print("  {}\n", reason);
  if (!find) return;
  for (const Line& line : lines) {
    if (line.result.equal()) continue;
    fmt::print("\n{} differs from step {} on:\n", line.layout->name, line.result.differences.front().step);
    for (const StepDifference& one : line.result.differences) fmt::print("  {:.1e}  {}\n", one.difference, one.what);
  }
}

nlohmann::ordered_json to_json(const std::vector<Line>& lines, const std::vector<std::string>& refused,
                               const Tolerance& tolerance) {
  nlohmann::ordered_json json{{"tolerance", tolerance.value},
                              {"tolerance_of_weights", kUpdateTolerance},
                              {"refused", refused},
                              {"layouts", nlohmann::ordered_json::array()}};
  for (const Line& line : lines) {
    const ProofResult& r = line.result;
    nlohmann::ordered_json item{{"layout", line.layout->name}, {"ranks", line.layout->ranks}, {"loss", r.losses},
                                {"gradient_norm", r.norms},    {"gradients", r.gradients},    {"weights", r.weights},
                                {"loss_curve", r.curve},       {"equal", r.equal()}};
    if (!r.equal()) item["differs_at"] = {{"step", r.differences.front().step}, {"first", r.differences.front().what}};
    json["layouts"].push_back(std::move(item));
  }
  return json;
}

void draw(const std::vector<Line>& lines, const RunConfig& config, const Tolerance& tolerance, Count steps,
          const std::filesystem::path& picture) {
  std::vector<ProvedLayout> layouts;
  layouts.reserve(lines.size());
  for (const Line& line : lines) layouts.push_back({line.layout->name, line.result});
  const std::string title = fmt::format("{}: largest differences from one rank in {}, {}", config.run.name,
                                        counted(steps, "step"), config.precision.policy);
  write_file_atomically(picture, draw_proof(layouts, tolerance, title));
}

int run_proof(const ProveOptions& options) {
  for (const std::string& assignment : options.overrides) {
    if (assignment.starts_with("parallel."))
      fail(ExitCode::usage, "--set {}: `cohort prove` takes layouts by --layout, as --layout {}", assignment,
           assignment.substr(std::string("parallel.").size()));
  }
  if (!options.with.empty() && options.layouts.empty())
    fail(ExitCode::usage, "--with {}: name the layouts that use it, as --layout data=hooks", options.with);
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  std::filesystem::path picture;  // on rank 0
  fail_together(*world, "the picture", [&] {
    if (world->rank() == 0 && !options.svg.empty()) picture = output_file("--svg", options.svg, options.overwrite);
  });
  RunConfig config = load_run_without_layout(runtime, *world, options.run_file, options.overrides);
  const RunData data = open_data(*world, config, DataUse::training);
  set_up_job(runtime, *world, config);
  std::vector<std::string> refused;
  const std::vector<Layout> layouts = layouts_of(options, config, *world, refused);
  use_learners_code(*world, options.with);
  const Tolerance tolerance = proof_tolerance(config.precision);
  const bool speaks = world->rank() == 0 && !options.json;
  if (speaks) {
    const std::string& initial = config.run.initial_checkpoint;
    fmt::print("{} of {} on one rank{} ...\n", counted(options.steps, "step"), counted(config.train.global_batch, "sample"),
               initial.empty() ? "" : ", from the weights of " + initial);
  }
  const std::vector<double> curve = losses_of_one_rank(config, data, *world, options.steps);
  std::vector<Line> lines;
  bool all_equal = true;
  for (const Layout& layout : layouts) {
    if (speaks) fmt::print("{} ...", layout.name);
    flush_console();
    lines.push_back({&layout, prove(config, layout, data, *world, curve, tolerance)});
    all_equal = all_equal && lines.back().result.equal();
    if (speaks) fmt::print(" {}\n", verdict_of(lines.back().result));
  }
  if (speaks) print_table(lines, refused, tolerance, options.find);
  if (!picture.empty()) draw(lines, config, tolerance, options.steps, picture);
  if (speaks && !picture.empty()) fmt::print("\nDrawn in {}\n", options.svg);
  if (world->rank() == 0 && options.json) fmt::print("{}\n", to_json(lines, refused, tolerance).dump(1));
  flush_console();
  world->barrier();  // a launcher ends the job when the first rank exits with a code
  return static_cast<int>(all_equal ? ExitCode::success : ExitCode::unequal);
}

}  // namespace

void add_prove_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("prove", "Prove that layouts train as one rank does");
  command->footer(
      "Trains some steps in each layout and takes each of them on one rank, too, from the same weights; prints the largest\n"
      "differences in loss, gradient norm, gradients and updated weights. Exits with 11 if any is above the tolerance.\n"
      "All start from the weights of run.initial_checkpoint, if the run file names one.\n"
      "[parallel] of the run file is not read: layouts come from --layout.\n"
      "\n"
      "Examples:\n"
      "  mpirun -np 4 cohort prove inputs/lab01_tiny_transformer.toml --steps 3      every layout of four ranks\n"
      "  mpirun -np 4 cohort prove inputs/demo.toml --layout data=zero3             one layout, of a larger model\n"
      "  mpirun -np 4 cohort prove inputs/demo.toml --layout dp=2,tp=2 --layout pp=4,schedule=gpipe --steps 3\n"
      "  mpirun -np 4 cohort prove inputs/demo.toml --layout cp=4 --steps 3 --find  what differs first, if anything\n"
      "  mpirun -np 2 cohort prove inputs/demo.toml --steps 2 --svg proof.svg       a picture of the differences");
  const auto options = std::make_shared<ProveOptions>();
  command->add_option("run.toml", options->run_file, "The run file: model, data, batch, optimizer")->required();
  add_override_options(*command, options->overrides);
  command->add_option("--layout", options->layouts, "Keys of [parallel], such as dp=2,tp=2,data=zero1 (may be repeated)")
      ->type_name("KEYS")
      ->allow_extra_args(false);
  command->add_option("--steps", options->steps, "Optimizer steps")->check(integer_from(1))->capture_default_str();
  command->add_option("--svg", options->svg, "Draw the differences into this file as well")->type_name("FILE");
  add_overwrite_option(*command, options->overwrite, "the file of --svg");
  add_with_option(*command, options->with);
  command->add_flag("--find", options->find, "Name the first step and the tensors that differ");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([&action, options] { action = [options] { return run_proof(*options); }; });
}

}  // namespace cohort
