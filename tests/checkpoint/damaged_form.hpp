// Checkpoints of both forms on several ranks, to be damaged: step 1, which must survive whatever happens to step 2.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "checkpoint/read/reader.hpp"
#include "checkpoint_fixture.hpp"
#include "comm/consensus.hpp"
#include "comm/mpi_communicator.hpp"

namespace cohort::test {

class DamagedForm : public ::testing::TestWithParam<CheckpointForm> {
 protected:
  void SetUp() override {
    std::string folder;
    if (root()) folder = (fs::temp_directory_path() / fmt::format("cohort_damaged_{}", ::getpid())).string();
    run_ = broadcast_text(*comm_, folder, 0);
    if (root()) fs::create_directories(run_);
    comm_->barrier();
    options_.form = GetParam();
    for (Count step = 1; step <= 2; ++step) save(step);
    if (root()) before_ = contents(folder_of(1));
  }
  void TearDown() override {
    comm_->barrier();
    if (root()) fs::remove_all(run_);
  }

  bool root() const { return comm_->rank() == 0; }
  bool per_rank() const { return options_.form == CheckpointForm::per_rank; }
  int last_rank() const { return comm_->size() - 1; }
  fs::path folder_of(Count step) const { return run_ / "checkpoints" / step_name(step); }
  /// The file of step 2 that holds the last rank's first elements, and those as the bytes that are stored.
  fs::path file_of_last() const {
    return folder_of(2) / (per_rank() ? fmt::format("rank_{:05}.h5", last_rank()) : std::string(kModelFile));
  }
  std::string elements_of_last() const {
    const Tensor tensor = shards(2, true, last_rank()).front().elements.to_host();
    return {static_cast<const char*>(tensor.raw()), 64};
  }

  /// What `rank` holds when step `step` is done: a run of each tensor, as ZeRO divides them.
  std::vector<StateShard> shards(Count step, bool filled, int rank) const {
    std::vector<StateShard> shards;
    for (const auto& [name, shape] :
         {std::pair("/model/embedding/weight", Shape({31, 40})), std::pair("/model/bias", Shape({12})),
          std::pair("/optim/m/embedding/weight", Shape({31, 40}))}) {
      const Count begin = shape.elements() * rank / comm_->size(), end = shape.elements() * (rank + 1) / comm_->size();
      const Tensor elements = Tensor::zeros("test", {end - begin});
      if (filled) fill(elements, static_cast<std::uint64_t>(100 * step + 10 * rank) + shards.size());
      shards.push_back({name, static_cast<int>(shards.size()) % 2, TensorPart(shape, begin, end - begin), elements, true});
    }
    return shards;
  }
  void save(Count step) { save_shards(*comm_, run_, shards(step, true, comm_->rank()), make_state(step), options_); }

  /// Every rank gets the same SharedError, of this code, which mentions `parts`.
  void expect_refused(ExitCode code, const std::vector<std::string>& parts, const std::function<void()>& work) {
    std::string message;
    try {
      work();
      ADD_FAILURE() << "no error on rank " << comm_->rank();
    } catch (const SharedError& error) {
      message = error.what();
      EXPECT_EQ(error.code(), code) << message;
      expect_mentions(message, parts);
    }
    EXPECT_TRUE(same_on_all_ranks(*comm_, message)) << message;
  }
  void expect_not_loaded(ExitCode code, const std::vector<std::string>& parts, const std::string& model = kModel) {
    expect_refused(code, parts, [&] { load_shards(*comm_, folder_of(2), shards(2, false, comm_->rank()), model); });
  }
  /// All ranks get what was saved at `step`.
  void expect_loads(Count step) {
    const std::vector<StateShard> into = shards(step, false, comm_->rank()), wanted = shards(step, true, comm_->rank());
    EXPECT_EQ(load_shards(*comm_, folder_of(step), into, kModel).step, step);
    for (std::size_t i = 0; i < into.size(); ++i) {
      EXPECT_TRUE(same_bits(into[i].elements.to_host(), wanted[i].elements.to_host())) << into[i].tensor;
    }
  }
  /// Step 1 is there, byte for byte, and whole.
  void expect_former_untouched() {
    comm_->barrier();
    if (root()) {
      EXPECT_EQ(contents(folder_of(1)), before_);
      EXPECT_NO_THROW(CheckpointReader(folder_of(1)).verify());
    }
    expect_loads(1);
  }
  /// Rank 0 does it, then all go on.
  void on_root(const std::function<void()>& work) {
    if (root()) work();
    comm_->barrier();
  }
  /// The names of the files of step 2, on all ranks.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_of(2))) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    comm_->barrier();
    return names;
  }

  static std::map<std::string, std::string> contents(const fs::path& folder) {
    std::map<std::string, std::string> contents;
    for (const auto& entry : fs::directory_iterator(folder)) contents[entry.path().filename().string()] = read_all(entry.path());
    return contents;
  }

  std::unique_ptr<Communicator> comm_ = make_world_communicator();
  fs::path run_;
  SaveOptions options_;
  std::map<std::string, std::string> before_;  // rank 0: the files of step 1
};

inline std::string form_name(const ::testing::TestParamInfo<CheckpointForm>& info) { return std::string(name_of(info.param)); }

}  // namespace cohort::test
