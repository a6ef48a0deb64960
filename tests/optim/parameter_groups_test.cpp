// The registry of optimizers, and which of them updates what: by the parameters' roles, or as groups of the run file say.
#include "optim/parameter_groups.hpp"

#include <gtest/gtest.h>

#include <set>

#include "models/model.hpp"
#include "optim/resident_optimizer.hpp"
#include "support/device_model.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

std::unique_ptr<Model> declared(const std::string& kind, bool tied = true) {
  ModelSection model;
  model.kind = kind;
  model.layers = 2;
  model.width = 8;
  model.heads = model.kv_heads = 2;
  model.ffn_width = 12;
  model.context = 4;
  model.vocabulary = 9;
  model.tied_head = tied;
  return declare_model(model);
}

std::string kind_for(const ParameterGroups& groups, const Model& model, const std::string& name) {
  return groups.of(*model.parameters().find(name)).kind->rules.kind;
}

OptimizerSection with_group(const std::vector<std::string>& match, std::map<std::string, KeyValue> values,
                            const std::string& kind = OptimizerSection{}.kind) {
  OptimizerSection section;
  section.kind = kind;
  section.groups = {{.match = match, .values = std::move(values), .origin = "run.toml:7"}};
  return section;
}

TEST(OptimizerKinds, HaveRulesAndAnUpdateEach) {
  std::set<std::string> kinds;
  for (const OptimizerRules* rules : all_optimizer_rules()) {
    EXPECT_TRUE(kinds.insert(rules->kind).second) << rules->kind;
    EXPECT_EQ(&optimizer_kind_of(*rules).rules, rules);
    EXPECT_EQ(&optimizer_rules_of(rules->kind), rules);
    EXPECT_FALSE(rules->help.empty());
    std::set<std::string> slots;
    for (const SlotSpec& slot : rules->slots) EXPECT_TRUE(slots.insert(slot.name).second) << rules->kind << " " << slot.name;
    if (!rules->others.empty()) {
      EXPECT_FALSE(optimizer_rules_of(rules->others).whole_matrices) << rules->kind;
    }
  }
  EXPECT_EQ(all_optimizer_kinds().size(), all_optimizer_rules().size());
  EXPECT_ERROR(optimizer_rules_of("adam"), ExitCode::config, "available: ", "adamw");
}

// Names in files stay: older checkpoints are read by them.
TEST(OptimizerKinds, SlotsHaveTheNamesOfCheckpoints) {
  const OptimizerRules& adamw = optimizer_rules_of("adamw");
  ASSERT_EQ(adamw.slots.size(), 2u);
  EXPECT_EQ(adamw.slots[0].name, "m");
  EXPECT_EQ(adamw.slots[1].name, "v");
  EXPECT_EQ(adamw.slot_bytes(), 8);
  const OptimizerRules& muon = optimizer_rules_of("muon");
  ASSERT_EQ(muon.slots.size(), 1u);
  EXPECT_EQ(muon.slots[0].name, "momentum");
}

TEST(ParameterGroups, AreOneForTheDefaults) {
  for (const char* kind : {"gpt2", "llama", "mlp", "qwen3"}) {
    const auto model = declared(kind);
    const OptimizerSection section;
    const ParameterGroups groups(section);
    EXPECT_EQ(groups.check(model->parameters()), "");
    const auto runs = runs_of(whole_of(model->parameters()).pieces, model->parameters().flat_elements(), groups);
    ASSERT_EQ(runs.size(), 1u) << "one launch for all of it, as ever";
    EXPECT_EQ(runs[0].begin, 0);
    EXPECT_EQ(runs[0].end, model->parameters().flat_elements());
    for (const auto& parameter : model->parameters().all())
      EXPECT_EQ(runs[0].group->decay_of(*parameter), parameter->global_shape.dims() > 1 ? 0.1f : 0.0f) << parameter->name;
  }
}

// By role, in every family: the matrices of blocks, and nothing else.
TEST(ParameterGroups, AnOptimizerOfMatricesTakesThoseOfBlocks) {
  OptimizerSection section;
  section.kind = "muon";
  const ParameterGroups groups(section);
  for (const char* kind : {"gpt2", "llama", "mlp", "qwen3"}) {
    for (const bool tied : {true, false}) {
      const auto model = declared(kind, tied);
      for (const auto& parameter : model->parameters().all()) {
        const std::string& name = parameter->name;
        const bool in_block = name.starts_with("blocks.") || name.starts_with("layers.");
        const bool matrix = in_block && parameter->global_shape.dims() == 2;
        EXPECT_EQ(groups.of(*parameter).kind->rules.kind, matrix ? "muon" : "adamw") << kind << " " << name;
      }
      EXPECT_TRUE(groups.check(model->parameters()).starts_with("adamw: ")) << groups.check(model->parameters());
    }
  }
}

