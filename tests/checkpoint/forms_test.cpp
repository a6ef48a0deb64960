// Both forms of a checkpoint, written by several ranks in several ways, and read back whole and in other layouts.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/load/collective.hpp"
#include "checkpoint/read/reader.hpp"
#include "checkpoint/write/saver.hpp"
#include "checkpoint_fixture.hpp"
#include "comm/consensus.hpp"
#include "comm/mpi_communicator.hpp"
#include "hdf5/hdf5.hpp"

namespace cohort::test {
namespace {

// How the ranks share one tensor: each dim in turn cut unevenly, and each part cut again at an odd place; or plain runs.
struct Cut {
  int dim;  // -1: runs of the whole tensor
};

struct Logical {
  std::string name;
  Tensor whole;
};

std::vector<Logical> make_tensors(float scale) {
  std::vector<Logical> tensors;
  const auto add = [&](const std::string& name, const Shape& shape, std::uint64_t seed) {
    const Tensor tensor = Tensor::zeros("test", shape);
    fill(tensor, seed);
    for (Count i = 0; i < tensor.elements(); ++i) tensor.f32()[i] *= scale;
    tensors.push_back({name, tensor});
  };
  add("/model/large", {1031, 1031}, 1);  // two blocks
  add("/model/small", {5}, 2);
  add("/model/cube", {6, 7, 8}, 3);
  add("/optim/m/large", {1031, 1031}, 4);
  add("/optim/m/small", {5}, 5);
  return tensors;
}

std::vector<TensorPart> parts_of_rank(const Shape& shape, const Cut& cut, int rank, int ranks) {
  const auto edge = [&](Count n, int r) { return n * r * r / (ranks * ranks); };
  const bool cuts = cut.dim >= 0 && cut.dim < shape.dims();
  const Count length = cuts ? shape[cut.dim] : shape.elements();
  const Count begin = edge(length, rank), end = edge(length, rank + 1);
  const TensorPart own = cuts ? TensorPart(shape, Box::range(shape, cut.dim, begin, end)) : TensorPart(shape, begin, end - begin);
  const Count middle = own.elements() / 3;
  std::vector<TensorPart> parts;
  if (middle > 0) parts.push_back(own.slice(0, middle));
  if (own.elements() > middle) parts.push_back(own.slice(middle, own.elements() - middle));
  return parts;
}

std::vector<StateShard> shards_of_rank(const std::vector<Logical>& tensors, const Cut& cut, int rank, int ranks, bool filled) {
  std::vector<StateShard> shards;
  int order = 0;
  for (const Logical& tensor : tensors) {
    for (const TensorPart& part : parts_of_rank(tensor.whole.shape(), cut, rank, ranks)) {
      const Tensor elements = Tensor::zeros("test", {part.elements()});
      for (Count i = 0; filled && i < part.elements(); ++i) elements.f32()[i] = tensor.whole.f32()[part.global(i)];
      shards.push_back({tensor.name, order, part, elements, true});
    }
    ++order;
  }
  return shards;
}

class Forms : public ::testing::Test {
 protected:
  void SetUp() override {
    comm_ = make_world_communicator();
    std::string folder;
    if (comm_->rank() == 0) folder = (fs::temp_directory_path() / fmt::format("cohort_forms_{}", ::getpid())).string();
    run_ = broadcast_text(*comm_, folder, 0);
    if (comm_->rank() == 0) fs::create_directories(run_);
    comm_->barrier();
  }
  void TearDown() override {
    comm_->barrier();
    if (comm_->rank() == 0) fs::remove_all(run_);
  }

  void expect_whole(const fs::path& folder, const std::vector<Logical>& tensors) const {
    if (comm_->rank() != 0) return;
    {
      const CheckpointReader reader(folder);
      EXPECT_EQ(reader.manifest().tensors().size(), tensors.size());
      for (const Logical& tensor : tensors) {
        EXPECT_TRUE(same_bits(reader.read(*reader.manifest().find(tensor.name)).tensor, tensor.whole)) << tensor.name;
      }
    }
    // And as the tools of HDF5 see it.
    const hdf5::File model = hdf5::File::open((folder / kModelFile).string(), ExitCode::checkpoint);
    for (const Logical& tensor : tensors) {
      const Tensor seen = Tensor::zeros("test", tensor.whole.shape());
      model.open_dataset(tensor.name.substr(1)).read_raw(seen.raw(), seen.elements(), hdf5::Element::f32);
      EXPECT_TRUE(same_bits(seen, tensor.whole)) << tensor.name;
    }
  }

