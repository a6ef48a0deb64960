// What backward computes again, and where what it reads waits for it, change time and memory, and not one bit: steps with
// model.activation_checkpointing, checkpointed_layers and activation_offload in every layout, and how often they run attention.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/counting_listener.hpp"
#include "ops/compare.hpp"
#include "train/proof.hpp"
#include "train/proof_steps.hpp"
#include "trainer_fixture.hpp"

namespace cohort::test {
namespace {

// How often a thread runs attention forward, of whole samples or of a part of them, and copies to the host what a block keeps.
class StepListener : public CountingListener {
 public:
  void op(std::string_view name, std::span<const CountedTensor> /*reads*/, std::span<const CountedTensor> /*writes*/) override {
    if (name == "attention_forward" || name == "partial_attention_forward") ++count;
  }
  std::size_t communicates(const Operation& one) override {
    if (one.name == "offload") ++offloads;
    return 0;
  }
  int count = 0, offloads = 0;
};

// What two steps leave on this rank.
struct TwoSteps {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<Tensor> owned;  // copies of the gradients and values of each part that this rank owns
  int attention_forwards = 0, offloads = 0;
};

// What a run keeps, and where.
struct Choice {
  const char* checkpointing;
  bool offload;
  Count layers = 0;  // that recompute, of kLayers
};
constexpr Choice kChoices[] = {{"selective", false}, {"full", false},     {"full", false, 1}, {"selective", false, 2},
                               {"none", true},       {"selective", true}, {"full", true},     {"full", true, 3}};
// More than lanes for what is offloaded.
constexpr Count kLayers = 4;

class Recomputation : public TrainerTest {
 protected:
  static TwoSteps two_steps(const RunConfig& run, const RunData& data, Communicator& group) {
    ProofRun steps(run, data, group);
    TwoSteps left;
    StepListener listener;
    for (Count step = 0; step < 2; ++step) {
      const StepInput input = steps.load(step);
      const ListeningScope listens(listener);
      const StepResult result = steps.train_step().run(input, steps.timers());
      left.losses.push_back(result.loss);
      left.norms.push_back(result.gradient_norm);
    }
    for (const OwnedSegment& segment : steps.train_step().owned()) {
      left.owned.push_back(ops::copy_of(segment.gradients));
      left.owned.push_back(ops::copy_of(segment.values));
    }
    left.attention_forwards = listener.count;
    left.offloads = listener.offloads;
    return left;
  }

  // Each choice in this layout, and each what none is.
  void expect_same_bits(const Layout& layout) const {
    const std::unique_ptr<Communicator> group = world_->split(world_->rank() < layout.ranks ? 0 : -1, world_->rank(), "layout");
    if (!group) return;
    RunConfig run = layout.config;
    run.model.activation_checkpointing = "none";
    const RunData data = open_data(*group, run, DataUse::training);
    const TwoSteps none = two_steps(run, data, *group);
    for (const auto& [choice, offload, layers] : kChoices) {
      SCOPED_TRACE(fmt::format("{}, {} {}{} of {}", layout.name, choice, layers, offload ? ", offloaded" : "", run.model.kind));
      run.model.activation_checkpointing = choice;
      run.model.checkpointed_layers = layers;
      run.model.activation_offload = offload;
      const TwoSteps steps = two_steps(run, data, *group);
      EXPECT_EQ(steps.losses, none.losses);
      EXPECT_EQ(steps.norms, none.norms);
      ASSERT_FALSE(none.owned.empty());
      ASSERT_EQ(steps.owned.size(), none.owned.size());
      for (std::size_t i = 0; i < none.owned.size(); ++i) EXPECT_TRUE(ops::same_bits(steps.owned[i], none.owned[i])) << i;
      // On some rank: a stage of one block that keeps but its input, a message, has nothing to offload.
      EXPECT_EQ(all_reduce_value(*group, static_cast<Count>(steps.offloads), ReduceOp::sum) > 0, offload);
      const auto forwards = [&](const TwoSteps& left) {  // of all ranks, so of all layers
        return all_reduce_value(*group, static_cast<Count>(left.attention_forwards), ReduceOp::sum);
      };
      const Count once = forwards(none), again = std::string(choice) != "full" ? 0 : layers > 0 ? layers : kLayers;
      EXPECT_GT(once, 0);
      EXPECT_EQ(forwards(steps), once + once / kLayers * again);
    }
  }

  // In a layout of each axis.
  void expect_same_bits_on_each_axis(const RunConfig& run) const {
    std::vector<std::string> words{"dp=" + std::to_string(world_->size()) + ",data=zero2"};
    if (world_->size() % 2 == 0)
      words.insert(words.end(), {"tp=2,sequence=true", "tp=2,sequence=true,tensor_overlap=true", "cp=2", "pp=2"});
    for (const std::string& layout : words) expect_same_bits(layout_from_words(run, layout, world_->size()));
  }

  // Of one rank: all_layouts() divides it.
  RunConfig run_of(const std::string& kind, Overrides overrides = {}) const {
    overrides.insert(overrides.begin(), {"model.kind=" + kind, fmt::format("model.layers={}", kLayers)});
    if (kind != "gpt2") overrides.insert(overrides.end(), {"unset model.dropout", "model.kv_heads=2"});
    return config(overrides, 1);
  }
};

// But for the strategies that differ from `bucketed` only in when they send. Four layers, for four stages and for two with two
// chunks, and micro-batches enough that several are under way.
TEST_F(Recomputation, HasTheSameBitsInEveryLayout) {
  std::vector<std::string> refused;
  const std::vector<Layout> layouts = all_layouts(run_of("gpt2", {"train.micro_batch=3"}), world_->size(), refused);
  const auto is_there = [&](int stages, const char* schedule) {
    return std::any_of(layouts.begin(), layouts.end(), [&](const Layout& layout) {
      return layout.config.parallel.pp == stages && layout.config.parallel.schedule == schedule;
    });
  };
  ASSERT_FALSE(layouts.empty()) << fmt::format("{}", fmt::join(refused, "; "));
  EXPECT_TRUE(world_->size() != 2 || is_there(2, "interleaved")) << fmt::format("{}", fmt::join(refused, "; "));
  EXPECT_TRUE(world_->size() != 4 || is_there(4, "1f1b")) << fmt::format("{}", fmt::join(refused, "; "));
  for (const Layout& layout : layouts) {
    const std::string& data = layout.config.parallel.data;
    if (data != "naive" && data != "hooks") expect_same_bits(layout);
  }
}

TEST_F(Recomputation, HasTheSameBitsInEveryFamily) {
  for (const char* kind : {"llama", "qwen3"}) expect_same_bits_on_each_axis(run_of(kind));
}

TEST_F(Recomputation, HasTheSameBitsOfPackedDocumentsAdaptersAnd16Bits) {
  const std::vector<Overrides> runs{
      {"data.documents=separate"}, {"lora.rank=4", "lora.targets=*"}, {"precision.policy=bf16"}, {"device.kernels=portable"}};
  for (const Overrides& overrides : runs) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(overrides, " ")));
    expect_same_bits_on_each_axis(run_of("gpt2", overrides));
  }
}

}  // namespace
}  // namespace cohort::test