TEST(ParameterGroups, TheFirstThatFitsCounts) {
  const auto model = declared("gpt2");
  OptimizerSection section = with_group({"blocks.0.*"}, {{"learning_rate_factor", 0.5}});
  section.groups.push_back({.match = {"*.bias", "blocks.*"}, .values = {{"weight_decay", 0.25}}, .origin = "run.toml:9"});
  const ParameterGroups groups(section);
  const auto of = [&](const std::string& name) -> const ParameterGroup& { return groups.of(*model->parameters().find(name)); };
  EXPECT_EQ(of("blocks.0.attention.query.bias").settings.learning_rate_factor, 0.5);
  EXPECT_EQ(of("blocks.0.attention.query.bias").decay_of(*model->parameters().find("blocks.0.attention.query.bias")), 0.0f);
  EXPECT_EQ(of("blocks.1.attention.query.bias").settings.learning_rate_factor, 1.0);
  EXPECT_EQ(of("blocks.1.attention.query.bias").decay_of(*model->parameters().find("blocks.1.attention.query.bias")), 0.25f)
      << "a decay that a group names is of all that match";
  EXPECT_EQ(of("embedding.weight").settings.weight_decay, 0.1);
}

TEST(ParameterGroups, ChangeWhoUpdatesWhat) {
  const auto model = declared("gpt2");
  const ParameterGroups groups(with_group({"*.attention.*.weight", "embedding.weight"}, {{"kind", std::string("muon")}}));
  EXPECT_EQ(kind_for(groups, *model, "blocks.0.attention.query.weight"), "muon");
  EXPECT_EQ(kind_for(groups, *model, "embedding.weight"), "muon") << "a group that names its optimizer means it";
  EXPECT_EQ(kind_for(groups, *model, "blocks.0.feed_forward.up.weight"), "adamw");
  const ParameterGroups others(with_group({"*.down.weight"}, {{"kind", std::string("adamw")}}, "muon"));
  EXPECT_EQ(kind_for(others, *model, "blocks.0.feed_forward.down.weight"), "adamw");
  EXPECT_EQ(kind_for(others, *model, "blocks.0.feed_forward.up.weight"), "muon");
}

TEST(ParameterGroups, WhatCannotBeIsRefusedWithTheLine) {
  const auto model = declared("gpt2");
  const auto check = [&](const OptimizerSection& section) { ParameterGroups(section).check(model->parameters()); };
  EXPECT_ERROR(check(with_group({"*.bias", "blokcs.*"}, {{"weight_decay", 0.1}})), ExitCode::config, "run.toml:7:", "blokcs.*",
               "matches no parameter");
  EXPECT_ERROR(check(with_group({"head.weight"}, {{"weight_decay", 0.1}})), ExitCode::config, "matches no parameter");
  EXPECT_ERROR(check(with_group({"*.bias"}, {{"kind", std::string("muon")}})), ExitCode::config,
               "run.toml:7:", "muon updates matrices", "bias");
  // A pattern that an earlier group takes everything of is no mistake of spelling.
  OptimizerSection both = with_group({"*"}, {{"weight_decay", 0.1}});
  both.groups.push_back({.match = {"*.bias"}, .values = {}, .origin = "run.toml:9"});
  EXPECT_NO_THROW(check(both));
}

// Runs cover the segment without a gap, and slots are those of each run's optimizer alone.
TEST(ParameterGroups, RunsCoverEverything) {
  OptimizerSection section;
  section.kind = "muon";
  const auto model = make_model(
      [] {
        ModelSection small;
        small.layers = 2, small.width = 8, small.heads = small.kv_heads = 2, small.ffn_width = 12, small.context = 4;
        small.vocabulary = 9;
        return small;
      }(),
      3, test_storage());
  const ResidentOptimizer optimizer({whole_of(model->parameters())}, section);
  Count elements = 0;
  for (std::size_t r = 0; r < optimizer.runs().size(); ++r) {
    const Optimizer::Run& run = optimizer.runs()[r];
    EXPECT_EQ(run.segment.values.raw(), model->parameters().flat_values().slice(elements, elements + 1).raw());
    elements += run.segment.values.elements();
    EXPECT_EQ(optimizer.slots(r).size(), run.slots().size());
    for (const OwnedPiece& piece : run.segment.pieces) {
      EXPECT_EQ(run.segment.values.slice(piece.at, piece.at + 1).raw(), piece.parameter->value.raw()) << piece.parameter->name;
      EXPECT_EQ(piece.parameter->optimizer_state.size(), run.slots().size()) << piece.parameter->name;
    }
  }
  EXPECT_EQ(elements, model->parameters().flat_elements());
}

}  // namespace
}  // namespace cohort::test
