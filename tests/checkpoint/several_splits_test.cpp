// Tensors split in two and three dims at once: saved in every form and way, loaded and written again in other layouts, whole and
// in parts, with every element at its place; and faults in such parts, which are found.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/load/collective.hpp"
#include "checkpoint/read/reader.hpp"
#include "checkpoint/write/rewrite.hpp"
#include "comm/consensus.hpp"
#include "comm/mpi_communicator.hpp"
#include "hdf5/hdf5.hpp"
#include "split_shards.hpp"

namespace cohort::test {
namespace {

const std::vector<Splits> kLayouts{{.experts = 2, .tensor = 2},
                                   {.experts = 3, .tensor = 2, .zero = 2},
                                   {.experts = 2, .inner = 2, .tensor = 3},
                                   {.inner = 3, .tensor = 2, .zero = 3},
                                   {.zero = 4},
                                   {}};

FileLayout files_of(const Splits& splits) {
  return {splits.ranks(), [splits](int rank) { return shards_of_split(splits, rank, false); }, kModel};
}

class SeveralSplits : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder;
    if (root()) folder = (fs::temp_directory_path() / fmt::format("cohort_splits_{}", ::getpid())).string();
    run_ = broadcast_text(*comm_, folder, 0);
    if (root()) fs::create_directories(run_);
    comm_->barrier();
  }
  void TearDown() override {
    comm_->barrier();
    if (root()) fs::remove_all(run_);
  }

  bool root() const { return comm_->rank() == 0; }
  /// This rank plays one or more of the layout's.
  std::vector<StateShard> own(const Splits& splits, bool filled) const {
    std::vector<StateShard> shards;
    for (int rank = comm_->rank(); rank < splits.ranks(); rank += comm_->size()) {
      for (StateShard& shard : shards_of_split(splits, rank, filled)) shards.push_back(std::move(shard));
    }
    return shards;
  }
  fs::path save(const Splits& splits, Count step, const SaveOptions& options) const {
    return save_shards(*comm_, run_, own(splits, true), make_state(step), options);
  }
  void expect_loads(const fs::path& folder, const Splits& splits) const {
    const std::vector<StateShard> into = own(splits, false);
    load_shards(*comm_, folder, into, kModel);
    EXPECT_EQ(wrong_elements(into), 0) << splits.name();
  }
  /// By Cohort's reader, and as HDF5's tools see it.
  static void expect_whole(const fs::path& folder) {
    const auto expect_elements = [](const std::string& name, std::span<const float> values) {
      Count wrong = 0;
      for (std::size_t i = 0; i < values.size(); ++i) wrong += values[i] != value_at(name, static_cast<Count>(i)) ? 1 : 0;
      EXPECT_EQ(wrong, 0) << name;
    };
    {
      const CheckpointReader reader(folder);
      reader.verify();
      ASSERT_EQ(reader.manifest().tensors().size(), 2 * kSplitParameters.size());
      for (const ManifestTensor& tensor : reader.manifest().tensors())
        expect_elements(tensor.name, reader.read(tensor).tensor.span<float>());
    }
    const hdf5::File model = hdf5::File::open((folder / kModelFile).string(), ExitCode::checkpoint);
    for (const auto& [parameter, shape] : kSplitParameters) {
      std::vector<float> seen(static_cast<std::size_t>(shape.elements()));
      model.open_dataset(value_dataset(parameter).substr(1)).read<float>(seen);
      expect_elements(value_dataset(parameter), seen);
    }
  }

  std::unique_ptr<Communicator> comm_ = make_world_communicator();
  fs::path run_;
};

std::vector<SaveOptions> ways() {
  std::vector<SaveOptions> ways{{.form = CheckpointForm::per_rank, .verify = true},
                                {.form = CheckpointForm::per_rank, .storage = {.chunk = 256 * kKiB, .compression = 1}},
                                {.form = CheckpointForm::consolidated, .verify = true}};
  if (hdf5::File::has_parallel()) ways.push_back({.form = CheckpointForm::consolidated, .storage = {.collective = true}});
  return ways;
}

TEST_F(SeveralSplits, AnyLayoutLoadsWhatAnyOtherSavedInAnyWay) {
  Count step = 0;
  std::size_t shift = 0;  // so that each way meets other pairs of layouts
  for (const SaveOptions& options : ways()) {
    ++shift;
    for (std::size_t i = 0; i < kLayouts.size(); ++i) {
      SCOPED_TRACE(fmt::format("{}, collective {}, {}", name_of(options.form), options.storage.collective, kLayouts[i].name()));
      const fs::path folder = save(kLayouts[i], ++step, options);
      if (root()) expect_whole(folder);
      expect_loads(folder, kLayouts[i]);
      expect_loads(folder, kLayouts[(i + shift) % kLayouts.size()]);
    }
  }
}

