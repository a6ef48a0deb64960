// An optimizer whose state lies on the host or in a file, against the one that has it beside the weights: the same kernel on the
// same numbers, so the same bits, however the elements are cut into segments and blocks. On a GPU the model lies there; the
// yardstick is the host's in any case.
#include <gtest/gtest.h>

#include <functional>

#include "models/model.hpp"
#include "ops/compare.hpp"
#include "optim/offloaded_optimizer.hpp"
#include "optim/resident_optimizer.hpp"
#include "support/device_model.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort::test {
namespace {

namespace fs = std::filesystem;

constexpr Count kSteps = 5;
constexpr Count kAsOne = 1 << 20;  // more than the model has

ModelSection small_model() {
  ModelSection config;
  config.kind = "gpt2";
  config.layers = 2;
  config.width = 8;
  config.heads = config.kv_heads = 2;
  config.ffn_width = 12;
  config.context = 4;
  config.vocabulary = 9;
  return config;
}

// The parameters of a model in three segments, cut between parameters; the fp32 values lie on the host.
std::vector<OwnedSegment> in_segments(const Model& model) {
  const OwnedSegment whole = whole_of(model.parameters());
  const std::size_t pieces = whole.pieces.size();
  std::vector<OwnedSegment> segments;
  for (const auto& [first, last] : {std::pair<std::size_t, std::size_t>{0, 1}, {1, pieces - 2}, {pieces - 2, pieces}}) {
    const Count begin = whole.pieces[first].at;
    const Count end = last < pieces ? whole.pieces[last].at : whole.values.elements();
    OwnedSegment& segment = segments.emplace_back();
    const Tensor values = whole.values.slice(begin, end);
    segment.values = values.on_host() ? values : Tensor::pinned("test.values", values.shape());
    segment.values.copy_from(values);
    segment.compute = whole.compute.slice(begin, end);
    segment.gradients = whole.gradients.slice(begin, end);
    for (std::size_t p = first; p < last; ++p) {
      segment.pieces.push_back(whole.pieces[p]);
      segment.pieces.back().at -= begin;
    }
  }
  return segments;
}

// All that training changes.
struct State {
  std::vector<Tensor> tensors;
  void add(const Tensor& tensor) { tensors.push_back(ops::copy_of(tensor.to_host())); }
};

bool same(const State& a, const State& b) {
  if (a.tensors.size() != b.tensors.size()) return false;
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    if (!ops::same_bits(a.tensors[i], b.tensors[i])) return false;
  }
  return true;
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<OwnedSegment>)>;

// Five steps with gradients that are scaled (clipping); the third is skipped. `between` is called after the second.
State train(const ModelStorage& storage, const MakeOptimizer& make, const std::function<void(const Optimizer&)>& between = {}) {
  const auto model = make_model(small_model(), 3, storage);
  const ParameterRegistry& parameters = model->parameters();
  const auto numbers = [&](std::uint32_t stream) {
    return flat_tensor(parameters, ops::random_values(parameters.elements(), stream)).to(storage.device, "test");
  };
  parameters.flat_values().copy_from(numbers(1));
  parameters.values_changed();
  const std::unique_ptr<Optimizer> optimizer = make(in_segments(*model));
  for (Count step = 0; step < kSteps; ++step) {
    parameters.flat_gradients().copy_from(numbers(static_cast<std::uint32_t>(10 + step)));
    const ops::OptimizerScalars decided{.gradient_scale = 0.375f, .skip = step == 2 ? 1 : 0};
    const Tensor decisions = ops::bytes_of<ops::OptimizerScalars>({decided}).to(storage.device, "test");
    optimizer->step(ops::Exec{storage.device}, 0.01 * static_cast<double>(step + 1), decisions, step);
    if (step == 1 && between) between(*optimizer);
  }
  // Parameter by parameter: what lies between them is padding, of which a GPU has more than a host (Decoder::head_padding()).
  State state;
  for (std::size_t r = 0; r < optimizer->runs().size(); ++r) {
    const OwnedSegment& segment = optimizer->runs()[r].segment;
    const auto slots = optimizer->slots(r);
    for (const OwnedPiece& piece : segment.pieces) {
      const Count end = piece.at + piece.elements;
      for (const Tensor& tensor : {segment.values, segment.compute}) state.add(tensor.slice(piece.at, end));
      for (const StateElements& slot : slots) state.add(slot.slice(piece.at, end).to_host());
    }
  }
  return state;
}

OptimizerSection section() {
  OptimizerSection config;
  config.weight_decay = 0.3;
  return config;
}

State yardstick(DType compute) {
  return train({.device = DeviceKind::cpu, .compute = compute},
               [](auto owned) { return std::make_unique<ResidentOptimizer>(std::move(owned), section()); });
}

MakeOptimizer offloaded(const fs::path& file, Count block) {
  return [=](std::vector<OwnedSegment> owned) {
    OffloadOptions options;
    options.file = file;
    options.block_elements = block;
    return std::make_unique<OffloadedOptimizer>(std::move(owned), section(), options);
  };
}

TEST(OffloadedOptimizer, HasTheBitsOfTheOtherInBlocksOfAnySize) {
  const TemporaryFolder folder;
  for (const DType compute : {DType::f32, DType::bf16, DType::f16}) {
    const State expected = yardstick(compute);
    for (const Count block : {Count{5}, Count{64}, Count{97}, kAsOne}) {
      for (const bool in_file : {false, true}) {
        const fs::path file = in_file ? folder / "moments" : fs::path{};
        EXPECT_TRUE(same(train(test_storage(compute), offloaded(file, block)), expected))
            << name_of(compute) << ", blocks of " << block << (in_file ? " in a file" : " in memory");
      }
    }
  }
  EXPECT_TRUE(fs::is_empty(folder.path())) << "the files are scratch";
}

// What stands in the file is what counts: slots that were read and written back change nothing, others do.
TEST(OffloadedOptimizer, SlotsCanBeSavedAndLoaded) {
  const TemporaryFolder folder;
  const State expected = yardstick(DType::f32);
  const auto with = [&](float factor) {
    return train(test_storage(), offloaded(folder / "moments", 97), [&](const Optimizer& optimizer) {
      for (std::size_t r = 0; r < optimizer.runs().size(); ++r) {
        const Count elements = optimizer.runs()[r].segment.values.elements();
        for (const StateElements& all : optimizer.slots(r)) {
          ASSERT_EQ(all.elements(), elements);
          const StateElements end = all.slice(elements / 3, elements);
          const Tensor saved = end.to_host();
          ASSERT_TRUE(ops::same_bits(saved, all.to_host().slice(elements / 3, elements)));
          for (float& value : saved.span<float>()) value *= factor;
          end.copy_from(saved);
        }
      }
    });
  };
  EXPECT_TRUE(same(with(1.0f), expected));
  EXPECT_FALSE(same(with(2.0f), expected));
}

TEST(OffloadedOptimizer, AFileThatWasCutShortEndsTheStep) {
  const TemporaryFolder folder;
  const fs::path file = folder / "moments";
  EXPECT_ERROR(train(test_storage(), offloaded(file, 64), [&](const Optimizer&) { fs::resize_file(file, 1000); }), ExitCode::io,
               file.c_str(), "offset", "truncated it");
  EXPECT_FALSE(fs::exists(file)) << "also after an error";
}

TEST(OffloadedOptimizer, APlaceThatCannotBeWrittenIsRefused) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "no folder";
  EXPECT_ERROR(train(test_storage(), offloaded(folder / "file" / "moments", 64)), ExitCode::io, "file");
}

}  // namespace
}  // namespace cohort::test
