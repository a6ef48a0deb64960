// Checkpoints written again: in the other form, in the files of other ranks, with other types; and what must not change by it.
#include "checkpoint/write/rewrite.hpp"

#include <sys/resource.h>
#include <sys/wait.h>

#include <bit>

#include "checkpoint/checkpoint_fixture.hpp"

namespace cohort::test {
namespace {

struct Logical {
  std::string name;
  int order;
  Tensor whole;
};

std::vector<Logical> make_tensors() {
  std::vector<Logical> tensors;
  const auto add = [&](const std::string& name, int order, const Shape& shape) {
    tensors.push_back({name, order, Tensor::zeros("test", shape)});
    fill(tensors.back().whole, tensors.size());
  };
  add("/model/large", 0, {1031, 1033});  // a block and a bit
  add("/model/small", 1, {5});
  add("/model/cube", 2, {6, 7, 8});
  add("/optim/m/large", 0, {1031, 1033});
  add("/optim/v/large", 0, {1031, 1033});
  add("/optim/m/small", 1, {5});
  add("/optim/m/cube", 2, {6, 7, 8});
  // Patterns that arithmetic on floats would not keep.
  const std::uint32_t patterns[]{0x80000000, 0x7f800001, 0xffc54321, 0x00000001, 0x7f800000};
  std::memcpy(tensors[1].whole.raw(), patterns, sizeof(patterns));
  return tensors;
}

/// A rank's part of a tensor: uneven ranges of one dim, or (dim -1, or no such dim) uneven runs, cut in two.
std::vector<TensorPart> parts_of(const Shape& shape, int dim, int rank, int ranks) {
  const auto edge = [&](Count n, int r) { return n * r * r / (ranks * ranks); };
  if (dim >= 0 && dim < shape.dims()) {
    const TensorPart part(shape, Box::range(shape, dim, edge(shape[dim], rank), edge(shape[dim], rank + 1)));
    const Count elements = part.elements();
    if (elements == 0) return {};
    return {part.slice(0, elements / 3), part.slice(elements / 3, elements - elements / 3)};
  }
  const Count begin = edge(shape.elements(), rank), end = edge(shape.elements(), rank + 1);
  if (begin == end) return {};
  return {TensorPart(shape, begin, end - begin)};
}

FileLayout layout_of(const std::vector<Logical>& tensors, int dim, int ranks) {
  return {ranks,
          [&tensors, dim, ranks](int rank) {
            std::vector<StateShard> shards;
            for (const Logical& tensor : tensors) {
              for (const TensorPart& part : parts_of(tensor.whole.shape(), dim, rank, ranks))
                if (part.elements() > 0) shards.push_back({tensor.name, tensor.order, part, {}, true});
            }
            return shards;
          },
          kModel};
}

class Rewrite : public CheckpointTest {
 protected:
  /// As the ranks of the layout save it themselves.
  fs::path save_as_ranks(const std::string& run, int dim, int ranks, DType model_dtype = DType::f32) const {
    std::vector<std::vector<WriteItem>> all;
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<StateShard> shards = layout_of(tensors_, dim, ranks).shards(rank);
      for (StateShard& shard : shards) {
        const Tensor& whole = std::find_if(tensors_.begin(), tensors_.end(), [&](const Logical& tensor) {
                                return tensor.name == shard.tensor;
                              })->whole;
        const Tensor elements = Tensor::zeros("test", {shard.part.elements()});
        for_each_run(shard.part, [&](Count i, Count at, Count n) {
          std::memcpy(elements.f32() + i, whole.f32() + at, static_cast<std::size_t>(n) * sizeof(float));
        });
        shard.elements = elements;
      }
      all.push_back(write_items_of(shards, {.form = CheckpointForm::per_rank, .model_dtype = model_dtype}));
    }
    return save_parts_of_ranks(run_ / run, all, state(), {.form = CheckpointForm::per_rank}).folder;
  }

  /// As one rank saves it that holds all.
  fs::path save_whole(const std::string& run, DType model_dtype = DType::f32) const {
    std::vector<StateShard> shards;
    for (const Logical& tensor : tensors_) {
      shards.push_back(
          {tensor.name, tensor.order, TensorPart(tensor.whole.shape()), tensor.whole.reshaped({tensor.whole.elements()}), true});
    }
    const auto self = make_self_communicator("self");
    return save_shards(*self, run_ / run, shards, state(), {.model_dtype = model_dtype});
  }

