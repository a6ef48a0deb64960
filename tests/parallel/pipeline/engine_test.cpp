// The pipeline trains what one rank trains: losses, gradients and weights, under every schedule, alone and beside data
// parallelism; and it keeps, sends and records what it promises.
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/mpi_communicator.hpp"
#include "comm/trace.hpp"
#include "parallel/pipeline/stages.hpp"
#include "parallel/pipeline/training.hpp"

namespace cohort::test {
namespace {

using pipeline::Schedule;
using pipeline::ScheduleKind;

const PipelineTraining& yardstick(const std::string& model) {
  static std::map<std::string, PipelineTraining> trainings;
  if (!trainings.contains(model)) trainings[model] = train_whole(model);
  return trainings.at(model);
}

class PipelineEngine : public ::testing::Test {
 protected:
  int ranks() const { return world_->size(); }
  // The schedules of `stages` stages with `micro_batches` micro-batches, as far as the model has layers for them.
  static std::vector<Schedule> schedules(const std::string& model, int stages, int micro_batches) {
    std::vector<Schedule> all{{ScheduleKind::gpipe, stages, 1, micro_batches},
                              {ScheduleKind::one_f_one_b, stages, 1, micro_batches}};
    if (micro_batches % stages == 0 && 2 * stages <= pipeline_section(model).layers)
      all.push_back({ScheduleKind::interleaved, stages, 2, micro_batches});
    return all;
  }
  void expect_accepted(const PipelineLayout& layout) {
    const PipelineDistance found = distance(train_pipeline(*world_, layout), yardstick(layout.model));
    EXPECT_TRUE(found.accepted()) << layout.str() << ": " << found.str();
  }