  void expect_loads(const fs::path& folder, const std::vector<Logical>& tensors) const {
    for (const Cut cut : {Cut{0}, Cut{1}, Cut{-1}}) {
      const std::vector<StateShard> into = shards_of_rank(tensors, cut, comm_->rank(), comm_->size(), false);
      load_shards(*comm_, folder, into, kModel);
      const std::vector<StateShard> expected = shards_of_rank(tensors, cut, comm_->rank(), comm_->size(), true);
      for (std::size_t i = 0; i < into.size(); ++i) {
        EXPECT_TRUE(same_bits(into[i].elements.to_host(), expected[i].elements.to_host())) << into[i].tensor;
      }
    }
  }

  bool any_rank(bool own) const { return all_reduce_value<std::int32_t>(*comm_, own ? 1 : 0, ReduceOp::max) == 1; }

  std::unique_ptr<Communicator> comm_;
  fs::path run_;
};

std::vector<SaveOptions> ways_to_save() {
  std::vector<SaveOptions> ways;
  ways.push_back({.form = CheckpointForm::per_rank, .verify = true});
  ways.push_back({.form = CheckpointForm::per_rank, .storage = {.chunk = 256 * kKiB, .compression = 1, .alignment = 4096}});
  ways.push_back({.form = CheckpointForm::consolidated, .verify = true});
  ways.push_back({.form = CheckpointForm::consolidated, .storage = {.chunk = kMiB, .compression = 1}});
  if (hdf5::File::has_parallel()) {
    ways.push_back({.form = CheckpointForm::consolidated, .storage = {.alignment = kMiB, .collective = true}, .verify = true});
  }
  return ways;
}

TEST_F(Forms, AnyLayoutLoadsWhatAnyOtherSavedInAnyWay) {
  const std::vector<Logical> tensors = make_tensors(1.0f);
  Count step = 0;
  for (const SaveOptions& options : ways_to_save()) {
    for (const Cut cut : {Cut{0}, Cut{1}, Cut{-1}}) {
      SCOPED_TRACE(fmt::format("{}, collective {}, dim {}", name_of(options.form), options.storage.collective, cut.dim));
      const auto shards = shards_of_rank(tensors, cut, comm_->rank(), comm_->size(), true);
      const fs::path folder = save_shards(*comm_, run_, shards, make_state(++step), options);
      expect_whole(folder, tensors);
      expect_loads(folder, tensors);
    }
  }
}

TEST_F(Forms, RoundedWeightsKeepExactOnesBeside) {
  const std::vector<Logical> tensors = make_tensors(1.0f);
  for (const CheckpointForm form : {CheckpointForm::per_rank, CheckpointForm::consolidated}) {
    const auto shards = shards_of_rank(tensors, {0}, comm_->rank(), comm_->size(), true);
    const fs::path folder = save_shards(*comm_, run_, shards, make_state(1), {.form = form, .model_dtype = DType::bf16});
    expect_loads(folder, tensors);
    if (comm_->rank() != 0) continue;
    const CheckpointReader reader(folder);
    const auto stored = reader.read(*reader.manifest().find("/model/large"));
    ASSERT_EQ(stored.tensor.dtype(), DType::bf16);
    for (Count i = 0; i < stored.tensor.elements(); i += 1000) {
      EXPECT_EQ(stored.tensor.data<bf16>()[i].bits, to_bf16(tensors[0].whole.f32()[i]).bits);
    }
    EXPECT_NE(reader.manifest().find("/optim/master/large"), nullptr);
  }
}

TEST_F(Forms, ALaterSaveInTheBackgroundIsOfTheMomentOfItsCall) {
  for (const CheckpointForm form : {CheckpointForm::per_rank, CheckpointForm::consolidated}) {
    CheckpointSaver saver(*comm_, run_, {.form = form}, true);
    EXPECT_FALSE(saver.has_news());
    for (Count step = 1; step <= 3; ++step) {
      const std::vector<Logical> tensors = make_tensors(static_cast<float>(step));
      const auto shards = shards_of_rank(tensors, {0}, comm_->rank(), comm_->size(), true);
      saver.finish();
      saver.save(shards, make_state(step));
      for (const StateShard& shard : shards) shard.elements.to_host().zero();  // training goes on
      if (step == 2) {
        const auto report = saver.finish();
        ASSERT_TRUE(report.has_value());
        EXPECT_EQ(report->saved.step, 2);
        EXPECT_LE(report->stall, report->seconds);
      }
    }
    EXPECT_EQ(saver.finish()->saved.folder, run_ / "checkpoints" / "step_00000003");
    EXPECT_FALSE(saver.finish().has_value()) << "told once";
    for (Count step = 1; step <= 3; ++step) {
      expect_whole(run_ / "checkpoints" / step_name(step), make_tensors(static_cast<float>(step)));
    }
  }
}

TEST_F(Forms, AFailureInTheBackgroundIsToldToAll) {
  const std::vector<Logical> tensors = make_tensors(1.0f);
  for (const CheckpointForm form : {CheckpointForm::per_rank, CheckpointForm::consolidated}) {
    CheckpointSaver saver(*comm_, run_ / "a file", {.form = form}, true);
    if (comm_->rank() == 0) write_all(run_ / "a file", "no folder");
    comm_->barrier();
    saver.save(shards_of_rank(tensors, {0}, comm_->rank(), comm_->size(), true), make_state(1));
    EXPECT_THROW(saver.finish(), SharedError);
    EXPECT_FALSE(saver.finish().has_value());
  }
}

// What a rank cannot write, none has written: the former checkpoint stays, and no half of the new one.
TEST_F(Forms, AFailureOfOneRankIsTheSameOnAll) {
  const std::vector<Logical> tensors = make_tensors(1.0f);
  for (const SaveOptions& options : ways_to_save()) {
    auto shards = shards_of_rank(tensors, {0}, comm_->rank(), comm_->size(), true);
    save_shards(*comm_, run_, shards, make_state(1), options);
    // A rank whose part is not there: neither all elements of the tensor are.
    if (comm_->rank() == comm_->size() - 1) shards.pop_back();
    EXPECT_THROW(save_shards(*comm_, run_, shards, make_state(2), options), SharedError);
    comm_->barrier();
    const std::vector<StoredCheckpoint> left = list_checkpoints(run_);
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(left.front().step, 1);
    if (comm_->rank() == 0) {
      EXPECT_EQ(std::distance(fs::directory_iterator(checkpoints_folder(run_)), fs::directory_iterator()), 1);
    }
    comm_->barrier();
  }
}

// Elements that lie in a file or on a device may be lost while they are read. None waits for the rank that cannot give its own.
TEST_F(Forms, AReadFailureOfOneRankIsTheSameOnAll) {
  const std::vector<Logical> tensors = make_tensors(1.0f);
  for (const SaveOptions& options : ways_to_save()) {
    for (const Cut cut : {Cut{0}, Cut{1}}) {
      for (int failing = 0; failing < comm_->size(); ++failing) {
        SCOPED_TRACE(fmt::format("{}, collective {}, rank {}", name_of(options.form), options.storage.collective, failing));
        auto parts = write_items_of(shards_of_rank(tensors, cut, comm_->rank(), comm_->size(), true), options);
        // The second part of the large tensor, in the middle of the exchange.
        if (comm_->rank() == failing && parts.size() > 1) {
          parts[1].read = [](Count, Count) -> Tensor { fail(ExitCode::checkpoint, "the scratch file is gone"); };
        }
        const bool fails = any_rank(comm_->rank() == failing && parts.size() > 1);
        std::string message;
        try {
          save_parts(*comm_, run_, std::move(parts), make_state(1), options);
          EXPECT_FALSE(fails);
        } catch (const SharedError& error) {
          message = error.what();
          EXPECT_EQ(error.code(), ExitCode::checkpoint);
          EXPECT_NE(message.find("the scratch file is gone"), std::string::npos) << message;
        }
        EXPECT_TRUE(same_on_all_ranks(*comm_, message)) << message;
        if (fails) {
          EXPECT_TRUE(list_checkpoints(run_).empty());
        }
        comm_->barrier();
        if (comm_->rank() == 0) fs::remove_all(checkpoints_folder(run_));
        comm_->barrier();
      }
    }
  }
}

}  // namespace
}  // namespace cohort::test