  static TrainingState state() {
    TrainingState state = make_state(100);
    state.created = "2024-01-02T03:04:05Z";
    state.validation_loss = "1.25";
    state.history = "from step 3 on: something\n";
    return state;
  }

  const std::vector<Logical> tensors_ = make_tensors();
};

// The same content gives the same bytes, so that whole files can be compared: elements, checksums, attributes and the manifest.
void expect_same_files(const fs::path& a, const fs::path& b) {
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(a)) {
    const fs::path name = entry.path().filename();
    ++files;
    EXPECT_TRUE(read_all(a / name) == read_all(b / name)) << name << " differs";
  }
  EXPECT_EQ(static_cast<std::ptrdiff_t>(files), std::distance(fs::directory_iterator(b), fs::directory_iterator()));
  EXPECT_GE(files, 2u);
}

TEST_F(Rewrite, ConsolidatesToTheBytesThatOneRankWrites) {
  const fs::path wanted = save_whole("whole");
  for (const int dim : {-1, 0, 1}) {
    for (const int ranks : {1, 3}) {
      SCOPED_TRACE(fmt::format("dim {}, {} ranks", dim, ranks));
      const CheckpointReader source(save_as_ranks("ranks", dim, ranks));
      double last = 0.0;
      const Saved saved = consolidate_checkpoint(source, run_ / "out", {}, [&](double share) {
        EXPECT_GE(share, last);
        last = share;
      });
      EXPECT_EQ(last, 1.0);
      EXPECT_EQ(saved.folder, run_ / "out" / "checkpoints" / "step_00000100");
      expect_same_files(saved.folder, wanted);
    }
  }
}

TEST_F(Rewrite, ReshardsToTheBytesThatRanksWrite) {
  const CheckpointReader whole(save_whole("whole"));
  const CheckpointReader others(save_as_ranks("others", 1, 2));
  for (const int dim : {-1, 0, 1}) {
    for (const int ranks : {1, 3, 4}) {
      SCOPED_TRACE(fmt::format("dim {}, {} ranks", dim, ranks));
      const fs::path wanted = save_as_ranks("wanted", dim, ranks);
      for (const CheckpointReader* source : {&whole, &others}) {
        const Saved saved = reshard_checkpoint(*source, run_ / "out", layout_of(tensors_, dim, ranks), {});
        expect_same_files(saved.folder, wanted);
        CheckpointReader(saved.folder).verify();
      }
    }
  }
}

TEST_F(Rewrite, RoundedWeightsAndTheirExactCopiesStay) {
  const CheckpointReader ranks(save_as_ranks("ranks", 1, 3, DType::bf16));
  expect_same_files(consolidate_checkpoint(ranks, run_ / "out", {}).folder, save_whole("whole", DType::bf16));
  const CheckpointReader whole(run_ / "whole" / "checkpoints" / "step_00000100");
  expect_same_files(reshard_checkpoint(whole, run_ / "again", layout_of(tensors_, 1, 3), {}).folder, ranks.folder());
}

// Rounded once, from the exact values, whatever was stored before.
TEST_F(Rewrite, OtherTypesAreThoseOfARunThatStoresThem) {
  for (const DType from : {DType::f32, DType::bf16, DType::f16}) {
    const CheckpointReader source(save_as_ranks("source", 0, 2, from));
    for (const DType to : {DType::f32, DType::bf16, DType::f16}) {
      SCOPED_TRACE(fmt::format("{} to {}", name_of(from), name_of(to)));
      expect_same_files(consolidate_checkpoint(source, run_ / "out", {.model_dtype = to}).folder, save_whole("wanted", to));
    }
  }
}

