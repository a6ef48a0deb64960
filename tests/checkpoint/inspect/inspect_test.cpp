// Both forms as several ranks write them, looked at: what is damaged, what differs, what a run's folder holds.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/checkpoint_fixture.hpp"
#include "checkpoint/inspect/difference.hpp"
#include "checkpoint/inspect/inventory.hpp"
#include "checkpoint/inspect/statistics.hpp"
#include "checkpoint/read/verify.hpp"
#include "checkpoint/write/rank_files.hpp"
#include "comm/consensus.hpp"
#include "comm/mpi_communicator.hpp"

namespace cohort::test {
namespace {

class Inspect : public ::testing::Test {
 protected:
  void SetUp() override {
    comm_ = make_world_communicator();
    std::string folder;
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    if (root()) folder = (fs::temp_directory_path() / fmt::format("cohort_inspect_{}_{}", info->name(), ::getpid())).string();
    run_ = broadcast_text(*comm_, folder, 0);
    if (root()) fs::create_directories(run_);
    comm_->barrier();
  }
  void TearDown() override {
    comm_->barrier();
    if (root()) fs::remove_all(run_);
  }
  bool root() const { return comm_->rank() == 0; }

  /// Saves a matrix cut by columns and a vector cut into runs; `more` is added to element [2, 4] of the matrix.
  fs::path save(Count step, CheckpointForm form, float more = 0.0f) {
    const Tensor matrix = Tensor::zeros("test", {7, 9});
    const Tensor vector = Tensor::zeros("test", {30});
    fill(matrix, 1);
    fill(vector, 2);
    matrix.f32()[2 * 9 + 4] += more;
    std::vector<StateShard> shards;
    const Count rank = comm_->rank(), ranks = comm_->size();
    const auto add = [&](const std::string& name, int order, const Tensor& whole, const TensorPart& part) {
      const Tensor elements = Tensor::zeros("test", {part.elements()});
      for (Count i = 0; i < part.elements(); ++i) elements.f32()[i] = whole.f32()[part.global(i)];
      shards.push_back({name, order, part, elements, true});
    };
    const Box columns = Box::range(matrix.shape(), 1, 9 * rank / ranks, 9 * (rank + 1) / ranks);
    add("/model/matrix", 0, matrix, TensorPart(matrix.shape(), columns));
    const Count begin = 30 * rank / ranks;
    add("/model/vector", 1, vector, {vector.shape(), begin, 30 * (rank + 1) / ranks - begin});
    last_vector_ = shards.back().elements.to_host();
    return save_shards(*comm_, run_, shards, make_state(step), {.form = form});
  }

  /// Flips a bit of this rank's first element of the vector. Call on rank 0 alone: it holds the first elements.
  void damage_vector(const fs::path& file) const {
    std::string bytes = read_all(file);
    const std::string elements(static_cast<const char*>(last_vector_.raw()), static_cast<std::size_t>(last_vector_.bytes()));
    const std::size_t at = bytes.find(elements);
    ASSERT_NE(at, std::string::npos);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_all(file, bytes);
  }

  std::unique_ptr<Communicator> comm_;
  fs::path run_;
  Tensor last_vector_;
};

TEST_F(Inspect, FormsAndLayoutsCompareEqual) {
  const fs::path a = save(1, CheckpointForm::per_rank);
  const fs::path b = save(2, CheckpointForm::consolidated);
  const fs::path c = save(3, CheckpointForm::per_rank, 0.25f);
  if (!root()) return;
  const CheckpointReader first(a), second(b), third(c);
  for (const TensorDifference& difference : compare_tensors(first, second, 0.0)) {
    EXPECT_EQ(difference.result, TensorComparison::equal) << difference.name;
  }
  for (const CheckpointReader* reader : {&first, &second}) {
    const std::vector<TensorDifference> d = compare_tensors(*reader, third, 0.0);
    EXPECT_EQ(d[0].different, 1);
    EXPECT_EQ(d[0].first, (std::vector<Count>{2, 4}));
    EXPECT_NEAR(d[0].absolute, 0.25, 1e-7) << "the sum is rounded to fp32";
    EXPECT_EQ(d[1].result, TensorComparison::equal);
  }
  for (const char* name : {"/model/matrix", "/model/vector"}) {
    const TensorStatistics in_parts = statistics_of(first, *first.manifest().find(name));
    const TensorStatistics whole = statistics_of(second, *second.manifest().find(name));
    EXPECT_EQ(in_parts.elements, whole.elements);
    EXPECT_EQ(in_parts.min, whole.min);
    EXPECT_EQ(in_parts.max, whole.max);
    EXPECT_NEAR(in_parts.norm, whole.norm, 1e-12) << "summed in another order";
    EXPECT_NEAR(in_parts.deviation, whole.deviation, 1e-12);
  }
}

TEST_F(Inspect, AllDamageIsFound) {
  const fs::path folder = save(1, CheckpointForm::per_rank);
  if (!root()) return;
  EXPECT_TRUE(find_damage(folder).empty());
  Bytes read = 0;
  find_damage(folder, [&](Bytes done, Bytes all) {
    EXPECT_EQ(all, (63 + 30) * 4);
    EXPECT_GT(done, read);
    read = done;
  });
  EXPECT_EQ(read, (63 + 30) * 4) << "progress ends at the end";

  const fs::path own = folder / rank_file_name(0);
  damage_vector(own);
  std::vector<Damage> found = find_damage(folder);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].file, own.string());
  EXPECT_NE(found[0].dataset.find("vector"), std::string::npos) << found[0].dataset;
  expect_mentions(found[0].what, {own.string(), found[0].dataset, "checksum"});

