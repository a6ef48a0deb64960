// `cohort graph`: what a run computes, drawn. One process, no MPI.
#include <memory>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/output_file.hpp"
#include "commands/common/override_options.hpp"
#include "commands/plan/run_costs.hpp"
#include "config/validate.hpp"
#include "gpu/device.hpp"
#include "models/model.hpp"
#include "plan/graph/graph_drawing.hpp"
#include "runtime/failure_exit.hpp"
#include "train/counted_step.hpp"

namespace cohort {
namespace {

struct GraphOptions {
  PlanRunOptions run;  // run file, overrides, ranks
  std::string svg, dot;
  bool overwrite = false;
};

std::string checkpointing_in_words(const ModelSection& model) {
  if (model.activation_checkpointing == "none") return "";
  const std::string layers = model.checkpointed_layers > 0 ? " of " + counted(model.checkpointed_layers, "layer") : std::string();
  return fmt::format(", {} activation checkpointing{}", model.activation_checkpointing, layers);
}

GraphTitle title_of(const RunConfig& config) {
  const ParallelSection& parallel = config.parallel;
  return {fmt::format("{}, {} parameters; {}, {}{}, {}{}{}", config.model.kind,
                      human_count(static_cast<double>(count_parameters(config.model))), mesh_shape_of(parallel).str(),
                      parallel.data, parallel.sequence ? ", sequence parallelism" : "", config.precision.policy,
                      checkpointing_in_words(config.model), config.model.activation_offload ? ", activations offloaded" : ""),
          size_names(config, /*expressions=*/false)};
}

int draw_graph(const GraphOptions& options) {
  if (!is_printing_rank()) return 0;
  RunConfig config = read_plan_file(options.run);
  validate(config, ranks_of_plan(options.run, config), {.cuda = true, .gpus = gpu::visible_devices() > 0});
  const auto file_of = [&](const char* option, const std::string& path) {
    return path.empty() ? std::filesystem::path() : output_file(option, path, options.overwrite);
  };
  const std::filesystem::path svg = file_of("--svg", options.svg), dot = file_of("--dot", options.dot);
  const GraphTitle title = title_of(config);
  std::vector<GraphStage> stages;
  for (const int stage : stages_to_count(config)) {
    stages.push_back(record_graph(config, stage));
    name_sizes(config, stages.back());
  }
  if (!svg.empty()) write_file_atomically(svg, graph_svg(title, stages));
  if (!dot.empty()) write_file_atomically(dot, graph_dot(title, stages));
  fmt::print("{}", graph_text(title, stages));
  return 0;
}

}  // namespace

void add_graph_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("graph", "Draw what a run computes: units, ops, shapes, what is kept and sent");
  command->footer(
      "A step of the run is counted, not run: what is drawn is the program's own code in the run's\n"
      "layout, on one rank. Each op has the shape of its result, in sizes of the model and in numbers,\n"
      "and the bytes of it that stay for backward; these, and the scratch memory at the peak, are the\n"
      "activations that `cohort plan` predicts. Units that are alike are drawn once, and so are\n"
      "pipeline stages.\n"
      "  B T C   samples of a micro-batch, tokens of a sample, width\n"
      "  H KV D  heads, key/value heads, size of a head\n"
      "  F V     width of the feed-forward layers, vocabulary\n"
      "  BT/tp   divided among tensor-parallel ranks\n"
      "\n"
      "Examples:\n"
      "  cohort graph inputs/demo.toml --set model.vocabulary=1024\n"
      "  cohort graph inputs/demo.toml --set model.vocabulary=1024 --ranks 4 --set parallel.data=zero3\n"
      "                       when are weights gathered, and gradients scattered?\n"
      "  cohort graph inputs/demo.toml --set model.vocabulary=1024 --ranks 4 --set parallel.tp=2\n"
      "                       what does tensor parallelism add to a block?\n"
      "  cohort graph inputs/demo.toml --set model.vocabulary=1024 --svg graph.svg --dot graph.dot\n"
      "                       pictures; `dot -Tpdf graph.dot` draws the second");
  auto options = std::make_shared<GraphOptions>();
  command->add_option("run.toml", options->run.run_file, "The run file")->required();
  add_override_options(*command, options->run.overrides);
  command->add_option("--ranks", options->run.ranks, "Draw for this many ranks, without starting them")->check(integer_from(1));
  command->add_option("--svg", options->svg, "Also draw a picture into this file")->type_name("FILE");
  command->add_option("--dot", options->dot, "Also write the graph for Graphviz into this file")->type_name("FILE");
  add_overwrite_option(*command, options->overwrite, "these files");
  command->callback([&action, options] { action = [options] { return draw_graph(*options); }; });
}

}  // namespace cohort