TEST_F(Rewrite, WeightsAlone) {
  const CheckpointReader source(save_as_ranks("source", 0, 2, DType::bf16));
  for (const auto dtype : {std::optional<DType>(), std::optional(DType::f16), std::optional(DType::f32)}) {
    const CheckpointReader weights(
        consolidate_checkpoint(source, run_ / "out", {.weights_only = true, .model_dtype = dtype}).folder);
    weights.verify();
    ASSERT_EQ(weights.manifest().tensors().size(), 3u);
    for (const ManifestTensor& tensor : weights.manifest().tensors()) {
      EXPECT_TRUE(tensor.name.starts_with("/model/"));
      EXPECT_EQ(tensor.dtype, dtype.value_or(DType::bf16));
    }
    const auto large = weights.read(weights.manifest().tensors().front());
    const float value = tensors_.front().whole.f32()[77777];
    if (dtype == DType::f16) {
      EXPECT_EQ(large.tensor.data<f16>()[77777].bits, from_float<f16>(value).bits);
    } else if (dtype == DType::f32) {
      EXPECT_EQ(large.tensor.f32()[77777], value) << "from the exact copy";
    }
    EXPECT_EQ(weights.state(), state());
    // And the ranks of a layout get what is left.
    const CheckpointReader ranks(reshard_checkpoint(weights, run_ / "ranks", layout_of(tensors_, 1, 2), {}).folder);
    ranks.verify();
    EXPECT_EQ(ranks.manifest().tensors().size(), 3u);
  }
}

TEST_F(Rewrite, KeepsElementsOfAnyType) {
  auto model = make_model();
  set_values(*model, 1);
  Tensor counts = Tensor::zeros("test", {12}, DType::i64);
  for (Count i = 0; i < 12; ++i) counts.data<std::int64_t>()[i] = -1000000007 * i;
  model->find("blocks.0.attention.qkv.bias")->optimizer_state["counts"] = counts;
  const CheckpointReader source(save_checkpoint(run_, *model, state()));
  expect_same_files(consolidate_checkpoint(source, run_ / "out", {}).folder, source.folder());
  const FileLayout none{1, [](int) { return std::vector<StateShard>(); }, kModel};
  expect_mentions(error_of(ExitCode::checkpoint, [&] { reshard_checkpoint(source, run_ / "out2", none, {}); }), {"embedding"});
}

TEST_F(Rewrite, OfTheFirstVersion) {
  const CheckpointReader source(fs::path(COHORT_SOURCE_DIR) / "tests/checkpoint/fixtures/version_1");
  const CheckpointReader out(consolidate_checkpoint(source, run_ / "out", {}).folder);
  out.verify();
  EXPECT_EQ(out.manifest().version, kFormatVersion);
  EXPECT_EQ(out.state(), source.state());
  ASSERT_EQ(out.manifest().tensors().size(), source.manifest().tensors().size());
  for (const ManifestTensor& tensor : source.manifest().tensors()) {
    EXPECT_EQ(out.read(*out.manifest().find(tensor.name)).memory, source.read(tensor).memory) << tensor.name;
  }
}

TEST_F(Rewrite, TakesThePlaceOfItsSource) {
  const fs::path folder = save_as_ranks("run", 0, 3);
  const CheckpointReader source(folder);
  EXPECT_EQ(consolidate_checkpoint(source, run_ / "run", {}).folder, folder);
  expect_same_files(folder, save_whole("whole"));
  const CheckpointReader whole(folder);
  reshard_checkpoint(whole, run_ / "run", layout_of(tensors_, 1, 4), {});
  expect_same_files(folder, save_as_ranks("ranks", 1, 4));
  EXPECT_EQ(std::distance(fs::directory_iterator(run_ / "run" / "checkpoints"), fs::directory_iterator()), 1);
}

TEST_F(Rewrite, ADamagedSourceLeavesAllAsItWas) {
  const fs::path folder = save_as_ranks("run", 1, 2);
  std::string bytes = read_all(folder / "rank_00001.h5");
  const auto* value = reinterpret_cast<const char*>(&tensors_.front().whole.f32()[1032]);  // last of the first row
  const std::size_t at = bytes.find(std::string(value, sizeof(float)));
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 1;
  write_all(folder / "rank_00001.h5", bytes);
  for (const bool in_place : {false, true}) {
    const fs::path out = in_place ? run_ / "run" : run_ / "out";
    const CheckpointReader source(folder);
    const auto damaged = [&](const std::function<void()>& work) {
      expect_mentions(error_of(ExitCode::checkpoint, work), {"rank_00001.h5", "/model/large", "damaged"});
      EXPECT_EQ(list_checkpoints(out).size(), in_place ? 1u : 0u);
      EXPECT_EQ(std::distance(fs::directory_iterator(checkpoints_folder(out)), fs::directory_iterator()), in_place ? 1 : 0);
    };
    damaged([&] { consolidate_checkpoint(source, out, {}); });
    damaged([&] { reshard_checkpoint(source, out, layout_of(tensors_, 0, 3), {}); });
  }
  EXPECT_EQ(read_all(folder / "rank_00001.h5"), bytes);
}

