// What is saved comes back, bit for bit; other programs can read it; old checkpoints go when they should.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "checkpoint/read/reader.hpp"
#include "checkpoint_fixture.hpp"

namespace cohort::test {
namespace {

using RoundTrip = CheckpointTest;

TEST_F(RoundTrip, RestoresEveryBitAndTheTrainingState) {
  const auto saved = make_model();
  set_values(*saved, 1);
  TrainingState state = make_state(100);
  const fs::path folder = save_checkpoint(run_, *saved, state, {.verify = true});
  EXPECT_EQ(folder, run_ / "checkpoints" / "step_00000100");
  const auto loaded = make_model();
  set_values(*loaded, 2);
  ASSERT_FALSE(same_bits(*saved, *loaded));
  const float* m = loaded->find("embedding.weight")->optimizer_state.at("m").f32();
  const TrainingState read = load_checkpoint(folder, *loaded, kModel, kSlots);
  EXPECT_TRUE(same_bits(*saved, *loaded));
  EXPECT_EQ(loaded->find("embedding.weight")->optimizer_state.at("m").f32(), m) << "state that exists is loaded in place";
  EXPECT_EQ(read.created.size(), std::string("2024-01-01T00:00:00Z").size());
  state.created = read.created;
  EXPECT_EQ(read, state);
  EXPECT_EQ(read_training_state(folder), state);
}

TEST_F(RoundTrip, KeepsUnusualBitPatterns) {
  const std::array<std::uint32_t, 12> patterns{0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x7f800000, 0xff800000,
                                               0x7fc00000, 0x7fc12345, 0xffc54321, 0x7f800001, 0x7f7fffff, 0x3f800001};
  const auto saved = make_model();
  set_values(*saved, 1);
  const Tensor& bias = saved->find("blocks.0.attention.qkv.bias")->value;
  std::memcpy(bias.raw(), patterns.data(), sizeof(patterns));  // as bits: copying floats could quiet a signalling NaN
  const fs::path folder = save_checkpoint(run_, *saved, make_state(1));
  const auto loaded = make_model();
  load_checkpoint(folder, *loaded, kModel, kSlots);
  EXPECT_EQ(std::memcmp(loaded->find("blocks.0.attention.qkv.bias")->value.raw(), patterns.data(), sizeof(patterns)), 0);
}

TEST_F(RoundTrip, AllocatesAbsentStateAndLoadsWeightsAlone) {
  const auto saved = make_model();
  set_values(*saved, 1);
  const fs::path folder = save_checkpoint(run_, *saved, make_state(1));
  const auto weights = make_model();
  load_checkpoint(folder, *weights, kModel, {});
  for (const auto& parameter : weights->all()) {
    EXPECT_TRUE(parameter->optimizer_state.empty());
    EXPECT_TRUE(same_bits(parameter->value, saved->find(parameter->name)->value));
  }
  const auto all = make_model();
  load_checkpoint(folder, *all, kModel, kSlots);
  EXPECT_TRUE(same_bits(*saved, *all));
}

TEST_F(RoundTrip, EmptyAndLongTexts) {
  const auto model = make_model();
  TrainingState state = make_state(1);
  state.run_file = "";
  state.data = "";
  EXPECT_EQ(read_training_state(save_checkpoint(run_, *model, state)).run_file, "");
  state.step = 2;
  state.run_file = std::string(300000, 'x') + "\n";  // more than an HDF5 attribute holds
  state.data = "stories.h5 " + std::string(100000, 'd');
  for (int resume = 0; resume < 4000; ++resume)
    state.history += fmt::format("from step {} on: a change that was allowed\n", resume);
  EXPECT_GT(state.history.size(), 65536u);
  state.tokenizer = std::string(2'000'000, 't') + "\xe2\x82\xac";  // a BPE vocabulary of 50,000
  for (const CheckpointForm form : {CheckpointForm::consolidated, CheckpointForm::per_rank}) {
    const TrainingState read = read_training_state(save_checkpoint(run_, *model, state, {.form = form}));
    EXPECT_EQ(read.run_file, state.run_file);
    EXPECT_EQ(read.data, state.data);
    EXPECT_EQ(read.history, state.history);
    EXPECT_EQ(read.tokenizer, state.tokenizer);
  }
}

TEST_F(RoundTrip, EachElementTypeOfOptimizerState) {
  const auto saved = make_model();
  const std::array dtypes{DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8};
  Parameter& parameter = *saved->find("embedding.weight");
  for (const DType dtype : dtypes) {
    const Tensor tensor = Tensor::zeros("test", parameter.global_shape, dtype);
    auto* bytes = static_cast<unsigned char*>(tensor.raw());
    for (Bytes i = 0; i < tensor.bytes(); ++i) bytes[i] = static_cast<unsigned char>(i * 37 + 11);
    parameter.optimizer_state[std::string(name_of(dtype))] = tensor;
  }
  const fs::path folder = save_checkpoint(run_, *saved, make_state(1), {.verify = true});
  const CheckpointReader reader(folder);
  for (const DType dtype : dtypes) {
    const ManifestTensor* entry = reader.manifest().find(state_dataset(name_of(dtype), "embedding.weight"));
    ASSERT_NE(entry, nullptr) << name_of(dtype);
    EXPECT_TRUE(same_bits(reader.read(*entry).tensor, parameter.optimizer_state.at(std::string(name_of(dtype)))))
        << name_of(dtype);
  }
}

TEST_F(RoundTrip, SameTrainingGivesTheSameFile) {
  const auto model = make_model();
  set_values(*model, 1);
  TrainingState state = make_state(5);
  state.created = "2024-01-01T00:00:00Z";
  const std::string first = read_all(save_checkpoint(run_ / "a", *model, state) / kModelFile);
  const std::string second = read_all(save_checkpoint(run_ / "b", *model, state) / kModelFile);
  EXPECT_EQ(first, second);
}

TEST_F(RoundTrip, SavingAStepAgainReplacesIt) {
  const auto model = make_model();
  set_values(*model, 1);
  save_checkpoint(run_, *model, make_state(5));
  set_values(*model, 2);
  const fs::path folder = save_checkpoint(run_, *model, make_state(5));
  const auto loaded = make_model();
  load_checkpoint(folder, *loaded, kModel, kSlots);
  EXPECT_TRUE(same_bits(*model, *loaded));
  EXPECT_EQ(entries(), 1u) << "neither the former checkpoint nor a temporary folder is left";
}

TEST_F(RoundTrip, KeepsTheNewest) {
  const auto model = make_model();
  for (Count step = 10; step <= 50; step += 10) save_checkpoint(run_, *model, make_state(step));
  EXPECT_EQ(steps(), (std::vector<Count>{10, 20, 30, 40, 50})) << "0 keeps all";
  save_checkpoint(run_, *model, make_state(60), {.retention = {.keep = 3}});
  EXPECT_EQ(steps(), (std::vector<Count>{40, 50, 60}));
  EXPECT_EQ(find_latest(run_), run_ / "checkpoints" / "step_00000060");
  // A run that was taken back to step 40: what was just saved stays, and so do the later ones.
  save_checkpoint(run_, *model, make_state(45), {.retention = {.keep = 1}});
  EXPECT_EQ(steps(), (std::vector<Count>{45, 50, 60}));
  EXPECT_EQ(entries(), 3u);
}

TEST_F(RoundTrip, NamesSortAndParse) {
  EXPECT_EQ(step_name(7), "step_00000007");
  EXPECT_EQ(step_name(1234567890), "step_1234567890");
  EXPECT_EQ(step_of_name("step_1234567890"), 1234567890);
  for (const char* name : {"step_7", "step_", "step_0000000x", "step_-0000007", "step_00000000007", "step_00000007.tmp", "other",
                           "step_99999999999999999999"}) {
    EXPECT_FALSE(step_of_name(name)) << name;
  }
  EXPECT_EQ(step_of_temporary(".step_00000007.tmp"), 7);
  EXPECT_EQ(step_of_replaced(".step_00000007.old"), 7);
  EXPECT_FALSE(step_of_temporary("step_00000007"));
  EXPECT_EQ(value_dataset("blocks.3.attention.qkv.weight"), "/model/blocks/3/attention/qkv/weight");
  EXPECT_EQ(state_dataset("m", "wte.weight"), "/optim/m/wte/weight");
}

TEST_F(RoundTrip, RefusesNamesThatCannotBeStoredAndPartsAlone) {
  ParameterRegistry clash;
  clash.declare("a.b", {2}, {});
  clash.declare("a", {2}, {});
  clash.allocate(1);
  error_of(ExitCode::internal, [&] { save_checkpoint(run_, clash, make_state(1)); });
  const auto model = make_model();
  set_values(*model, 1);
  std::vector<StateShard> part = whole_shards(*model, true);
  part.front().elements = part.front().elements.slice(0, part.front().elements.elements() - 1);
  const auto self = make_self_communicator("self");
  error_of(ExitCode::internal, [&] { save_shards(*self, run_, part, make_state(1)); });
  EXPECT_TRUE(steps().empty());
}

// --- other programs

struct Output {
  int status;
  std::string text;
};

Output run(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");  // NOLINT(bugprone-command-processor): of this test
  Output output{-1, ""};
  std::array<char, 4096> block;
  for (std::size_t got = 0; (got = std::fread(block.data(), 1, block.size(), pipe)) > 0;) output.text.append(block.data(), got);
  output.status = ::pclose(pipe);
  return output;
}

TEST_F(RoundTrip, H5dumpShowsTheValues) {
  if (run("h5dump --version").status != 0) GTEST_SKIP() << "h5dump is not installed (hdf5-tools)";
  const auto model = make_model();
  set_values(*model, 1);
  const Tensor& bias = model->find("blocks.0.attention.qkv.bias")->value;
  for (Count i = 0; i < bias.elements(); ++i) bias.f32()[i] = static_cast<float>(i) + 0.5f;
  const fs::path file = save_checkpoint(run_, *model, make_state(100)) / kModelFile;
  const Output values = run(fmt::format("h5dump -y -d /model/blocks/0/attention/qkv/bias '{}'", file.string()));
  EXPECT_EQ(values.status, 0) << values.text;
  EXPECT_NE(values.text.find("H5T_IEEE_F32LE"), std::string::npos) << values.text;
  EXPECT_NE(values.text.find("0.5, 1.5, 2.5, 3.5"), std::string::npos) << values.text;
  const Output step = run(fmt::format("h5dump -y -a /step '{}'", file.string()));
  EXPECT_NE(step.text.find("100"), std::string::npos) << step.text;
  const Output text = run(fmt::format("h5dump -y -d /run_file '{}'", file.string()));
  EXPECT_NE(text.text.find("[run]"), std::string::npos) << text.text;
  const Output data = run(fmt::format("h5dump -y -d /data '{}'", file.string()));
  EXPECT_NE(data.text.find("stories.h5 crc32=12345678"), std::string::npos) << data.text;
}

TEST_F(RoundTrip, H5pyReadsTheSameBits) {
  const std::string python = run("/usr/bin/python3 -c 'import h5py'").status == 0 ? "/usr/bin/python3" : "python3";
  if (run(python + " -c 'import h5py'").status != 0) GTEST_SKIP() << "h5py is not installed (python3-h5py)";
  const auto model = make_model();
  set_values(*model, 1);
  const fs::path folder = save_checkpoint(run_, *model, make_state(100));
  for (const auto& parameter : model->all()) {
    write_all(run_ / (parameter->name + ".raw"), {static_cast<const char*>(parameter->optimizer_state.at("m").raw()),
                                                  static_cast<std::size_t>(parameter->value.bytes())});
  }
  write_all(run_ / "check.py", R"(
import glob, os, sys, zlib, json, h5py
run, folder = sys.argv[1:]
manifest = json.load(open(folder + "/manifest.json"))
with h5py.File(folder + "/model.h5", "r") as f:
    assert f.attrs["format"] == "cohort-checkpoint" or f.attrs["format"] == b"cohort-checkpoint", f.attrs["format"]
    assert f.attrs["step"] == 100 and f.attrs["version"] == 4
    assert int(f.attrs["seed"]) % 2**64 == 0xFEDCBA9876543210
    checked = 0
    for path in glob.glob(run + "/*.raw"):
        name = os.path.basename(path)[:-4].replace(".", "/")
        assert f["/optim/m/" + name][()].tobytes() == open(path, "rb").read(), name
        checked += 1
    assert checked == 5, checked
    for text in manifest["texts"]:
        assert "%08x" % zlib.crc32(f[text["name"]][()]) == text["crc32"], text
    assert [text["name"] for text in manifest["texts"]] == ["/data", "/history", "/run_file", "/tokenizer"]
    for t in manifest["tensors"]:
        assert list(f[t["name"]].shape) == t["shape"], t
        for p in t["parts"]:
            stored = f[p["dataset"]][()].reshape(-1)
            assert stored.size == p["elements"] <= p["block"], p
            assert "%08x" % zlib.crc32(stored.tobytes()) == p["crc32"], p
# The manifest's own checksum, as format.hpp defines it.
text = open(folder + "/manifest.json", "rb").read()
own = manifest["manifest_crc32"].encode()
assert "%08x" % zlib.crc32(text.replace(b'"manifest_crc32": "' + own, b'"manifest_crc32": "00000000')) == own.decode()
)");
  const Output output =
      run(fmt::format("{} '{}' '{}' '{}'", python, (run_ / "check.py").string(), run_.string(), folder.string()));
  EXPECT_EQ(output.status, 0) << output.text;
}

// An index without its rank files: HDF5 has no error for that, so what it shows must not pass for weights.
TEST_F(RoundTrip, H5pySeesNoNumbersWhereRankFilesAreMissing) {
  const std::string python = run("/usr/bin/python3 -c 'import h5py'").status == 0 ? "/usr/bin/python3" : "python3";
  if (run(python + " -c 'import h5py'").status != 0) GTEST_SKIP() << "h5py is not installed (python3-h5py)";
  const auto model = make_model();
  set_values(*model, 1);
  const fs::path folder = save_checkpoint(run_, *model, make_state(100), {.form = CheckpointForm::per_rank});
  write_all(run_ / "check.py", R"(
import os, shutil, sys, h5py, numpy
run, folder = sys.argv[1:]
names = ["/model/embedding/weight", "/model/temperature", "/optim/v/blocks/0/attention/qkv/bias"]
def count_nans(f):
    return [int(numpy.isnan(f[name][...]).sum()) for name in names]
shutil.copy(folder + "/model.h5", run + "/alone.h5")
with h5py.File(run + "/alone.h5", "r") as f:
    print(count_nans(f))
    note = f.attrs["note"]
    assert "rank_NNNNN.h5" in str(note) and "NaN" in str(note) and "ckpt verify" in str(note), note
with h5py.File(folder + "/model.h5", "r") as f:
    # As it is pruned by somebody else while it is open here.
    os.rename(folder, run + "/doomed")
    shutil.rmtree(run + "/doomed")
    print(count_nans(f))
)");
  const Output output =
      run(fmt::format("{} '{}' '{}' '{}'", python, (run_ / "check.py").string(), run_.string(), folder.string()));
  EXPECT_EQ(output.text, "[28, 1, 12]\n[28, 1, 12]\n");
  EXPECT_EQ(output.status, 0) << output.text;
}

TEST_F(RoundTrip, ACommandRunsWhenACheckpointIsComplete) {
  const auto model = make_model();
  set_values(*model, 1);
  const auto self = make_self_communicator("self");
  const std::string told = (run_ / "told").string();
  const auto save = [&](Count step, const std::string& ending) {
    const std::string command =
        fmt::format("ls \"$COHORT_CHECKPOINT\"/manifest.json && echo $COHORT_STEP > '{}'{}", told, ending);
    return save_parts(*self, run_, write_items_of(whole_shards(*model, true), {}), make_state(step), {.on_commit = command});
  };
  EXPECT_EQ(save(7, "").trouble, "");
  EXPECT_EQ(read_all(told), "7\n");
  expect_mentions(save(8, "; exit 3").trouble, {"on_commit", "exit code 3"});
  expect_mentions(save(9, "; kill -9 $$").trouble, {"on_commit", "signal 9"});
  EXPECT_EQ(steps(), (std::vector<Count>{7, 8, 9})) << "its failure harms nothing";
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  ::setenv("PMIX_RANK", "0", 1);
  EXPECT_EQ(save(10, fmt::format("; env | grep -c -e '^OMPI_COMM' -e '^PMIX_' > '{}'; true", told)).trouble, "");
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  ::unsetenv("PMIX_RANK");
  EXPECT_EQ(read_all(told), "0\n") << "it is no rank";
}

}  // namespace
}  // namespace cohort::test
