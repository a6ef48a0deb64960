// Planted faults of pipelines: the comparison that accepts the engine must reject every one of them.
#include <gtest/gtest.h>

#include "comm/mpi_communicator.hpp"
#include "parallel/pipeline/stages.hpp"
#include "parallel/pipeline/training.hpp"

namespace cohort::test {
namespace {

using pipeline::Engine;
using pipeline::Schedule;
using pipeline::ScheduleKind;

class PipelineMutants : public ::testing::Test {
 protected:
  void SetUp() override {
    if (world_->size() == 1) GTEST_SKIP() << "one stage has nothing to get wrong";
  }
  int ranks() const { return world_->size(); }
  PipelineDistance distance_of(const PipelineOptions& options, const Schedule& schedule) {
    return distance(train_pipeline(*world_, {.schedule = schedule}, options), train_whole("gpt2"));
  }
  PipelineDistance distance_of(const PipelineOptions& options) {
    return distance_of(options, {ScheduleKind::one_f_one_b, ranks(), 1, 4});
  }
  template <class Mutant>
  static PipelineOptions with() {
    return {.make = [](const PipelineParts& parts) {
      return std::make_unique<Mutant>(parts.model, parts.schedule, parts.stages, parts.host_stages);
    }};
  }

  std::unique_ptr<Communicator> world_ = make_world_communicator();
};

// The gradients of both copies of the tied weight stay apart.
struct NoTiedSum : Engine {
  using Engine::Engine;
  void finish(DataParallel&, StepTimers&) override {}
};

TEST_F(PipelineMutants, ATiedWeightThatIsNotSummedIsRejected) {
  const PipelineDistance found = distance_of(with<NoTiedSum>());
  EXPECT_GT(found.gradients, 100 * PipelineDistance::kTolerance) << found.str();
  EXPECT_FALSE(found.copies_agree);
}

// Every stage adds the loss to its own.
struct LossOnEveryStage : Engine {
  LossOnEveryStage(Decoder& model, const Schedule& schedule, Communicator& stages, Communicator& host)
      : Engine(model, schedule, stages, host), stages_of_mutant_(stages) {}
  void run(const StepContext& context, std::span<const ModelInput> micro_batches, float gradient_scale, DataParallel& strategy,
           StepTimers& timers) override {
    Engine::run(context, micro_batches, gradient_scale, strategy, timers);
    stages_of_mutant_.all_reduce(context.loss_sum.raw(), 1, DType::f64, ReduceOp::sum);
  }

 private:
  Communicator& stages_of_mutant_;
};

TEST_F(PipelineMutants, TheLossOnEveryStageIsRejected) {
  EXPECT_NEAR(distance_of(with<LossOnEveryStage>()).losses, ranks() - 1, 1e-3);
}

// Hands everything on to `inner`, but zeros go instead of the `lost`-th message of each step that the last rank sends: the
// gradient of one micro-batch.
class LosingStages : public Communicator {
 public:
  LosingStages(Communicator& inner, int lost, int messages)
      : Communicator(inner.name(), inner.rank(), inner.size()), inner_(inner), lost_(lost), messages_(messages) {}
  std::string_view backend() const override { return inner_.backend(); }

 protected:
  Request do_send(const void* data, Count elements, DType dtype, int to, int) override {
    if (rank() + 1 == size() && sent_++ % messages_ == lost_) {
      zeros_ = Tensor::zeros("test.zeros", {elements}, dtype, test_device());
      data = zeros_.raw();
    }
    return inner_.send_async(data, elements, dtype, to);
  }
  Request do_recv(void* data, Count elements, DType dtype, int from, int) override {
    return inner_.recv_async(data, elements, dtype, from);
  }
  Request do_all_reduce(void* data, Count elements, DType dtype, ReduceOp op) override {
    return inner_.all_reduce_async(data, elements, dtype, op);
  }
  Request do_all_gather(const void*, void*, Count, DType) override { return {}; }
  Request do_reduce_scatter(const void*, void*, Count, DType, ReduceOp) override { return {}; }
  Request do_broadcast(void*, Count, DType, int) override { return {}; }
  void do_barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> do_split(int color, int key, std::string name) override {
    return inner_.split(color, key, std::move(name));
  }

