// Bad checkpoints: each kind gets an error that names the file and what is wrong in it, and no damage ever changes a value
// silently.
#include "checkpoint/checkpoint_fixture.hpp"
#include "checkpoint/format/manifest.hpp"
#include "checkpoint/read/reader.hpp"
#include "checkpoint/read/verify.hpp"

namespace cohort::test {
namespace {

class Damage : public CheckpointTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    model_ = make_model();
    set_values(*model_, 1);
    state_ = make_state(100);
    state_.created = "2024-01-01T00:00:00Z";
    folder_ = save_checkpoint(run_, *model_, state_);
    file_ = folder_ / kModelFile;
    manifest_ = folder_ / kManifestFile;
  }

  /// Loads into a fresh model; the message of the error that this must give.
  std::string load_error(ExitCode code = ExitCode::checkpoint) {
    const auto loaded = make_model();
    return error_of(code, [&] { load_checkpoint(folder_, *loaded, kModel, kSlots); });
  }

  /// True if loading fails with Error(checkpoint). If it succeeds, all values must be what was saved.
  bool detected() {
    const auto loaded = make_model();
    try {
      const TrainingState state = load_checkpoint(folder_, *loaded, kModel, kSlots);
      EXPECT_TRUE(state == state_ && same_bits(*model_, *loaded)) << "damage changed a value silently";
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::checkpoint) << error.what();
      return true;
    }
  }

  std::unique_ptr<ParameterRegistry> model_;
  TrainingState state_;
  fs::path folder_, file_, manifest_;
};

TEST_F(Damage, MissingCheckpointListsThoseThatExist) {
  save_checkpoint(run_, *model_, make_state(200));
  const std::string message = error_of(ExitCode::checkpoint, [&] { resolve_checkpoint(run_ / "checkpoints" / "step_00000300"); });
  expect_mentions(message, {"step_00000300", "no such folder", "step_00000100, step_00000200"});
  expect_mentions(error_of(ExitCode::checkpoint, [&] { resolve_checkpoint(run_ / "nowhere"); }), {"nowhere", "no such folder"});
  EXPECT_EQ(resolve_checkpoint(run_), run_ / "checkpoints" / "step_00000200");
  EXPECT_EQ(resolve_checkpoint(folder_), folder_);
  EXPECT_FALSE(find_latest(run_ / "nowhere"));
}

TEST_F(Damage, FolderWithoutManifestDoesNotCount) {
  save_checkpoint(run_, *model_, make_state(200));
  const fs::path half = run_ / "checkpoints" / "step_00000200";
  fs::remove(half / kManifestFile);
  EXPECT_EQ(find_latest(run_), folder_);
  expect_mentions(error_of(ExitCode::checkpoint, [&] { resolve_checkpoint(half); }), {"no complete checkpoint", "step_00000100"});
  const auto loaded = make_model();
  expect_mentions(error_of(ExitCode::checkpoint, [&] { load_checkpoint(half, *loaded, kModel, kSlots); }),
                  {"no complete checkpoint", "step_00000100"});
  expect_mentions(error_of(ExitCode::checkpoint, [&] { CheckpointReader reader(half); }), {"manifest.json", "not found"});
}

TEST_F(Damage, MissingModelFile) {
  fs::remove(file_);
  expect_mentions(load_error(), {file_.string()});
}

TEST_F(Damage, TruncatedByOneByteAndToNothing) {
  const std::string bytes = read_all(file_);
  for (const std::size_t length : {bytes.size() - 1, bytes.size() / 2, std::size_t{8}, std::size_t{0}}) {
    write_all(file_, bytes.substr(0, length));
    expect_mentions(load_error(),
                    {file_.string(), fmt::format("{} bytes long", length), fmt::format("{} were written", bytes.size())});
  }
  write_all(file_, bytes + 'x');
  expect_mentions(load_error(), {file_.string()});
}

TEST_F(Damage, TruncatedManifest) {
  const std::string bytes = read_all(manifest_);
  for (const std::size_t length : {bytes.size() - 1, bytes.size() - 10, bytes.size() / 2, std::size_t{0}}) {
    write_all(manifest_, bytes.substr(0, length));
    expect_mentions(load_error(), {manifest_.string(), "damaged"});
  }
}