TEST_F(Rewrite, RefusesALayoutOfAnotherModel) {
  const CheckpointReader source(save_whole("whole"));
  FileLayout layout = layout_of(tensors_, 0, 2);
  layout.model = "test layers=2 width=4";
  expect_mentions(error_of(ExitCode::checkpoint, [&] { reshard_checkpoint(source, run_ / "out", layout, {}); }),
                  {"layers=2", "layers=1"});
  std::vector<Logical> fewer = tensors_;
  fewer.erase(fewer.begin() + 2);
  expect_mentions(error_of(ExitCode::checkpoint, [&] { reshard_checkpoint(source, run_ / "out", layout_of(fewer, 0, 2), {}); }),
                  {"/model/cube"});
  std::vector<Logical> without_state = tensors_;
  std::erase_if(without_state, [](const Logical& tensor) { return tensor.name.starts_with("/optim/v"); });
  expect_mentions(
      error_of(ExitCode::checkpoint, [&] { reshard_checkpoint(source, run_ / "out", layout_of(without_state, 0, 2), {}); }),
      {"/optim/v/large"});
  EXPECT_FALSE(fs::exists(run_ / "out"));
}

// ---- memory

constexpr Count kMibElements = Count{1} << 18;

/// Runs `work` in a process of its own; returns by how many MiB its resident memory grew at most.
int growth_of(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto most = [] {
      rusage usage{};
      ::getrusage(RUSAGE_SELF, &usage);
      return usage.ru_maxrss / 1024;  // KiB
    };
    try {
      const long before = most();
      work();
      ::_exit(static_cast<int>(std::min<long>(most() - before, 250)));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(255);
    }
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

// A tensor of 192 MiB, which is never in memory: elements are made as they are asked for.
TEST_F(Rewrite, MemoryDoesNotGrowWithTheCheckpoint) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer keeps memory of its own for each byte that is touched";
#endif
  const Shape shape{4096, 48 * 256};
  ASSERT_EQ(shape.elements(), 192 * kMibElements);
  const auto shards_of = [&](int dim, int ranks, int rank) {
    std::vector<StateShard> shards;
    for (const TensorPart& part : parts_of(shape, dim, rank, ranks)) shards.push_back({"/model/large", 0, part, {}, true});
    return shards;
  };
  const int saving = growth_of([&] {
    std::vector<std::vector<WriteItem>> all(3);
    for (int rank = 0; rank < 3; ++rank) {
      for (const StateShard& shard : shards_of(1, 3, rank)) {
        all[static_cast<std::size_t>(rank)].push_back(
            {shard.tensor, 0, DType::f32, shard.part, [part = shard.part](Count begin, Count n) {
               const Tensor block = Tensor::zeros("test", {n});
               for (Count i = 0; i < n; ++i) block.f32()[i] = static_cast<float>(part.global(begin + i) % 1000003);
               return block;
             }});
      }
    }
    save_parts_of_ranks(run_ / "source", all, state(), {.form = CheckpointForm::per_rank});
  });
  EXPECT_LT(saving, 32) << "a block of 4 MiB at a time";
  const fs::path folder = run_ / "source" / "checkpoints" / "step_00000100";
  const int resharding = growth_of([&] {
    const CheckpointReader source(folder);
    reshard_checkpoint(source, run_ / "ranks", {2, [&](int rank) { return shards_of(0, 2, rank); }, kModel}, {});
  });
  EXPECT_LT(resharding, 64) << "32 MiB of blocks of the source, and one of the target";
  const int consolidating = growth_of([&] {
    const CheckpointReader source(folder);
    consolidate_checkpoint(source, run_ / "whole", {});
  });
  EXPECT_LT(consolidating, 128) << "the same, and two windows of 32 MiB";
  const CheckpointReader whole(run_ / "whole" / "checkpoints" / "step_00000100");
  whole.read_blocks(whole.manifest().tensors().front(), [](const ManifestPart&, Count begin, const Tensor& block) {
    for (Count i = 0; i < block.elements(); ++i) ASSERT_EQ(block.f32()[i], static_cast<float>((begin + i) % 1000003));
  });
}

}  // namespace
}  // namespace cohort::test
