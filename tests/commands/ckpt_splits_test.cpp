// `cohort ckpt` on checkpoints whose tensors are split in several dims at once.
#include "checkpoint/read/reader.hpp"
#include "checkpoint/split_shards.hpp"
#include "checkpoint/write/rewrite.hpp"
#include "commands/ckpt_command_fixture.hpp"
#include "config/model_rules.hpp"
#include "config/run_file.hpp"
#include "train/resume.hpp"
#include "train/shards_of_rank.hpp"

namespace cohort::test {
namespace {

class CkptSplits : public CkptCommandTest {
 protected:
  /// Step 100 of this run, of these parts of each rank.
  void save(const std::string& run, const std::vector<std::vector<StateShard>>& ranks, const TrainingState& state) const {
    const SaveOptions options{.form = CheckpointForm::per_rank};
    std::vector<std::vector<WriteItem>> parts;
    for (const std::vector<StateShard>& shards : ranks) parts.push_back(write_items_of(shards, options));
    save_parts_of_ranks(run_ / run, parts, state, options);
  }
  void save(const std::string& run, const Splits& splits) const {
    std::vector<std::vector<StateShard>> ranks;
    for (int rank = 0; rank < splits.ranks(); ++rank) ranks.push_back(shards_of_split(splits, rank, true));
    save(run, ranks, make_state(100));
  }
  std::string path(const std::string& run) const { return (run_ / run).string(); }
  fs::path folder(const std::string& run) const { return run_ / run / "checkpoints" / step_name(100); }
};

TEST_F(CkptSplits, AreListedShownVerifiedAndCompared) {
  save("run", {.experts = 2, .tensor = 2, .zero = 2});
  save("other", {.experts = 3, .inner = 2});
  expect_mentions(output({"ls", path("run")}), {"100   per_rank", "1.12M", "newest"});
  expect_mentions(output({"verify", path("run")}), {"step_00000100: OK"});
  expect_mentions(output({"show", path("run")}), {"[6, 170, 1100]", "all checksums match", "parts in"});
  // Two of six experts, a third of the last dim; ZeRO's boundary lies in the box.
  const std::string up = output({"show", path("run"), "--tensor", "/model/experts/up/weight"});
  expect_mentions(up, {"rank_00000.h5 /model/experts/up/weight/0: dim 0 from 0 to 2, dim 2 from 0 to 366",
                       "rank_00006.h5 /model/experts/up/weight/0: dim 0 from 2 to 6, dim 2 from 366 to 1100, elements 0 to "});
  expect_mentions(output({"show", path("run"), "--shards"}), {"dim 0 from 2 to 6, dim 2 from 366 to 1100, elements", "of these"});
  const Json part = json({"show", path("run"), "--fast"}).at("tensors").at(0).at("parts").back();
  EXPECT_EQ(part.at("start"), Json::parse("[2, 0, 366]"));
  EXPECT_EQ(part.at("count"), Json::parse("[4, 170, 734]"));

  expect_mentions(output({"diff", path("run"), path("other")}), {"10 of 10 tensors equal"});
  output({"consolidate", path("other"), "--out", path("whole")});
  expect_mentions(output({"diff", path("run"), path("whole")}), {"10 of 10 tensors equal"});
  expect_mentions(output({"verify", path("whole")}), {": OK"});
  // One element of a part, in its second run of neighbours: the place that is told is that in the whole tensor.
  std::vector<StateShard> shards = shards_of_split({.experts = 3, .inner = 2}, 5, true);
  shards.front().elements.to_host().f32()[1] += 1.0f;
  std::vector<std::vector<StateShard>> ranks;
  for (int rank = 0; rank < 5; ++rank) ranks.push_back(shards_of_split({.experts = 3, .inner = 2}, rank, true));
  ranks.push_back(shards);
  save("changed", ranks, make_state(100));
  expect_mentions(output({"diff", path("run"), path("changed")}, static_cast<int>(ExitCode::unequal)),
                  {"/model/experts/up/weight", "[3, 56, 1]", "9 of 10 tensors equal"});
}

// Of a part that is damaged, or whose file is gone, the name.
TEST_F(CkptSplits, DamageIsNamed) {
  save("run", {.experts = 2, .tensor = 2});
  const fs::path file = folder("run") / "rank_00003.h5";
  const std::string right = read_all(file);
  const float value = value_at("/model/experts/down/weight", ((2 * 9 + 8) * 4 + 3) * 7 + 6);  // the last of the third expert
  const std::size_t at = right.find(std::string(reinterpret_cast<const char*>(&value), sizeof(value)));
  ASSERT_NE(at, std::string::npos);
  std::string bytes = right;
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  write_all(file, bytes);
  const int damaged = static_cast<int>(ExitCode::checkpoint);
  expect_mentions(output({"verify", path("run")}, damaged), {"rank_00003.h5", "/model/experts/down/weight/0", "damaged"});
  fs::remove(file);
  expect_mentions(output({"verify", path("run")}, damaged), {"rank_00003.h5"});
  write_all(file, right);
  output({"verify", path("run")});
}

// A model that this Cohort trains, as ranks would leave it whose layout cuts both dims of each matrix: the command writes it
// again for a layout that there is, to the byte as from whole tensors.
TEST_F(CkptSplits, AreReshardedToTheBytesOfTheLayout) {
  TrainingState state = make_state(100);
  state.run_file =
      "[model]\nkind = \"llama\"\nlayers = 2\nwidth = 16\nheads = 4\nkv_heads = 2\nffn_width = 64\ncontext = 8\nvocabulary = 12\n"
      "[data]\ntokens = \"text.h5\"\n[train]\nmicro_batch = 2\nglobal_batch = 8\n[parallel]\ndp = 1\n";
  const RunConfig config = parse_saved_run_file(state.run_file, "the test's run file");
  state.model = describe_model(config.model);
  state.created = "2024-01-02T03:04:05Z";
  constexpr int kRows = 2, kColumns = 3;
  std::vector<std::vector<StateShard>> whole(1), boxes(kRows * kColumns);
  const auto add = [](std::vector<StateShard>& shards, StateShard shard, const TensorPart& part) {
    const Tensor values = Tensor::zeros("test", {part.elements()});
    for (Count i = 0; i < part.elements(); ++i) values.f32()[i] = value_at(shard.tensor, place_of(part, i));
    shard.part = part;
    shard.elements = values;
    shards.push_back(std::move(shard));
  };
  for (const StateShard& shard : shards_of_rank(config, 0)) {
    const Shape& shape = shard.part.shape();
    add(whole[0], shard, TensorPart(shape));
    for (int rank = 0; rank < kRows * kColumns; ++rank) {
      const auto range = [&](int dim, Count place, Count parts) {
        return Box::range(shape, dim, shape[dim] * place / parts, shape[dim] * (place + 1) / parts);
      };
      const auto own = static_cast<std::size_t>(rank);
      if (shape.dims() == 2) {
        add(boxes[own], shard,
            TensorPart(shape, intersection(range(0, rank / kColumns, kRows), range(1, rank % kColumns, kColumns))));
      } else if (rank == kColumns) {
        add(boxes[own], shard, TensorPart(shape));
      }
    }
  }
  save("whole", whole, state);
  save("boxes", boxes, state);
  for (const std::string layout : {"dp=2,tp=2,data=zero1", "dp=4,data=zero3", "pp=2", "dp=1"}) {
    SCOPED_TRACE(layout);
    for (const std::string run : {"whole", "boxes"})
      output({"reshard", path(run), "--layout", layout, "--out", path("from_" + run), "--overwrite"});
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(folder("from_whole"))) {
      const fs::path name = entry.path().filename();
      EXPECT_TRUE(read_all(entry.path()) == read_all(folder("from_boxes") / name)) << name << " differs";
      ++files;
    }
    EXPECT_GE(files, 3u);
    expect_mentions(output({"verify", path("from_boxes")}), {": OK"});
    expect_mentions(output({"diff", path("boxes"), path("from_boxes")}), {"tensors equal"});
  }
  output({"reshard", path("boxes"), "--layout", "tp=2", "--in-place"});
  expect_mentions(output({"diff", path("boxes"), path("whole")}), {"tensors equal"});
}

}  // namespace
}  // namespace cohort::test
