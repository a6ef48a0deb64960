// Saving and loading on several ranks: rank 0 writes and reads, all end up equal, and all fail alike.
#include "checkpoint/load/collective.hpp"
#include "checkpoint/read/reader.hpp"

#include "checkpoint/checkpoint_fixture.hpp"
#include "checkpoint/load/shards.hpp"
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

  TrainingState load_whole(const fs::path& path, const ParameterRegistry& registry, const std::string& model) {
    allocate_optimizer_state(registry, kSlots);
    return load_shards(*comm_, path, whole_shards(registry, false), model);
  }

  std::unique_ptr<Communicator> comm_;
  fs::path run_;
};

// A part of `whole`.
StateShard shard_of(const std::string& tensor, int order, const Tensor& whole, const TensorPart& part) {
  const Tensor elements = Tensor::zeros("test", {part.elements()});
  for (Count i = 0; i < part.elements(); ++i) elements.f32()[i] = whole.f32()[part.global(i)];
  return {tensor, order, part, elements, true};
}

// A layout as a mixture of tensor parallelism and ZeRO makes it: `dim` of a tensor is cut over the ranks unevenly, and each part
// is cut again at an odd place.
std::vector<StateShard> cut(const Tensor& whole, int dim, int rank, int ranks) {
  const Count length = whole.shape()[dim];
  const auto edge = [&](int r) { return length * r * r / (ranks * ranks); };
  const TensorPart own(whole.shape(), Box::range(whole.shape(), dim, edge(rank), edge(rank + 1)));
  const Count elements = own.elements();
  const Count middle = elements / 3;
  const auto part = [&](Count begin, Count end) { return own.slice(begin, end - begin); };
  std::vector<StateShard> shards;
  if (middle > 0) shards.push_back(shard_of("/model/tensor", 0, whole, part(0, middle)));
  if (middle < elements) shards.push_back(shard_of("/model/tensor", 0, whole, part(middle, elements)));
  return shards;
}

TEST_F(Collective, AnyLayoutLoadsWhatAnyOtherSaved) {
  const Tensor whole = Tensor::zeros("test", {13, 11});
  fill(whole, 5);
  const Tensor zeros = Tensor::zeros("test", whole.shape());
  const int rank = comm_->rank(), ranks = comm_->size();
  for (const int saved : {0, 1}) {
    const fs::path folder = save_shards(*comm_, run_, cut(whole, saved, rank, ranks), make_state(saved + 1));
    if (root()) {
      const CheckpointReader reader(folder);
      EXPECT_TRUE(same_bits(reader.read(*reader.manifest().find("/model/tensor")).tensor, whole)) << "a plain, whole tensor";
    }
    for (const int loaded : {0, 1}) {
      const std::vector<StateShard> into = cut(zeros, loaded, rank, ranks);
      EXPECT_EQ(load_shards(*comm_, folder, into, kModel).step, saved + 1);
      const std::vector<StateShard> expected = cut(whole, loaded, rank, ranks);
      for (std::size_t i = 0; i < into.size(); ++i)
        EXPECT_TRUE(same_bits(into[i].elements.to_host(), expected[i].elements.to_host()));
    }
  }
  // Shards that leave a gap, or that overlap, are no model.
  for (const bool twice : {false, true}) {
    std::vector<StateShard> faulty = cut(whole, 0, rank, ranks);
    if (rank == ranks - 1) twice ? faulty.push_back(faulty.back()) : faulty.pop_back();
    expect_shared(ExitCode::internal, {"/model/tensor", "[13, 11]"}, [&] { save_shards(*comm_, run_, faulty, make_state(9)); });
  }
  EXPECT_EQ(resolve_checkpoint_collectively(*comm_, run_, std::nullopt), run_ / "checkpoints" / "step_00000002");
}

TEST_F(Collective, AllRanksLoadWhatRankZeroSaved) {
  const auto model = make_model();
  set_values(*model, 1 + static_cast<std::uint64_t>(comm_->rank()));  // different on purpose: rank 0's are the run's
  TrainingState state = make_state(100);
  state.data = fmt::format("as rank {} sees it", comm_->rank());
  expect_shared(ExitCode::checkpoint, {"no complete checkpoint"},
                [&] { resolve_checkpoint_collectively(*comm_, run_, std::nullopt); });
  const fs::path folder =
      save_shards(*comm_, run_, whole_shards(*model, root()), state, {.retention = {.keep = 2}, .verify = true});
  EXPECT_EQ(folder, run_ / "checkpoints" / "step_00000100");
  EXPECT_TRUE(fs::exists(folder / kManifestFile)) << "on disk when any rank returns";
  EXPECT_EQ(resolve_checkpoint_collectively(*comm_, run_, std::nullopt), folder);
  EXPECT_EQ(resolve_checkpoint_collectively(*comm_, run_, 100), folder);
  expect_shared(ExitCode::checkpoint, {"of step 7", "step_00000100"}, [&] { resolve_checkpoint_collectively(*comm_, run_, 7); });

  const auto expected = make_model();
  set_values(*expected, 1);
  for (const fs::path& path : {folder, run_}) {
    const auto loaded = make_model();
    const TrainingState read = load_whole(path, *loaded, kModel);
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
  save_shards(*comm_, run_, whole_shards(*model, root()), make_state(1));
  // The other ranks name a place that does not exist, as on a node that does not see the file system.
  const fs::path seen = root() ? run_ : fs::path("/nowhere/at/all");
  EXPECT_EQ(resolve_checkpoint_collectively(*comm_, seen, 1), run_ / "checkpoints" / "step_00000001");
  const auto loaded = make_model();
  load_whole(seen, *loaded, kModel);
  EXPECT_TRUE(same_bits(*loaded, *model));
}

TEST_F(Collective, FailuresOfRankZeroAreSharedByAll) {
  const auto model = make_model();
  set_values(*model, 1);
  if (root()) write_all(run_ / "file", "a file where a folder is needed");
  comm_->barrier();
  expect_shared(ExitCode::io, {"saving the checkpoint", "file"},
                [&] { save_shards(*comm_, run_ / "file", whole_shards(*model, root()), make_state(1)); });
  expect_shared(ExitCode::checkpoint, {"loading the checkpoint", "no complete checkpoint"},
                [&] { load_whole(run_, *model, kModel); });
  const fs::path folder = save_shards(*comm_, run_, whole_shards(*model, root()), make_state(1));
  expect_shared(ExitCode::checkpoint, {"another model", "another one"}, [&] { load_whole(folder, *model, "another one"); });
  comm_->barrier();
  if (root()) {
    std::string bytes = read_all(folder / kModelFile);
    const Tensor& values = model->find("embedding.weight")->value;
    const std::size_t at =
        bytes.find(std::string(static_cast<const char*>(values.raw()), static_cast<std::size_t>(values.bytes())));
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_all(folder / kModelFile, bytes);
  }
  expect_shared(ExitCode::checkpoint, {"/model/embedding/weight", "checksum"}, [&] { load_whole(folder, *model, kModel); });
}

}  // namespace
}  // namespace cohort::test