  const fs::path stranger = folder / rank_file_name(99);
  fs::copy_file(own, stranger);
  found = find_damage(folder);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].file, stranger.string());

  const fs::path last = folder / rank_file_name(comm_->size() - 1);
  if (last == own) return;
  fs::remove(last);
  found = find_damage(folder);
  ASSERT_EQ(found.size(), 3u) << "a missing file is one item, and the rest is read all the same";
  EXPECT_EQ(found[1].file, last.string());
  EXPECT_EQ(found[1].dataset, "");
  EXPECT_EQ(found[2].file, own.string());
  expect_mentions(error_of(ExitCode::checkpoint, [&] { CheckpointReader(folder).verify(); }), {"rank_00099", "2 more"});
}

TEST_F(Inspect, DamagedModelFileAndManifest) {
  const fs::path folder = save(1, CheckpointForm::per_rank);
  if (!root()) return;
  const std::string bytes = read_all(folder / kModelFile);
  write_all(folder / kModelFile, bytes.substr(0, bytes.size() - 1));
  std::vector<Damage> found = find_damage(folder);
  ASSERT_EQ(found.size(), 1u) << "the rank files are sound";
  EXPECT_EQ(found[0].file, (folder / kModelFile).string());
  std::string state = bytes;
  state.replace(state.find("test layers=1"), 4, "best");
  write_all(folder / kModelFile, state);
  EXPECT_FALSE(find_damage(folder).empty()) << "attributes have HDF5's checksums";
  write_all(folder / kModelFile, bytes);
  EXPECT_TRUE(find_damage(folder).empty());
  write_all(folder / kManifestFile, read_all(folder / kManifestFile) + "\n");
  found = find_damage(folder);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].file, (folder / kManifestFile).string());
}

TEST_F(Inspect, InventoryListsAllThereIs) {
  save(1, CheckpointForm::per_rank);
  save(2, CheckpointForm::consolidated);
  for (const Count step : {3, 4, 5}) save(step, CheckpointForm::per_rank);
  if (!root()) return;
  const fs::path folder = checkpoints_folder(run_);
  fs::remove(folder / step_name(3) / rank_file_name(0));
  write_all(folder / step_name(4) / kManifestFile, "{}");
  fs::rename(folder / step_name(5), folder / replaced_name(5));
  fs::create_directories(folder / step_name(6));
  fs::create_directories(folder / temporary_name(7));
  fs::create_directories(folder / "notes");
  std::vector<std::pair<Count, EntryKind>> seen;
  for (const CheckpointEntry& entry : inventory_of(run_)) {
    seen.emplace_back(entry.step, entry.kind);
    EXPECT_EQ(entry.reason.empty(), entry.kind == EntryKind::complete) << entry.folder;
    if (entry.step == 1 || entry.step == 2) {
      EXPECT_EQ(entry.form, entry.step == 1 ? CheckpointForm::per_rank : CheckpointForm::consolidated);
      EXPECT_EQ(entry.parameters, 63 + 30);
      EXPECT_FALSE(entry.has_optimizer);
      EXPECT_EQ(entry.state.step, entry.step);
      EXPECT_GT(entry.bytes, (63 + 30) * 4);
    }
    if (entry.step == 3) expect_mentions(entry.reason, {"rank_00000.h5"});
  }
  using enum EntryKind;
  EXPECT_EQ(seen, (std::vector<std::pair<Count, EntryKind>>{{-1, stranger},
                                                            {1, complete},
                                                            {2, complete},
                                                            {3, damaged},
                                                            {4, damaged},
                                                            {5, complete},  // it counts: there is no step_00000005
                                                            {6, incomplete},
                                                            {7, leftover}}));
  EXPECT_TRUE(inventory_of(run_ / "nowhere").empty());
  EXPECT_EQ(find_runs(run_.parent_path() / run_.filename()), std::vector<fs::path>{run_});
  fs::create_directories(run_ / "group" / "b" / "checkpoints" / "x" / "checkpoints");
  fs::create_directories(run_ / "group" / "a" / "checkpoints");
  EXPECT_EQ(find_runs(run_ / "group"), (std::vector<fs::path>{run_ / "group" / "a", run_ / "group" / "b"}));
}

}  // namespace
}  // namespace cohort::test
