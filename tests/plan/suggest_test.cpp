#include "plan/suggest.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "plan/scaling_curve.hpp"
#include "planned_run.hpp"

namespace cohort::test {
namespace {

RunConfig run() { return reference_config(planned_run(1)); }

PlannedMachine cpus(Bytes memory = 0, int ranks_per_node = 8) { return {usual_cpu_profile(), ranks_per_node, memory}; }

TEST(Suggestions, FitAndAreSorted) {
  const Suggestions all = suggest_layouts(run(), 8, cpus());
  ASSERT_GT(all.fitting.size(), 10u);
  EXPECT_TRUE(all.too_large.empty());
  Bytes least = all.fitting.front().memory;
  for (std::size_t i = 0; i < all.fitting.size(); ++i) {
    const Suggestion& one = all.fitting[i];
    EXPECT_EQ(one.layout.ranks, 8);
    EXPECT_EQ(one.layout.config.train.global_batch, 48);
    EXPECT_GE(one.time.seconds, all.fitting[i > 0 ? i - 1 : 0].time.seconds);
    EXPECT_FALSE(words_of_split(one.time.split).empty());
    least = std::min(least, one.memory);
  }
  const Bytes limit = least + least / 2;
  const Suggestions some = suggest_layouts(run(), 8, cpus(limit));
  EXPECT_EQ(some.fitting.size() + some.too_large.size(), all.fitting.size());
  EXPECT_FALSE(some.fitting.empty());
  for (const Suggestion& one : some.fitting) EXPECT_LE(one.memory, limit);
  for (const Suggestion& one : some.too_large) EXPECT_GT(one.memory, limit);
  const Suggestions none = suggest_layouts(run(), 8, cpus(1));
  EXPECT_TRUE(none.fitting.empty());
  EXPECT_EQ(none.too_large.front().memory, least);
}

// The slower the links, the more a layout is worth that sends little.
TEST(Suggestions, WeighMessagesAgainstWork) {
  const auto best = [](double bytes_per_second) {
    PlannedMachine machine = cpus();
    machine.profile.node.bytes_per_second = bytes_per_second;
    return suggest_layouts(run(), 8, machine).fitting.front();
  };
  EXPECT_LT(best(1e5).moved, best(1e12).moved);
}

TEST(Suggestions, KeepTensorParallelismInsideANode) {
  const auto most = [](int ranks_per_node) {
    Count tp = 1;
    for (const Suggestion& one : suggest_layouts(run(), 8, cpus(0, ranks_per_node)).fitting)
      tp = std::max(tp, one.layout.config.parallel.tp);
    return tp;
  };
  EXPECT_EQ(most(8), 4);  // as many as there are heads
  EXPECT_EQ(most(2), 2);
}

RunConfig gpu_reference(const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all{"device.kind=cuda", "precision.policy=bf16", "model.layers=12", "model.width=256",
                               "model.context=1024"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return reference_config(planned_run(1, all));
}

PlannedMachine gpus(Bytes memory = 0, Bytes host_memory = 0) { return {datasheet_profile("h100"), 8, memory, host_memory}; }

Suggestion weighed(const RunConfig& run, const std::string& words, int ranks, const PlannedMachine& machine) {
  return weigh_layout(layout_from_words(run, words, ranks), machine);
}

// What does not fit on a GPU does with its activations on the host, if that has room for those of all ranks of the node.
TEST(Suggestions, OffloadActivationsWhereTheyDoNotFit) {
  const RunConfig plain = gpu_reference();
  RunConfig offloading = plain;
  offloading.model.activation_offload = true;
  const Suggestion all = weighed(plain, "dp=1,data=bucketed", 1, gpus());
  const Suggestion less = weighed(offloading, "dp=1,data=bucketed", 1, gpus());
  ASSERT_LT(less.memory, all.memory);
  ASSERT_GT(less.host, 0);
  const Bytes limit = (all.memory + less.memory) / 2;

  const Suggestions found = suggest_layouts(plain, 1, gpus(limit, less.host));
  ASSERT_EQ(found.fitting.size(), 1u);
  EXPECT_TRUE(found.too_large.empty());
  const Suggestion& best = found.fitting.front();
  EXPECT_TRUE(best.layout.config.model.activation_offload);
  EXPECT_EQ(best.layout.name, all.layout.name + ", activations offloaded");
  EXPECT_EQ(best.memory, less.memory);
  EXPECT_EQ(best.host, less.host);
  EXPECT_DOUBLE_EQ(best.time.seconds, less.time.seconds);
  EXPECT_DOUBLE_EQ(scaling_curve(plain, best, gpus(limit, less.host * 8)).weak.front().time.seconds, best.time.seconds);
  EXPECT_EQ(suggest_layouts(plain, 1, gpus(limit)).fitting.size(), 1u) << "of a host of which nothing is known";

  const Suggestions none = suggest_layouts(plain, 1, gpus(limit, less.host - 1));
  EXPECT_TRUE(none.fitting.empty());
  ASSERT_EQ(none.too_large.size(), 1u);
  EXPECT_EQ(none.too_large.front().lacks,
            fmt::format("{} on a rank, or {} of host memory on a node with model.activation_offload = true",
                        human_bytes(all.memory), human_bytes(less.host)));
}

// As few layers recompute as fit; with no limit of memory, or a number in the run, nothing is changed.
TEST(Suggestions, CheckpointNoMoreLayersThanTheyMust) {
  RunConfig all = gpu_reference({"model.activation_checkpointing=full"}), five = all, four = all;
  five.model.checkpointed_layers = 5;
  four.model.checkpointed_layers = 4;
  const std::string words = "dp=1,data=bucketed";
  const Bytes limit = weighed(five, words, 1, gpus()).memory;
  ASSERT_GT(weighed(four, words, 1, gpus()).memory, limit);

  const Suggestions found = suggest_layouts(all, 1, gpus(limit));
  ASSERT_EQ(found.fitting.size(), 1u);
  const Suggestion& best = found.fitting.front();
  EXPECT_EQ(best.layout.config.model.checkpointed_layers, 5);
  EXPECT_EQ(best.layout.name, weighed(all, words, 1, gpus()).layout.name + ", 5 of 12 layers checkpointed");
  EXPECT_EQ(best.memory, limit);
  EXPECT_LT(best.time.seconds, weighed(all, words, 1, gpus()).time.seconds);
  EXPECT_DOUBLE_EQ(scaling_curve(all, best, gpus(limit)).weak.front().time.seconds, best.time.seconds);

  const Suggestion roomy = suggest_layouts(all, 1, gpus(100 * limit)).fitting.front();
  EXPECT_EQ(roomy.layout.config.model.activation_checkpointing, "none");
  EXPECT_EQ(roomy.layout.name, weighed(all, words, 1, gpus()).layout.name + ", no checkpointing");

  EXPECT_EQ(suggest_layouts(all, 1, gpus()).fitting.front().layout.config.model.checkpointed_layers, 0);
  all.model.checkpointed_layers = 7;
  EXPECT_EQ(suggest_layouts(all, 1, gpus(limit)).fitting.front().layout.config.model.checkpointed_layers, 7);
}

// Layers that keep all and are offloaded, as many as their copies hide.
TEST(Suggestions, OffloadSomeLayersAmongCheckpointedOnes) {
  const RunConfig all = gpu_reference(
      {"model.activation_checkpointing=full", "model.activation_offload=true", "model.width=4096", "model.layers=24"});
  const std::string words = "dp=1,data=bucketed";
  double fastest = weighed(all, words, 1, gpus()).time.seconds;
  Count checkpointed = 0;
  for (const Count whole : {3, 4, 6, 8, 12}) {
    RunConfig some = all;
    some.model.checkpointed_layers = 24 - whole;
    const double seconds = weighed(some, words, 1, gpus()).time.seconds;
    if (seconds >= fastest) continue;
    fastest = seconds;
    checkpointed = 24 - whole;
  }
  ASSERT_GT(checkpointed, 0) << "some are faster";
  const Suggestion best = suggest_layouts(all, 1, gpus(Bytes{1} << 60)).fitting.front();
  EXPECT_EQ(best.layout.config.model.checkpointed_layers, checkpointed);
  EXPECT_DOUBLE_EQ(best.time.seconds, fastest);
}

// Four ranks of a node share its memory: where there is room for three, they do not fit.
TEST(Suggestions, CountTheHostMemoryOfAllRanksOfANode) {
  RunConfig run = gpu_reference();
  run.model.activation_offload = true;
  const std::string all = "dp=4,data=bucketed";
  const Suggestion one = weighed(run, "dp=1,data=bucketed", 1, gpus()), four = weighed(run, all, 4, gpus());
  ASSERT_EQ(one.layout.config.train.micro_batch, four.layout.config.train.micro_batch);
  EXPECT_EQ(four.host, 4 * one.host);
  EXPECT_NE(weighed(run, all, 4, gpus(0, 3 * one.host)).lacks, "");
  EXPECT_EQ(weighed(run, all, 4, gpus(0, 4 * one.host)).lacks, "");
  // On CPUs it is all that they have.
  PlannedMachine machine = cpus();
  const Suggestion on_cpu = weighed(test::run(), "dp=8,data=bucketed", 8, machine);
  EXPECT_EQ(on_cpu.host, 8 * on_cpu.memory);
  machine.host_memory = on_cpu.host - 1;
  EXPECT_NE(weighed(test::run(), "dp=8,data=bucketed", 8, machine).lacks, "");
}

// What takes parallel.offload, too, is said to fit, without a time.
TEST(Suggestions, OffloadTheOptimizerWhereNothingElseFits) {
  const RunConfig run = gpu_reference({"model.width=512", "model.context=64", "train.micro_batch=1", "train.global_batch=8"});
  Bytes timed = 0;
  for (const Suggestion& one : suggest_layouts(run, 1, gpus()).fitting) timed = std::max(timed, one.memory);
  const Suggestion alone = weighed(run, "dp=1,data=zero1,offload=optimizer", 1, gpus());
  ASSERT_LT(alone.memory, timed / 2);
  EXPECT_EQ(alone.time.seconds, 0.0);
  const Suggestions found = suggest_layouts(run, 1, gpus(timed / 2));
  EXPECT_TRUE(found.fitting.empty());
  ASSERT_EQ(found.untimed.size(), 1u);
  EXPECT_EQ(found.untimed.front().layout.config.parallel.offload, "optimizer");
  EXPECT_EQ(found.untimed.front().host, alone.host);
  EXPECT_TRUE(suggest_layouts(run, 1, gpus(timed / 2, alone.host - 1)).untimed.empty());
  EXPECT_TRUE(suggest_layouts(run, 1, gpus(timed)).untimed.empty()) << "where something fits without it";
}

// Each layout once, overlapped where that is faster.
TEST(Suggestions, OverlapTensorParallelismWhereItHelps) {
  const RunConfig run = gpu_reference({"model.width=1024"});
  const Suggestions found = suggest_layouts(run, 4, gpus());
  std::size_t overlapped = 0;
  for (const Suggestion& one : found.fitting) {
    const ParallelSection& p = one.layout.config.parallel;
    const std::string::size_type at = one.words.find(",tensor_overlap=true");
    EXPECT_EQ(p.tensor_overlap, at != std::string::npos) << one.words;
    if (p.tp == 1) continue;
    const double plain = weighed(run, one.words.substr(0, at), 4, gpus()).time.seconds;
    const double with = weighed(run, one.words.substr(0, at) + ",tensor_overlap=true", 4, gpus()).time.seconds;
    EXPECT_DOUBLE_EQ(one.time.seconds, std::min(plain, with)) << one.words;
    if (p.tensor_overlap) ++overlapped;
  }
  EXPECT_GT(overlapped, 0u);
  std::set<std::string> meshes;
  for (const Suggestion& one : found.fitting) meshes.insert(one.words.substr(0, one.words.find(",tensor_overlap")));
  EXPECT_EQ(meshes.size(), found.fitting.size());
}

// Of many layouts only those are tried that may become one of the fastest twenty: these are then those of a search through all.
TEST(Suggestions, OverlapAllThatMayBeAmongTheFastest) {
  const RunConfig run = gpu_reference({"model.width=1024", "model.heads=16", "train.global_batch=768"});
  const Suggestions found = suggest_layouts(run, 64, gpus());
  std::vector<double> fastest;
  for (const Suggestion& one : found.fitting) {
    const std::string plain = one.words.substr(0, one.words.find(",tensor_overlap"));
    double seconds = weighed(run, plain, 64, gpus()).time.seconds;
    if (one.layout.config.parallel.sequence)
      seconds = std::min(seconds, weighed(run, plain + ",tensor_overlap=true", 64, gpus()).time.seconds);
    fastest.push_back(seconds);
  }
  std::sort(fastest.begin(), fastest.end());
  ASSERT_GT(fastest.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_DOUBLE_EQ(found.fitting[i].time.seconds, fastest[i]) << found.fitting[i].words;
}

TEST(Suggestions, DoNotTryWhatFp8Refuses) {
  const Suggestions found = suggest_layouts(gpu_reference({"model.width=1024", "precision.policy=fp8"}), 4, gpus());
  EXPECT_FALSE(found.fitting.empty());
  for (const std::string& reason : found.refused) EXPECT_EQ(reason.find("tensor_overlap"), std::string::npos) << reason;
}

TEST(Suggestions, SayWhyNot) {
  const Suggestions none = suggest_layouts(run(), 5, cpus());
  const auto names = [](const char* word) {
    return [=](const std::string& reason) { return reason.find(word) != std::string::npos; };
  };
  EXPECT_TRUE(none.fitting.empty());  // five divides neither the batch, nor layers, heads or tokens
  EXPECT_TRUE(none.too_large.empty());
  EXPECT_TRUE(std::any_of(none.refused.begin(), none.refused.end(), names("parallel.tp = 5")));
}

// Whatever the layout is, the curve passes through it.
TEST(Scaling, IsKnownOfEveryLayout) {
  const PlannedMachine machine = cpus();
  for (const Suggestion& one : suggest_layouts(run(), 4, machine).fitting) {
    const ScalingCurve curve = scaling_curve(run(), one, machine);
    for (const auto* points : {&curve.weak, &curve.strong}) {
      const auto same = std::find_if(points->begin(), points->end(), [](const ScalingPoint& point) { return point.ranks == 4; });
      ASSERT_NE(same, points->end()) << one.layout.name;
      EXPECT_DOUBLE_EQ(same->time.seconds, one.time.seconds) << one.layout.name;
      EXPECT_EQ(same->memory, one.memory) << one.layout.name;
    }
  }
}

TEST(Scaling, KeepsTheLayoutAndAddsReplicas) {
  const PlannedMachine machine = cpus();
  const Suggestion best = suggest_layouts(run(), 4, machine).fitting.front();
  const ScalingCurve curve = scaling_curve(run(), best, machine);
  ASSERT_GT(curve.weak.size(), 10u);
  EXPECT_EQ(curve.weak.back().ranks, kMostRanksOfScaling);
  EXPECT_DOUBLE_EQ(curve.weak.front().efficiency, 1.0);
  for (std::size_t i = 1; i < curve.weak.size(); ++i) {
    EXPECT_GT(curve.weak[i].ranks, curve.weak[i - 1].ranks);
    EXPECT_GT(curve.weak[i].global_batch, curve.weak[i - 1].global_batch);
    EXPECT_LE(curve.weak[i].efficiency, 1.02);
  }
  for (const ScalingPoint& point : curve.strong) EXPECT_EQ(point.global_batch, 48);
  EXPECT_LE(curve.strong.back().ranks, 48 * best.layout.config.parallel.pp * best.layout.config.parallel.tp);
}

}  // namespace
}  // namespace cohort::test
