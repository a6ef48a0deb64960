// The graph is of the step that the plan counts: what its ops keep is the plan's activations, what its units send the plan's
// traffic, in every layout and of every family.
#include "plan/graph/step_graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "models/family.hpp"
#include "plan/graph/graph_drawing.hpp"
#include "plan/memory.hpp"
#include "plan/traffic.hpp"

namespace cohort {
namespace {

constexpr const char* kDecoder =
    "[model]\nlayers = 4\nwidth = 64\nheads = 4\ncontext = 32\nvocabulary = 100\n[train]\nmicro_batch = 4\n[data]\ntokens = "
    "\"t.h5\"\n";
constexpr const char* kClassifier =
    "[model]\nlayers = 3\nwidth = 8\ninputs = 4\n[data]\nkind = \"two_moons\"\n[train]\nmicro_batch = 4\n";

RunConfig config_of(const std::string& family, std::vector<std::string> overrides, Count ranks) {
  overrides.insert(overrides.begin(), "model.kind=" + family);
  const bool decoder = std::any_of(all_model_families().begin(), all_model_families().end(),
                                   [&](const ModelFamily* one) { return one->rules.kind == family && one->decoder != nullptr; });
  RunConfig config = parse_run_file(decoder ? kDecoder : kClassifier, "test.toml", overrides);
  validate(config, ranks, {.cuda = true});
  return config;
}

std::vector<GraphStage> graphs_of(const RunConfig& config) {
  std::vector<GraphStage> stages;
  for (const int stage : stages_to_count(config)) stages.push_back(record_graph(config, stage));
  return stages;
}

struct Case {
  std::vector<std::string> overrides;
  Count ranks;
};

const std::vector<Case>& layouts() {
  static const std::vector<Case> kLayouts{
      {{"parallel.data=monolith"}, 1},
      {{"train.accumulation=3"}, 2},
      {{"parallel.data=naive"}, 2},
      {{"parallel.data=zero1"}, 4},
      {{"parallel.data=zero2", "train.accumulation=2"}, 4},
      {{"parallel.data=zero3", "parallel.wrap=layer"}, 4},
      {{"parallel.data=zero3", "parallel.shard_ranks=2"}, 4},
      {{"model.activation_checkpointing=full", "parallel.data=zero3"}, 2},
      {{"model.activation_checkpointing=selective", "parallel.data=zero3"}, 2},
      {{"model.activation_checkpointing=selective", "parallel.cp=2", "parallel.tp=2"}, 4},
      {{"model.dropout=0.1"}, 1},
      {{"parallel.tp=2"}, 2},
      {{"parallel.tp=4", "parallel.sequence=true", "parallel.data=zero1"}, 8},
      {{"parallel.tp=4", "parallel.sequence=true", "parallel.tensor_overlap=true"}, 8},
      {{"parallel.cp=2"}, 4},
      {{"parallel.pp=2", "train.accumulation=4"}, 2},
      {{"parallel.pp=2", "parallel.schedule=interleaved", "parallel.chunks=2", "train.accumulation=4", "parallel.tp=2"}, 8},
      {{"parallel.pp=4", "parallel.schedule=gpipe", "train.accumulation=6", "model.activation_checkpointing=selective"}, 4},
      {{"parallel.pp=4", "parallel.schedule=gpipe", "train.accumulation=6", "model.activation_checkpointing=full"}, 4},
      // On a GPU: host memory is none of the graph's.
      {{"device.kind=cuda", "model.activation_offload=true", "model.activation_checkpointing=full"}, 1},
      {{"device.kind=cuda", "model.activation_offload=true", "parallel.pp=2", "train.accumulation=4"}, 2},
      {{"lora.rank=4"}, 2},
  };
  return kLayouts;
}

void expect_as_planned(const RunConfig& config) {
  const std::vector<GraphStage> stages = graphs_of(config);
  Bytes activations = 0;
  for (const GraphStage& stage : stages) {
    activations = std::max(activations, stage.activations());
    for (const GraphUnit& unit : stage.units) {
      Bytes kept = 0;
      for (const auto* ops : {&unit.forward, &unit.backward}) {
        for (const GraphOp& op : *ops) kept += op.kept;
      }
      EXPECT_EQ(kept, unit.kept) << unit.name;
    }
  }
  EXPECT_EQ(activations, predict_memory(config).kinds[MemoryKind::activations]);
  const std::vector<GraphTraffic> drawn = traffic_of(stages);
  for (const Traffic& planned : predict_traffic(config)) {
    const auto found = std::find_if(drawn.begin(), drawn.end(), [&](const GraphTraffic& one) {
      return one.group == planned.group && one.operation == planned.operation;
    });
    ASSERT_NE(found, drawn.end()) << planned.group << " " << planned.operation;
    EXPECT_EQ(found->bytes, planned.bytes) << planned.group << " " << planned.operation;
    EXPECT_EQ(found->calls, planned.calls) << planned.group << " " << planned.operation;
    EXPECT_EQ(found->ranks, planned.ranks);
  }
}

TEST(Graph, KeepsAndSendsWhatIsPlannedInEveryLayout) {
  for (const Case& one : layouts()) {
    SCOPED_TRACE(testing::PrintToString(one.overrides));
    expect_as_planned(config_of("gpt2", one.overrides, one.ranks));
  }
}

// Three blocks' worth is on the device at a time, and it is not scratch.
TEST(Graph, LanesOfOffloadHoldWhatBlocksKeep) {
  const GraphStage stage = record_graph(
      config_of("gpt2",
                {"model.layers=7", "device.kind=cuda", "model.activation_offload=true", "model.activation_checkpointing=full"},
                1),
      0);
  for (const std::string name : {"embedding", "blocks.0", "blocks.1"}) {  // who made the inputs of the first three blocks
    const auto unit =
        std::find_if(stage.units.begin(), stage.units.end(), [&](const GraphUnit& one) { return one.name == name; });
    ASSERT_NE(unit, stage.units.end());
    EXPECT_GT(unit->kept, 0) << name;
  }
}

TEST(Graph, KnowsEveryFamily) {
  for (const ModelFamily* family : all_model_families()) {
    SCOPED_TRACE(family->rules.kind);
    const RunConfig config = config_of(family->rules.kind, {}, 1);
    expect_as_planned(config);
    GraphStage stage = record_graph(config, 0);
    name_sizes(config, stage);
    std::set<std::string> read;
    for (const GraphUnit& unit : stage.units) {
      if (unit.name.empty()) continue;
      EXPECT_FALSE(unit.forward.empty()) << unit.name;
      EXPECT_FALSE(unit.backward.empty()) << unit.name;
      for (const GraphOp& op : unit.forward) {
        read.insert(op.parameters.begin(), op.parameters.end());
        EXPECT_NE(op.name, "memory") << unit.name << ": an op whose result is kept has no OpNote";
      }
    }
    const std::unique_ptr<Model> model = declare_model(config.model);
    for (const auto& parameter : model->parameters().all()) EXPECT_TRUE(read.contains(parameter->name)) << parameter->name;
  }
}

const GraphOp& op_of(const GraphStage& stage, const std::string& unit, const std::string& name) {
  for (const GraphUnit& one : stage.units) {
    if (one.name != unit) continue;
    for (const GraphOp& op : one.forward) {
      if (op.name == name) return op;
    }
  }
  throw std::runtime_error(unit + " has no " + name);
}

TEST(Graph, NamesSizesThoughTheirValuesAreEqual) {
  const RunConfig config = config_of("llama", {"parallel.tp=2", "parallel.sequence=true", "model.context=64"}, 2);  // T = C
  GraphStage stage = record_graph(config, 0);
  name_sizes(config, stage);
  EXPECT_EQ(op_of(stage, "blocks.1", "rmsnorm").results.front().symbols, "[BT/tp, C]");
  EXPECT_EQ(op_of(stage, "blocks.1", "rope").results.front().symbols, "[BT, 3C/tp]");
  EXPECT_EQ(op_of(stage, "blocks.1", "swiglu").results.front().symbols, "[BT, F/tp]");
  EXPECT_EQ(op_of(stage, "blocks.1", "all_gather").group, "tp");
}

TEST(Graph, LinksOpsByWhatTheyRead) {
  const GraphStage stage = record_graph(config_of("gpt2", {}, 1), 0);
  for (std::size_t u = 1; u + 1 < stage.units.size(); ++u) {
    ASSERT_FALSE(stage.units[u].forward.front().inputs.empty()) << stage.units[u].name;
    EXPECT_EQ(stage.units[u].forward.front().inputs.front().unit, u - 1) << "a unit begins with what the one before has made";
  }
}

TEST(Graph, DrawsUnitsThatAreAlikeOnce) {
  const RunConfig config = config_of("gpt2", {"parallel.data=zero1"}, 2);
  GraphStage stage = record_graph(config, 0);
  name_sizes(config, stage);
  const std::vector<UnitRun> runs = runs_of(stage);
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[1].title, "blocks.0 to blocks.3");
  const GraphTitle title{"gpt2 <test>", size_names(config, false)};
  const std::string text = graph_text(title, {stage}), svg = graph_svg(title, {stage}), dot = graph_dot(title, {stage});
  EXPECT_NE(text.find("layernorm              [BT, C] = [128, 64]"), std::string::npos) << text;
  EXPECT_NE(text.find("reduce_scatter"), std::string::npos) << text;
  std::size_t widest = 0, begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin = end + 1))
    widest = std::max(widest, end - begin);
  EXPECT_LE(widest, 100u) << text;
  EXPECT_NE(svg.find("gpt2 &lt;test&gt;"), std::string::npos);
  EXPECT_TRUE(dot.starts_with("digraph") && dot.ends_with("}\n"));
  EXPECT_NE(dot.find(" -> "), std::string::npos);
}

}  // namespace
}  // namespace cohort