  std::unique_ptr<Communicator> world_ = make_world_communicator();
};

TEST_F(PipelineEngine, LossesGradientsAndWeightsAreThoseOfOneRank) {
  for (const char* model : {"gpt2", "llama"}) {
    for (const int micro_batches : {1, 2, 3, 4, 6, 8}) {
      for (const Schedule& schedule : schedules(model, ranks(), micro_batches))
        expect_accepted({.model = model, .schedule = schedule});
    }
  }
}

// Eight layers in eight virtual stages: the most chunks that there can be.
TEST_F(PipelineEngine, ManyChunksOfOneLayer) {
  if (8 % ranks() != 0) return;
  const int chunks = 8 / ranks();
  expect_accepted({.schedule = {ScheduleKind::interleaved, ranks(), chunks, 2 * ranks()}});
}

TEST_F(PipelineEngine, EveryDataParallelStrategyGoesWithIt) {
  if (ranks() != 4) GTEST_SKIP() << "dp 2 x pp 2";
  for (const char* model : {"gpt2", "llama"}) {
    for (const char* strategy : {"naive", "hooks", "bucketed", "zero1"}) {
      for (const Schedule& schedule : schedules(model, 2, 4)) expect_accepted({model, 2, schedule, strategy});
    }
    for (const char* wrap : {"model", "layer"}) {
      for (const Schedule& schedule : schedules(model, 2, 2)) expect_accepted({model, 2, schedule, "zero1", wrap});
    }
  }
}

// Three times, since races hide.
TEST_F(PipelineEngine, RepeatedRunsHaveTheSameBits) {
  for (const Schedule& schedule : schedules("gpt2", ranks(), 2 * ranks())) {
    const PipelineLayout layout{.schedule = schedule};
    const PipelineTraining first = train_pipeline(*world_, layout);
    for (const unsigned run : {1u, 2u})
      EXPECT_TRUE(train_pipeline(*world_, layout, {.unrelated_seed = run}) == first) << layout.str();
  }
}

TEST_F(PipelineEngine, KeepsAsManyActivationsAsTheScheduleSays) {
  for (const Schedule& schedule : schedules("gpt2", ranks(), 12)) {
    train_pipeline(*world_, {.schedule = schedule}, {.after_steps = [&](pipeline::Engine& engine, Communicator& stages) {
      EXPECT_EQ(engine.most_under_way(), most_in_flight(schedule, stages.rank())) << name_of(schedule.kind);
    }});
  }
}

// An activation or a gradient of rows x width for each micro-batch and boundary; besides, the step sums loss and squared norm.
TEST_F(PipelineEngine, SendsWhatTheFormulaSays) {
  const ModelSection section = pipeline_section("llama");
  for (const Schedule& schedule : schedules("llama", ranks(), 12)) {
    CommTrace trace;
    const auto attach = [&](pipeline::Engine&, Communicator& stages) { trace.attach(stages); };
    const auto check = [&](pipeline::Engine&, Communicator& stages) {
      const Count sends = sends_of(schedule, stages.rank()) * kPipelineSteps;
      const Count elements = kPipelineSamples / schedule.micro_batches * section.context * section.width;
      const CommTrace::Totals sent = trace.totals("pp", "send");
      EXPECT_EQ(sent.calls, sends) << name_of(schedule.kind);
      EXPECT_EQ(sent.elements, sends * elements);
      Count received = 0;
      for (const pipeline::Receives& receives : receives_of(schedule, stages.rank()))
        received += static_cast<Count>(receives.before.size() + receives.during.size());
      EXPECT_EQ(trace.totals("pp", "recv").calls, received * kPipelineSteps);
      const Count sums = ranks() > 1 ? 2 * kPipelineSteps : 0;
      EXPECT_EQ(trace.totals("pp", "all_reduce").elements, sums);
      EXPECT_EQ(trace.sum().calls, sends + received * kPipelineSteps + sums) << trace.str();
    };
    train_pipeline(*world_, {.model = "llama", .schedule = schedule}, {.before_steps = attach, .after_steps = check});
  }
}

TEST_F(PipelineEngine, RecordsTheStepThatItIsAskedFor) {
  for (const Schedule& schedule : schedules("gpt2", ranks(), 6)) {
    std::vector<pipeline::Event> own;
    PipelineOptions options;
    options.before_steps = [](pipeline::Engine& engine, Communicator&) { engine.record_next_step(); };
    options.after_steps = [&](pipeline::Engine& engine, Communicator&) { own = engine.events(); };
    train_pipeline(*world_, {.schedule = schedule}, options);
    const std::vector<pipeline::Event> all = gather_events(*world_, own);
    std::vector<std::vector<pipeline::Action>> actions(static_cast<std::size_t>(ranks()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      actions[static_cast<std::size_t>(all[i].rank)].push_back(all[i].action);
      EXPECT_GE(all[i].start, i > 0 && all[i - 1].rank == all[i].rank ? all[i - 1].end : 0.0);
      EXPECT_GE(all[i].end, all[i].start);
    }
    EXPECT_EQ(actions, actions_of_all(schedule));
    const pipeline::Occupation occupation = occupation_of(all, ranks());
    EXPECT_GT(occupation.total, 0.0);
    EXPECT_GE(occupation.bubble(), 0.0);
    EXPECT_LT(occupation.bubble(), 1.0);
  }
}

// Forward only, for validation and for generating text.
TEST_F(PipelineEngine, LossAndLastLogitsAreThoseOfTheWholeModel) {
  const Mesh mesh(*world_, MeshShape(1, ranks(), 1, 1), test_device(), ranks_share_devices(ranks()));
  for (const char* kind : {"gpt2", "llama"}) {
    const ModelSection section = pipeline_section(kind);
    const GlobalBatch batch({kind, Ignored::uneven}, 0);
    DeviceInputs inputs;
    const ModelInput input = inputs.put(batch.whole());
    Arena activations("test.activations", test_device());
    const Tensor loss = Tensor::zeros("test.loss", {1}, DType::f64, test_device());
    const StepContext context{.exec = {.device = test_device()}, .activations = &activations, .loss_sum = loss};
    Hooks hooks;
    const Tensor wanted = Tensor::zeros("test.logits", {input.samples, section.vocabulary});
    const Tensor logits = Tensor::zeros("test.logits", {input.samples, section.vocabulary});
    const std::unique_ptr<Model> whole = make_model(section, 5, test_storage());
    whole->loss(context, input, hooks);
    whole->last_logits(context, input, wanted, hooks);
    const double wanted_loss = *loss.to_host().data<double>();
    for (const Schedule& schedule : schedules(kind, ranks(), 2 * ranks())) {
      const auto model =
          declare_decoder(section, test_storage(), TensorParallel::none(), chunks_of(section, schedule, mesh.index(Axis::pp)));
      model->parameters().allocate(5, test_storage());
      pipeline::Engine engine(*model, schedule, mesh.axis(Axis::pp), mesh.host_axis(Axis::pp));
      loss.zero();
      engine.loss(context, input, hooks);
      const double own = *loss.to_host().data<double>();
      EXPECT_EQ(own > 0.0, mesh.index(Axis::pp) + 1 == ranks()) << "the last rank alone has it";
      // The same operations on the same numbers: not even rounding differs.
      EXPECT_EQ(all_reduce_value(*world_, own, ReduceOp::sum), wanted_loss);
      logits.zero();
      engine.last_logits(context, input, logits, hooks);
      EXPECT_TRUE(std::equal(logits.f32(), logits.f32() + logits.elements(), wanted.f32())) << kind;
    }
  }
}

}  // namespace
}  // namespace cohort::test
