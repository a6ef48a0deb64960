// Saving and loading on several ranks: rank 0 writes and reads, all end up equal, and all fail alike.
#include "checkpoint/collective.hpp"

#include "checkpoint_fixture.hpp"
#include "comm/mpi_communicator.hpp"

namespace cohort::test {
namespace {

class Collective : public ::testing::Test {
 protected:
  void SetUp() override {
    comm_ = make_world_communicator();
    std::int64_t pid = ::getpid();
    comm_->broadcast(&pid, 1, DType::i64, 0);
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    run_ = fs::temp_directory_path() / fmt::format("cohort_checkpoint_collective_{}_{}", info->name(), pid);
    if (root()) fs::create_directories(run_);
    comm_->barrier();
  }
  void TearDown() override {
    comm_->barrier();
    if (root()) fs::remove_all(run_);
  }
  bool root() const { return comm_->rank() == 0; }

  /// Every rank must get a SharedError of this code that mentions `parts`.
  void expect_shared(ExitCode code, const std::vector<std::string>& parts, const std::function<void()>& work) {
    try {
      work();
      ADD_FAILURE() << "no error on rank " << comm_->rank();
    } catch (const SharedError& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      expect_mentions(error.what(), parts);
    }
  }

  std::unique_ptr<Communicator> comm_;
  fs::path run_;
};

TEST_F(Collective, AllRanksLoadWhatRankZeroSaved) {
  const auto model = make_model();
  set_values(*model, 1 + static_cast<std::uint64_t>(comm_->rank()));  // different on purpose: rank 0's are the run's
  TrainingState state = make_state(100);
  state.data = fmt::format("as rank {} sees it", comm_->rank());
  EXPECT_EQ(find_latest_collectively(*comm_, run_), std::nullopt);
  const fs::path folder = save_checkpoint_collectively(*comm_, run_, *model, state, {.keep = 2, .verify = true});
  EXPECT_EQ(folder, run_ / "checkpoints" / "step_00000100");
  EXPECT_TRUE(fs::exists(folder / kManifestFile)) << "on disk when any rank returns";
  EXPECT_EQ(find_latest_collectively(*comm_, run_), folder);

  const auto expected = make_model();
  set_values(*expected, 1);
  for (const fs::path& path : {folder, run_}) {
    const auto loaded = make_model();
    const TrainingState read = load_checkpoint_collectively(*comm_, path, *loaded, kModel, kSlots);
    EXPECT_TRUE(same_bits(*loaded, *expected));
    EXPECT_EQ(read.step, 100);
    EXPECT_EQ(read.seed, state.seed);
    EXPECT_EQ(read.run_file, state.run_file);
    EXPECT_EQ(read.data, "as rank 0 sees it");
    EXPECT_EQ(read_training_state_collectively(*comm_, path), read);
  }
}

TEST_F(Collective, OnlyRankZeroTouchesTheFiles) {
  const auto model = make_model();
  set_values(*model, 1);
  save_checkpoint_collectively(*comm_, run_, *model, make_state(1));
  // The other ranks name a place that does not exist, as on a node that does not see the file system.
  const fs::path seen = root() ? run_ : fs::path("/nowhere/at/all");
  EXPECT_EQ(find_latest_collectively(*comm_, seen), run_ / "checkpoints" / "step_00000001");
  const auto loaded = make_model();
  load_checkpoint_collectively(*comm_, seen, *loaded, kModel, kSlots);
  EXPECT_TRUE(same_bits(*loaded, *model));
}

TEST_F(Collective, FailuresOfRankZeroAreSharedByAll) {
  const auto model = make_model();
  set_values(*model, 1);
  if (root()) write_all(run_ / "file", "a file where a folder is needed");
  comm_->barrier();
  expect_shared(ExitCode::io, {"saving the checkpoint", "file"},
                [&] { save_checkpoint_collectively(*comm_, run_ / "file", *model, make_state(1)); });
  expect_shared(ExitCode::checkpoint, {"loading the checkpoint", "no complete checkpoint"},
                [&] { load_checkpoint_collectively(*comm_, run_, *model, kModel, kSlots); });
  const fs::path folder = save_checkpoint_collectively(*comm_, run_, *model, make_state(1));
  expect_shared(ExitCode::checkpoint, {"another model", "another one"},
                [&] { load_checkpoint_collectively(*comm_, folder, *model, "another one", kSlots); });
  comm_->barrier();
  if (root()) {
    std::string bytes = read_all(folder / kModelFile);
    const Tensor& values = model->find("embedding.weight")->value;
    const std::size_t at =
        bytes.find(std::string(static_cast<const char*>(values.raw()), static_cast<std::size_t>(values.bytes())));
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_all(folder / kModelFile, bytes);
  }
  expect_shared(ExitCode::checkpoint, {"/model/embedding/weight", "checksum"},
                [&] { load_checkpoint_collectively(*comm_, folder, *model, kModel, kSlots); });
}

}  // namespace
}  // namespace cohort::test
