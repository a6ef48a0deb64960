// Every data-parallel strategy gives, on every number of ranks, the losses, gradients and weights of one rank.
#include <gtest/gtest.h>

#include <cmath>

#include "comm/self_communicator.hpp"
#include "parallel/data/manual.hpp"
#include "parallel/data/trajectory.hpp"
#include "support/device_model.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

struct Layout {
  const char* strategy;
  double bucket_mib;
  const char* name;
  const char* wrap = "block";
  bool sharded = false;
};

// All parameters of these models together are less than 64 KiB.
constexpr Layout kLayouts[]{
    {"naive", 4.0, "naive"},
    {"hooks", 4.0, "hooks"},
    {"bucketed", 1e-6, "bucket_for_each_parameter"},
    {"bucketed", 4.0 / 1024, "buckets_of_some_parameters"},
    {"bucketed", 64.0, "one_bucket"},
    {"zero1", 0.0, "zero1", "block", true},
    {"zero1", 0.0, "zero1_whole_model", "model", true},
    {"zero2", 0.0, "zero2", "block", true},
    {"zero2", 0.0, "zero2_layers", "layer", true},
    {"zero3", 0.0, "zero3", "block", true},
    {"zero3", 0.0, "zero3_whole_model", "model", true},
    {"zero3", 0.0, "zero3_layers", "layer", true},
};

class Equivalence : public ::testing::TestWithParam<std::tuple<Layout, const char*, Count>> {
 protected:
  const Layout& layout() const { return std::get<0>(GetParam()); }
  Count accumulation() const { return std::get<2>(GetParam()); }
  // 12 samples for each micro-batch of the whole group.
  Problem problem(Ignored ignored) const { return {std::get<1>(GetParam()), ignored, 12 * accumulation()}; }
  MakeStrategy strategy() const {
    ParallelSection section;
    section.data = layout().strategy;
    section.bucket_mib = layout().bucket_mib;
    section.wrap = layout().wrap;
    return strategy_of(section, model_section(std::get<1>(GetParam())));
  }
  // The ranks' unrelated random states differ.
  TrainOptions options(unsigned run = 0) const {
    return {.accumulation = accumulation(),
            .sharded = layout().sharded,
            .unrelated_seed = 1000 * run + static_cast<unsigned>(ranks_.rank())};
  }

  Ranks ranks_;
};

TEST_P(Equivalence, LossesGradientsAndWeightsAreThoseOfOneRank) {
  for (const Ignored ignored : {Ignored::uneven, Ignored::second_half}) {
    const Trajectory yardstick = train_alone(problem(ignored));
    const Trajectory trajectory = train(problem(ignored), ranks_.mesh(), strategy(), options());
    const Distance found = distance(ranks_.host(), trajectory, yardstick);
    EXPECT_TRUE(found.accepted()) << "ignored " << static_cast<int>(ignored) << ": " << found.str();
  }
}

// Three times, since races hide. Of all models gpt2 has most to go wrong: a tied weight, dropout.
TEST_P(Equivalence, RepeatedRunsHaveTheSameBits) {
  if (std::string(std::get<1>(GetParam())) != "gpt2") return;
  const Trajectory first = train(problem(Ignored::uneven), ranks_.mesh(), strategy(), options());
  for (const unsigned run : {1u, 2u})
    EXPECT_TRUE(train(problem(Ignored::uneven), ranks_.mesh(), strategy(), options(run)) == first);
}

INSTANTIATE_TEST_SUITE_P(All, Equivalence,
                         ::testing::Combine(::testing::ValuesIn(kLayouts), ::testing::Values("gpt2", "llama", "mlp"),
                                            ::testing::Values(Count{1}, Count{2})),
                         [](const auto& test) {
                           return fmt::format("{}_{}_accumulation_{}", std::get<0>(test.param).name, std::get<1>(test.param),
                                              std::get<2>(test.param));
                         });

// Gradients summed in 16 bits: each rank's is rounded once, and each addition once more, by half a unit u in the last place of
// numbers as large as the largest. So they are off by n u at most, and by something. One rank has nothing to sum, and rounds
// nothing. Of the steps the first is looked at: the later ones have other weights.
TEST(Reduction, In16BitsIsThatOfFp32ButForRounding) {
  const Ranks ranks;
  for (const DType type : {DType::bf16, DType::f16}) {
    const double unit = type == DType::bf16 ? 0x1p-8 : 0x1p-11;
    for (const double bucket_mib : {1e-6, 4.0 / 1024, 64.0}) {
      for (const Count accumulation : {1, 2}) {
        SCOPED_TRACE(fmt::format("{}, buckets of {} MiB, accumulation {}", name_of(type), bucket_mib, accumulation));
        const Problem problem{"gpt2", Ignored::uneven, 12 * accumulation};
        const auto gradients = [&](DType reduction) {
          Trajectory all = train(problem, ranks.mesh(), strategy_named("bucketed", model_section("gpt2"), bucket_mib, reduction),
                                 {.accumulation = accumulation});
          for (auto* steps : {&all.gradients, &all.weights}) steps->resize(1);
          all.losses.resize(1);
          return all;
        };
        const Distance found = distance(ranks.host(), gradients(type), gradients(DType::f32));
        EXPECT_EQ(found.losses, 0.0);
        EXPECT_LE(found.gradients, ranks.size() * unit);
        EXPECT_EQ(found.gradients > 0.0, ranks.size() > 1);
        EXPECT_TRUE(found.same_ranks);
      }
    }
  }
}