// On one process, from and to the files of more ranks than there are here; and back to one file.
TEST_F(SeveralSplits, IsWrittenAgainInAnyLayoutAndWhole) {
  const SaveOptions by_ranks{.form = CheckpointForm::per_rank};
  for (std::size_t i = 0; i + 1 < kLayouts.size(); ++i) {
    const Splits& to = kLayouts[i + 1];
    SCOPED_TRACE(kLayouts[i].name() + " to " + to.name());
    const fs::path source = save(kLayouts[i], 1, by_ranks);
    if (root()) {
      const CheckpointReader reader(source);
      reshard_checkpoint(reader, run_ / "ranks", files_of(to), {});
      consolidate_checkpoint(CheckpointReader(run_ / "ranks/checkpoints/step_00000001"), run_ / "whole", {});
      expect_whole(run_ / "ranks/checkpoints/step_00000001");
      expect_whole(run_ / "whole/checkpoints/step_00000001");
      std::size_t cuts = 0;  // dims of the experts' matrices
      for (const ManifestPart& part : reader.manifest().find("/model/experts/up/weight")->parts) {
        std::size_t own = 0;
        for (std::size_t dim = 0; dim < 3; ++dim) own += part.part.box().count[dim] < part.part.shape()[static_cast<int>(dim)];
        cuts = std::max(cuts, own);
      }
      const auto split = [](int parts) { return parts > 1 ? std::size_t{1} : std::size_t{0}; };
      EXPECT_EQ(cuts, split(kLayouts[i].experts) + split(kLayouts[i].inner) + split(kLayouts[i].tensor));
    }
    comm_->barrier();
    expect_loads(run_ / "ranks/checkpoints/step_00000001", kLayouts[(i + 2) % kLayouts.size()]);
    expect_loads(run_ / "whole/checkpoints/step_00000001", kLayouts[i]);
  }
}

// ---- faults

bool is_cut(const TensorPart& part, std::size_t dim) { return part.box().count[dim] < part.shape()[static_cast<int>(dim)]; }

// Of what the last rank has of the experts' matrices: where it lies in its last dim, which is the second to be cut; or all of it.
TEST_F(SeveralSplits, AWrongOffsetOrAMissingPartIsRefusedOnAllRanks) {
  for (const SaveOptions& options : ways()) {
    save({.experts = 2, .tensor = 2}, 1, options);
    for (const bool missing : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, collective {}, missing {}", name_of(options.form), options.storage.collective, missing));
      std::vector<StateShard> shards = own({.experts = 2, .tensor = 2}, true);
      if (comm_->rank() == 3 % comm_->size()) {
        const auto faulty = std::find_if(shards.rbegin(), shards.rend(),
                                         [](const StateShard& shard) { return shard.tensor == "/model/experts/up/weight"; });
        ASSERT_NE(faulty, shards.rend());
        ASSERT_TRUE(is_cut(faulty->part, 0) && is_cut(faulty->part, 2));
        if (missing) {
          shards.erase(std::next(faulty).base());
        } else {
          Box moved = faulty->part.box();
          moved.start[2] -= 1;
          faulty->part = TensorPart(faulty->part.shape(), moved);
        }
      }
      std::string message;
      try {
        save_shards(*comm_, run_, shards, make_state(2), options);
        ADD_FAILURE() << "saved";
      } catch (const SharedError& error) {
        message = error.what();
      }
      EXPECT_NE(message.find("the parts of /model/experts/up/weight do not cover its shape [6, 170, 1100] exactly once"),
                std::string::npos)
          << message;
      EXPECT_TRUE(same_on_all_ranks(*comm_, message));
      EXPECT_EQ(list_checkpoints(run_).size(), 1u) << "the former one";
      comm_->barrier();
    }
  }
}

TEST_F(SeveralSplits, AManifestWhosePartsDoNotCoverIsRefused) {
  const fs::path folder = save({.experts = 2, .tensor = 2}, 1, {.form = CheckpointForm::per_rank});
  const std::string right = read_all(folder / kManifestFile);
  comm_->barrier();
  using Json = nlohmann::ordered_json;
  const std::vector<std::function<void(Json&)>> faults{
      [](Json& parts) { parts[3]["start"][2] = parts[3]["start"][2].get<Count>() - 1; },
      [](Json& parts) { parts[3]["start"][0] = 0; },
      [](Json& parts) { parts[3]["start"][2] = 1100; },
      [](Json& parts) { parts[3]["start"][2] = -1; },
      [](Json& parts) { parts[3]["start"].erase(2); },
      [](Json& parts) { parts[3]["count"][2] = parts[3]["count"][2].get<Count>() - 1; },
      [](Json& parts) { parts[3].erase("count"); },
      [](Json& parts) { parts[3].erase("start"); },
      [](Json& parts) { parts[3]["begin"] = 1; },
      [](Json& parts) { parts[3] = parts[2]; },
      [](Json& parts) { parts.erase(3); }};
  for (std::size_t i = 0; i < faults.size(); ++i) {
    SCOPED_TRACE(i);
    if (root()) {
      Json manifest = Json::parse(right);
      ASSERT_EQ(manifest["tensors"][0]["name"], "/model/experts/up/weight");
      faults[i](manifest["tensors"][0]["parts"]);
      write_all(folder / kManifestFile, sealed(manifest.dump(1) + "\n"));
    }
    comm_->barrier();
    const std::vector<StateShard> into = own({.experts = 2, .tensor = 2}, false);
    try {
      load_shards(*comm_, folder, into, kModel);
      ADD_FAILURE() << "loaded";
    } catch (const SharedError& error) {
      EXPECT_EQ(error.code(), ExitCode::checkpoint);
      expect_mentions(error.what(), {(folder / kManifestFile).string(), "not a checkpoint manifest"});
    }
    comm_->barrier();
  }
  if (root()) write_all(folder / kManifestFile, right);
  comm_->barrier();
  expect_loads(folder, {.tensor = 3});
}

}  // namespace
}  // namespace cohort::test
