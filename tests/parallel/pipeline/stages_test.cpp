// Which layers go to which stage, and what a pipeline refuses.
#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/pipeline/stages.hpp"
#include "parallel/problem.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

using namespace pipeline;

double largest_cost(const std::vector<Count>& counts, const EndCosts& costs) {
  double largest = 0.0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    double cost = static_cast<double>(counts[i]);
    if (i == 0) cost += costs.embedding;
    if (i + 1 == counts.size()) cost += costs.head;
    largest = std::max(largest, cost);
  }
  return largest;
}

// Of all divisions, by trying them.
double best_cost(Count layers, int stages, const EndCosts& costs, std::vector<Count> counts = {}) {
  const auto left = stages - static_cast<int>(counts.size());
  if (left == 1) {
    counts.push_back(layers);
    return largest_cost(counts, costs);
  }
  double best = 1e30;
  for (Count first = 1; first <= layers - (left - 1); ++first) {
    std::vector<Count> with = counts;
    with.push_back(first);
    best = std::min(best, best_cost(layers - first, stages, costs, with));
  }
  return best;
}

TEST(StageRanges, AreConsecutiveCompleteAndTheBestThereAre) {
  for (Count layers = 1; layers <= 9; ++layers) {
    for (int stages = 1; stages <= layers; ++stages) {
      for (const EndCosts costs : {EndCosts{}, EndCosts{0.0, 0.4}, EndCosts{0.1, 1.5}, EndCosts{2.5, 3.0}, EndCosts{0.0, 20.0}}) {
        const std::vector<LayerRange> ranges = stage_ranges(layers, stages, costs);
        ASSERT_EQ(ranges.size(), static_cast<std::size_t>(stages));
        EXPECT_EQ(ranges.front().first, 0);
        EXPECT_EQ(ranges.back().end, layers);
        std::vector<Count> counts;
        for (std::size_t i = 0; i < ranges.size(); ++i) {
          counts.push_back(ranges[i].end - ranges[i].first);
          EXPECT_GE(counts.back(), 1);
          if (i > 0) {
            EXPECT_EQ(ranges[i].first, ranges[i - 1].end);
          }
        }
        EXPECT_DOUBLE_EQ(largest_cost(counts, costs), best_cost(layers, stages, costs))
            << layers << " layers, " << stages << " stages, head " << costs.head;
      }
    }
  }
}

TEST(StageRanges, EqualStagesAndExamples) {
  EXPECT_EQ(stage_ranges(8, 4, {}), (std::vector<LayerRange>{{0, 2}, {2, 4}, {4, 6}, {6, 8}}));
  EXPECT_EQ(stage_ranges(7, 3, {}), (std::vector<LayerRange>{{0, 2}, {2, 4}, {4, 7}})) << "the later stage keeps less";
  EXPECT_EQ(stage_ranges(8, 2, {0.0, 2.0}), (std::vector<LayerRange>{{0, 5}, {5, 8}}));
}

TEST(StageRanges, RefuseMoreStagesThanLayers) {
  EXPECT_ERROR(stage_ranges(4, 6, {}), ExitCode::config, "4 layers", "6 pipeline stages");
}

// The smallest published GPT-2: head 6 x 50257 x 768; block 6 (12 C^2 + 13 C) + 12 C T with C = 768, T = 1024.
TEST(EndCosts, CountTheHeadInBlocks) {
  ModelSection model;
  model.kind = "gpt2";
  model.layers = 12;
  model.width = 768;
  model.heads = model.kv_heads = 12;
  model.ffn_width = 3072;
  model.context = 1024;
  model.vocabulary = 50257;
  const double block = 6.0 * (12.0 * 768 * 768 + 13.0 * 768) + 12.0 * 768 * 1024;
  EXPECT_NEAR(end_costs(model).head, 6.0 * 50257 * 768 / block, 1e-9);
  EXPECT_GT(end_costs(model).embedding, 0.0);
  EXPECT_LT(end_costs(model).embedding, 1e-3);
}