// Half the ranks, or one, hold a copy of the state: the copies are replicas.
TEST(HybridShards, AreThoseOfOneRank) {
  const Ranks ranks;
  for (const char* name : {"zero1", "zero2", "zero3"}) {
    for (Count shards = 1; shards <= ranks.size(); ++shards) {
      if (ranks.size() % shards != 0) continue;
      SCOPED_TRACE(fmt::format("{}, copies of {} ranks", name, shards));
      const Problem problem{"gpt2", Ignored::uneven, 24};
      ParallelSection section;
      section.data = name;
      section.shard_ranks = shards;
      const Trajectory hybrid =
          train(problem, ranks.mesh(), strategy_of(section, model_section("gpt2")), {.accumulation = 2, .sharded = true});
      const Distance found = distance(ranks.host(), hybrid, train_alone(problem));
      EXPECT_TRUE(found.accepted()) << found.str();
    }
  }
}

// So that the comparisons above are about something: the problems train, clip, and have targets where they should.
TEST(Problems, HaveWhatTheyAreMeantToTest) {
  for (const char* model : {"gpt2", "llama", "mlp"}) {
    const Trajectory alone = train_alone({model, Ignored::uneven});
    EXPECT_NE(alone.weights.front(), alone.weights.back());
    double norm = 0.0;
    for (const float gradient : alone.gradients.front()) norm += static_cast<double>(gradient) * gradient;
    EXPECT_GT(std::sqrt(norm), 0.5) << model << ": clipping would not act";
    const GlobalBatch half({model, Ignored::second_half}, 0);
    EXPECT_EQ(count_valid_targets(half.part(1, 2, 1).front()), 0);
    const GlobalBatch uneven({model, Ignored::uneven}, 0);
    EXPECT_NE(count_valid_targets(uneven.part(0, 2, 1).front()), count_valid_targets(uneven.part(1, 2, 1).front()));
  }
}

class OneRank : public ::testing::TestWithParam<const char*> {
 protected:
  Alone alone_;
};

TEST_P(OneRank, ManualIsMonolith) {
  for (const Count accumulation : {1, 2}) {
    const Problem problem{GetParam(), Ignored::uneven, 12};
    const Trajectory manual =
        train(problem, *alone_.mesh, strategy_named("manual", model_section(GetParam())), {.accumulation = accumulation});
    const Distance found = distance(*alone_.host, manual, train_alone(problem));
    EXPECT_TRUE(found.accepted()) << found.str();
  }
}

TEST_P(OneRank, AStaleReplicaOfManualIsRejected) {
  struct Stale : Manual {
    using Manual::Manual;
    void weights_changed() override {}  // mutant: the second replica keeps the initial weights
  };
  const ModelSection section = model_section(GetParam());
  const Problem problem{GetParam(), Ignored::uneven, 12};
  const Trajectory mutant = train(problem, *alone_.mesh, [&](Model& model, Communicator& group) {
    return std::make_unique<Stale>(model, group, make_model(section, 1, test_storage()));
  });
  EXPECT_FALSE(distance(*alone_.host, mutant, train_alone(problem)).accepted());
}

INSTANTIATE_TEST_SUITE_P(All, OneRank, ::testing::Values("gpt2", "llama", "mlp"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Factory, NamesItsStrategiesAndRefusesWhatDoesNotFit) {
  const Ranks ranks;
  const auto self = make_self_communicator("self", test_device());
  const ModelSection section = model_section("mlp");
  const auto model = make_model(section, 1, test_storage());
  for (const char* name : {"monolith", "manual", "naive", "hooks", "bucketed"})
    EXPECT_EQ(strategy_named(name, section)(*model, *self)->name(), name);
  EXPECT_ERROR(strategy_named("zero", section)(*model, *self), ExitCode::config, "zero", "bucketed");
  if (ranks.size() == 1) return;
  for (const char* name : {"monolith", "manual"})
    EXPECT_ERROR(strategy_named(name, section)(*model, ranks.tensors()), ExitCode::config, name, "one rank");
}

}  // namespace
}  // namespace cohort::test