TEST_F(Damage, FlippedBitInATensorIsNamed) {
  std::string bytes = read_all(file_);
  const Tensor& v = model_->find("blocks.0.attention.qkv.bias")->optimizer_state.at("v");
  const std::size_t at = bytes.find(std::string(static_cast<const char*>(v.raw()), static_cast<std::size_t>(v.bytes())));
  ASSERT_NE(at, std::string::npos) << "the dataset is contiguous and row-major";
  bytes[at + 5] = static_cast<char>(bytes[at + 5] ^ 1);
  write_all(file_, bytes);
  expect_mentions(load_error(), {file_.string(), "/optim/v/blocks/0/attention/qkv/bias", "checksum"});
  expect_mentions(error_of(ExitCode::checkpoint, [&] { CheckpointReader(folder_).verify(); }),
                  {"/optim/v/blocks/0/attention/qkv/bias"});
  // Weights alone do not need the damaged tensor.
  const auto loaded = make_model();
  load_checkpoint(folder_, *loaded, kModel, {});
}

// One flipped bit at every 13th byte of the model file and at every fifth of the manifest. HDF5's structures are most of this
// small file, so its own parser meets damage everywhere.
// They lie among the elements, where HDF5 has no checksums.
TEST_F(Damage, FlippedBitInATextIsNamed) {
  TrainingState state = make_state(100);
  state.history = "from step 50 on: something was allowed\n";
  save_checkpoint(run_, *model_, state);
  const std::string bytes = read_all(file_);
  const std::vector<std::pair<std::string, std::string>> texts{
      {"/history", state.history}, {"/data", state.data}, {"/run_file", state.run_file}, {"/tokenizer", state.tokenizer}};
  for (const auto& [dataset, text] : texts) {
    std::string changed = bytes;
    ASSERT_NE(changed.find(text), std::string::npos) << dataset;
    changed[changed.find(text) + 3] ^= 1;
    write_all(file_, changed);
    expect_mentions(load_error(), {file_.string(), dataset, "damaged"});
  }
}

TEST_F(Damage, ALostTokenizerIsNotTakenForAnOlderCheckpoint) {
  TrainingState old = state_;
  old.tokenizer.clear();
  write_all(manifest_, sealed(without_tokenizer(read_all(manifest_))));
  EXPECT_EQ(CheckpointReader(folder_).state(), old) << "one of before";
  EXPECT_TRUE(find_damage(folder_).empty());
  Manifest other = read_manifest(folder_);
  other.texts["/tokenizer"] = 7;
  write_all(manifest_, to_json_text(other));
  expect_mentions(load_error(), {file_.string(), "/tokenizer is damaged", "expected 00000007"});
  // The manifest tells of a tokenizer, and model.h5, of before, has none.
  const fs::path old_folder = run_ / "old";
  fs::copy(fs::path(COHORT_SOURCE_DIR) / "tests/checkpoint/fixtures/version_3/consolidated", old_folder);
  std::string manifest = read_all(old_folder / kManifestFile);
  const std::size_t texts = manifest.find('[', manifest.find("\"texts\"")) + 1;
  write_all(old_folder / kManifestFile, sealed(manifest.insert(texts, R"({"name": "/tokenizer", "crc32": "00000000"},)")));
  expect_mentions(error_of(ExitCode::checkpoint, [&] { CheckpointReader reader(old_folder); }),
                  {"there is no text '/tokenizer'"});
}

TEST_F(Damage, FlippedBitsAnywhereAreFoundOrHarmless) {
  const std::string bytes = read_all(file_);
  int tries = 0;
  int found = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 13) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    write_all(file_, damaged);
    ++tries;
    found += detected() ? 1 : 0;
    ASSERT_FALSE(HasFailure()) << "bit " << at % 8 << " of byte " << at;
  }
  write_all(file_, bytes);
  EXPECT_FALSE(detected());
  EXPECT_GT(found, tries / 2) << "only bits of unused space and the like may go unnoticed";
  const std::string text = read_all(manifest_);
  for (std::size_t at = 0; at < text.size(); at += 5) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    write_all(manifest_, damaged);
    EXPECT_TRUE(detected()) << "bit " << at % 8 << " of byte " << at << " of the manifest";
  }
}