TEST(Chunks, AreThoseOfTheVirtualStages) {
  ModelSection model = model_section("llama");
  model.layers = 8;
  const Schedule schedule{ScheduleKind::interleaved, 2, 2, 4};
  const auto ranges = stage_ranges(8, 4, end_costs(model));
  const auto chunk = [&](std::size_t stage) { return ChunkSpec{ranges[stage].first, ranges[stage].end, stage == 0, stage == 3}; };
  EXPECT_EQ(chunks_of(model, schedule, 0), (std::vector<ChunkSpec>{chunk(0), chunk(2)}));
  EXPECT_EQ(chunks_of(model, schedule, 1), (std::vector<ChunkSpec>{chunk(1), chunk(3)}));
}

// Every other rank has the chunks of one of these, and no more micro-batches in flight.
TEST(HeaviestRanks, StandForAll) {
  ModelSection model = model_section("gpt2");
  for (const Count layers : {8, 11, 16, 37}) {
    model.layers = layers;
    for (const Schedule& schedule : {Schedule{ScheduleKind::gpipe, 8, 1, 16}, Schedule{ScheduleKind::one_f_one_b, 8, 1, 16},
                                     Schedule{ScheduleKind::interleaved, 4, 2, 16}}) {
      const std::vector<int> heaviest = heaviest_ranks(model, schedule);
      EXPECT_LE(heaviest.size(), 4u);
      const auto sizes_of = [&](int rank) {
        std::vector<Count> sizes;
        for (const ChunkSpec& chunk : chunks_of(model, schedule, rank))
          sizes.insert(sizes.end(), {chunk.layers(), Count{chunk.embeds}, Count{chunk.has_head}});
        return sizes;
      };
      for (int rank = 0; rank < schedule.stages; ++rank) {
        EXPECT_TRUE(std::any_of(heaviest.begin(), heaviest.end(), [&](int one) {
          return sizes_of(one) == sizes_of(rank) && most_in_flight(schedule, one) >= most_in_flight(schedule, rank);
        })) << rank;
      }
    }
  }
}

TEST(Decoder, ChunksHaveTheNamesIdsAndInitialValuesOfTheWholeModel) {
  for (const char* kind : {"gpt2", "llama"}) {
    ModelSection section = model_section(kind);
    section.layers = 8;
    const std::unique_ptr<Model> whole = make_model(section, 42);
    for (const Schedule& schedule : {Schedule{ScheduleKind::one_f_one_b, 3, 1, 1}, Schedule{ScheduleKind::interleaved, 2, 2, 2},
                                     Schedule{ScheduleKind::interleaved, 1, 3, 1}}) {
      std::size_t counted = 0;
      for (int rank = 0; rank < schedule.stages; ++rank) {
        const auto part = declare_decoder(section, {}, TensorParallel::none(), chunks_of(section, schedule, rank));
        part->parameters().allocate(42);
        EXPECT_DOUBLE_EQ(part->flops_per_token(8), whole->flops_per_token(8));
        for (const auto& parameter : part->parameters().all()) {
          const Parameter* of_whole = whole->parameters().find(parameter->name);
          ASSERT_NE(of_whole, nullptr) << parameter->name;
          EXPECT_EQ(parameter->id, of_whole->id) << parameter->name;
          EXPECT_TRUE(std::equal(parameter->value.f32(), parameter->value.f32() + parameter->elements(), of_whole->value.f32()));
          if (parameter->shard.counts) ++counted;
          EXPECT_EQ(parameter->copied, section.tied_head && schedule.stages > 1 && parameter->name == "embedding.weight");
        }
      }
      EXPECT_EQ(counted, whole->parameters().all().size()) << "each parameter counts once";
    }
  }
}

TEST(Decoder, RefusesToRunAPartAsTheWhole) {
  const ModelSection section = model_section("llama");
  const std::vector<ChunkSpec> first{{0, 1, true, false}};
  const auto part = declare_decoder(section, {}, TensorParallel::none(), first);
  part->parameters().allocate(1);
  Hooks hooks;
  const GlobalBatch batch({"llama"}, 0);
  Arena arena("test");
  EXPECT_ERROR(part->loss({.activations = &arena}, batch.whole(), hooks), ExitCode::internal, "llama", "as a whole");
  EXPECT_ERROR(declare_decoder(model_section("mlp"), {}, TensorParallel::none(), first), ExitCode::config, "mlp", "stages");
}

}  // namespace
}  // namespace cohort::test