 private:
  Communicator& inner_;
  int lost_, messages_;
  int sent_ = 0;
  Tensor zeros_;
};

TEST_F(PipelineMutants, ALostGradientOfOneMicroBatchIsRejected) {
  constexpr int kMicroBatches = 4;
  for (int lost = -1; lost < kMicroBatches; ++lost) {
    std::unique_ptr<LosingStages> stages;  // outlives the engine
    const PipelineDistance found = distance_of({.make = [&](const PipelineParts& parts) {
      stages = std::make_unique<LosingStages>(parts.stages, lost, kMicroBatches);
      return std::make_unique<Engine>(parts.model, parts.schedule, *stages, parts.host_stages);
    }});
    EXPECT_EQ(found.accepted(), lost < 0) << "lost " << lost << ": " << found.str();
  }
}

// Each rank gets neighbouring layers, where chunk c of rank r ought to be virtual stage c S + r.
TEST_F(PipelineMutants, NeighbouringLayersInTheChunksOfARankAreRejected) {
  const Schedule schedule{ScheduleKind::interleaved, ranks(), 2, ranks() == 3 ? 6 : 4};
  const auto wrong = [](const ModelSection& model, const Schedule& of, int rank) {
    const auto ranges = pipeline::stage_ranges(model.layers, of.virtual_stages(), {});
    std::vector<ChunkSpec> chunks;
    for (int chunk = 0; chunk < of.chunks; ++chunk) {
      const int stage = rank * of.chunks + chunk;
      const auto& range = ranges[static_cast<std::size_t>(stage)];
      chunks.push_back({range.first, range.end, stage == 0, stage + 1 == of.virtual_stages()});
    }
    return chunks;
  };
  EXPECT_TRUE(distance_of({}, schedule).accepted());
  const PipelineDistance found = distance_of({.chunks = wrong}, schedule);
  EXPECT_GT(found.losses, 100 * PipelineDistance::kTolerance) << found.str();
}

// All gradients are added, but the strategy is told of the last micro-batch one too early.
struct LastTooEarly : Engine {
  using Engine::Engine;
  void run(const StepContext& context, std::span<const ModelInput> micro_batches, float gradient_scale, DataParallel& strategy,
           StepTimers& timers) override {
    struct Early : DataParallel {
      Early(Model& model, Communicator& group, DataParallel& inner, int micro_batches)
          : DataParallel(model, group), inner_(inner), micro_batches_(micro_batches) {}
      std::string_view name() const override { return "early"; }
      void pre_backward(const Unit& unit) override { inner_.pre_backward(unit); }
      void grad_ready(Parameter& parameter) override {
        const int seen = seen_[&parameter]++;
        inner_.set_last_micro_batch(seen == std::max(0, micro_batches_ - 2));
        inner_.grad_ready(parameter);
      }
      void finish_gradients(StepTimers&) override {}
      DataParallel& inner_;
      int micro_batches_;
      std::map<const Parameter*, int> seen_;
    };
    Early early(*model_of_mutant, *group_of_mutant, strategy, static_cast<int>(micro_batches.size()));
    Engine::run(context, micro_batches, gradient_scale, early, timers);
  }
  Model* model_of_mutant = nullptr;
  Communicator* group_of_mutant = nullptr;
};

TEST_F(PipelineMutants, AReductionBeforeTheLastMicroBatchIsRejected) {
  if (ranks() != 4) GTEST_SKIP() << "dp 2 x pp 2";
  const PipelineOptions options{.make = [](const PipelineParts& parts) {
    auto mutant = std::make_unique<LastTooEarly>(parts.model, parts.schedule, parts.stages, parts.host_stages);
    mutant->model_of_mutant = &parts.model;
    mutant->group_of_mutant = &parts.stages;
    return mutant;
  }};
  const PipelineLayout layout{.dp = 2, .schedule = {ScheduleKind::one_f_one_b, 2, 1, 4}};
  const PipelineDistance found = distance(train_pipeline(*world_, layout, options), train_whole("gpt2"));
  EXPECT_GT(found.gradients, 100 * PipelineDistance::kTolerance) << found.str();
}

}  // namespace
}  // namespace cohort::test