// Larger damage: a stretch of zeros (a lost disk block), of random bytes, two swapped.
TEST_F(Damage, DamagedStretchesAreFoundOrHarmless) {
  const std::string bytes = read_all(file_);
  const CounterRandom random(1, RandomPurpose::test);
  for (std::uint64_t i = 0; i < 400; ++i) {
    std::string damaged = bytes;
    const std::size_t length = 1 + random.words(i)[0] % 600;
    const std::size_t at = random.words(i)[1] % (bytes.size() - length);
    const std::size_t other = random.words(i)[2] % (bytes.size() - length);
    for (std::size_t k = 0; k < length; ++k) {
      const char noise = i % 3 == 0   ? '\0'
                         : i % 3 == 1 ? static_cast<char>(random.u32(1000000 + i * 1000 + k))
                                      : bytes[other + k];
      damaged[at + k] = noise;
    }
    write_all(file_, damaged);
    detected();
    ASSERT_FALSE(HasFailure()) << "stretch " << i << ": " << length << " bytes at " << at;
  }
}

TEST_F(Damage, FilesOfTwoCheckpointsMixed) {
  set_values(*model_, 2);
  const fs::path other = save_checkpoint(run_, *model_, make_state(200));
  fs::copy_file(other / kModelFile, file_, fs::copy_options::overwrite_existing);
  load_error();
}

TEST_F(Damage, NotACheckpoint) {
  write_all(file_, std::string(fs::file_size(file_), 'x'));
  expect_mentions(load_error(), {file_.string(), "not an HDF5 file"});
  write_all(manifest_, "{}\n");
  expect_mentions(load_error(), {manifest_.string()});
}

// As a later Cohort will write it: well formed, with a valid checksum.
TEST_F(Damage, NewerFormatVersion) {
  write_all(manifest_, sealed(of_next_version(read_all(manifest_))));
  expect_mentions(load_error(), {manifest_.string(), fmt::format("version {}", kFormatVersion + 1), "use a newer one"});
}

TEST_F(Damage, AnotherModel) {
  ParameterRegistry other;
  other.declare("embedding.weight", {7, 5}, {});
  other.declare("blocks.0.attention.qkv.weight", {4, 12}, {});
  other.declare("blocks.0.attention.qkv.bias", {12}, {});
  other.declare("temperature", {}, {});
  other.declare("blocks.1.attention.qkv.bias", {12}, {});
  other.allocate(1);
  fill(other.flat_values(), 9);
  const Tensor before = Tensor::zeros("test", other.flat_values().shape());
  before.copy_from(other.flat_values());
  const std::string message =
      error_of(ExitCode::checkpoint, [&] { load_checkpoint(folder_, other, "test layers=2 width=5", kSlots); });
  expect_mentions(message,
                  {file_.string(), kModel, "test layers=2 width=5", "not in the file: /model/blocks/1/attention/qkv/bias",
                   "only in the file: /model/nothing", "/model/embedding/weight is fp32 [7, 4] in the file and [7, 5]"});
  EXPECT_TRUE(same_bits(before, other.flat_values())) << "refused before anything was overwritten";
  // The same shapes under another description: another number of heads has the same tensors.
  const auto same_shapes = make_model();
  expect_mentions(error_of(ExitCode::checkpoint, [&] { load_checkpoint(folder_, *same_shapes, "test heads=2", kSlots); }),
                  {"test heads=2"});
}

TEST_F(Damage, MissingOptimizerState) {
  const auto plain = make_model();
  const fs::path folder = save_checkpoint(run_, *plain, make_state(300));
  const auto loaded = make_model();
  expect_mentions(error_of(ExitCode::checkpoint, [&] { load_checkpoint(folder, *loaded, kModel, kSlots); }),
                  {"/optim/m/embedding/weight", "cannot resume"});
  load_checkpoint(folder, *loaded, kModel, {});
}

}  // namespace
}  // namespace cohort::test
