// Bad checkpoints of both forms, met by several ranks: the message names file and dataset, is the same on all ranks, and the
// checkpoint before stays whole.
#include <gtest/gtest.h>

#include "checkpoint/damaged_form.hpp"
#include "checkpoint/read/verify.hpp"

namespace cohort::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Forms, DamagedForm, ::testing::Values(CheckpointForm::consolidated, CheckpointForm::per_rank),
                         form_name);

std::string with_flipped_bit(std::string bytes, std::size_t at) {
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 4);
  return bytes;
}

TEST_P(DamagedForm, WithoutDamageItLoads) {
  on_root([&] { CheckpointReader(folder_of(2)).verify(); });
  expect_loads(2);
}

TEST_P(DamagedForm, AnyFileTruncatedByOneByteOrMissing) {
  for (const std::string& name : files()) {
    SCOPED_TRACE(name);
    const fs::path path = folder_of(2) / name;
    const std::string bytes = read_all(path);
    comm_->barrier();
    on_root([&] { write_all(path, bytes.substr(0, bytes.size() - 1)); });
    const bool manifest = name == kManifestFile;
    expect_not_loaded(ExitCode::checkpoint, {path.string(), manifest ? "damaged" : fmt::format("{} bytes long", bytes.size() - 1),
                                             "use another checkpoint"});
    on_root([&] { fs::remove(path); });
    if (manifest) {
      expect_not_loaded(ExitCode::checkpoint, {folder_of(2).string(), "no complete checkpoint", "step_00000001"});
    } else {
      expect_not_loaded(ExitCode::checkpoint, {path.string(), "No such file", "manifest"});
    }
    on_root([&] { write_all(path, bytes); });
  }
  expect_loads(2);
  expect_former_untouched();
}

TEST_P(DamagedForm, AFlippedBitInElementsNamesFileAndDataset) {
  const std::string bytes = read_all(file_of_last());
  const std::size_t at = bytes.find(elements_of_last());
  ASSERT_NE(at, std::string::npos);
  comm_->barrier();
  on_root([&] { write_all(file_of_last(), with_flipped_bit(bytes, at + 6)); });
  expect_not_loaded(ExitCode::checkpoint,
                    {file_of_last().string(), "/model/embedding/weight", "damaged", "checksum", "use another checkpoint"});
  on_root([&] {
    expect_mentions(error_of(ExitCode::checkpoint, [&] { CheckpointReader(folder_of(2)).verify(); }),
                    {file_of_last().string(), "/model/embedding/weight"});
  });
  expect_former_untouched();
}

// The first object header of each file, which holds the attributes or says where they are; and an attribute's own bytes.
TEST_P(DamagedForm, AFlippedBitInTheStructuresOfHdf5) {
  for (const std::string& name : files()) {
    if (!name.ends_with(".h5")) continue;
    const fs::path path = folder_of(2) / name;
    const std::string bytes = read_all(path);
    comm_->barrier();
    for (const char* mark : {"OHDR", "stories.h5 crc32", "test layers"}) {
      SCOPED_TRACE(name + ": " + mark);
      const std::size_t at = bytes.find(mark);
      if (at == std::string::npos) continue;
      on_root([&] { write_all(path, with_flipped_bit(bytes, at + 10)); });
      expect_not_loaded(ExitCode::checkpoint, {path.string()});
    }
    comm_->barrier();
    on_root([&] { write_all(path, bytes); });
  }
  expect_former_untouched();
}

// HDF5 keeps the mappings of virtual datasets without a checksum, and can crash on damaged ones: it must not see them.
TEST_P(DamagedForm, AFlippedBitAnywhereInTheIndexOfRankFiles) {
  if (GetParam() != CheckpointForm::per_rank) GTEST_SKIP() << "a consolidated checkpoint has no index";
  const fs::path path = folder_of(2) / kModelFile;
  const std::string bytes = read_all(path);
  comm_->barrier();
  on_root([&] {
    for (std::size_t at = 0; at < bytes.size(); at += 41) {
      write_all(path, with_flipped_bit(bytes, at));
      const std::vector<Damage> found = find_damage(folder_of(2));
      ASSERT_EQ(found.size(), 1U) << "byte " << at;
      EXPECT_EQ(found[0].file, path.string());
      expect_mentions(found[0].what, {path.string(), "damaged", "checksum", "use another checkpoint"});
    }
    write_all(path, with_flipped_bit(bytes, bytes.size() / 2));
  });
  expect_not_loaded(ExitCode::checkpoint, {path.string(), "damaged", "checksum"});
  expect_former_untouched();
}

TEST_P(DamagedForm, AFlippedBitInTheManifest) {
  const fs::path path = folder_of(2) / kManifestFile;
  const std::string text = read_all(path);
  comm_->barrier();
  for (std::size_t at = 0; at < text.size(); at += 97) {
    on_root([&] { write_all(path, with_flipped_bit(text, at)); });
    expect_not_loaded(ExitCode::checkpoint, {path.string(), "damaged or edited", "use another checkpoint"});
  }
  expect_former_untouched();
}

TEST_P(DamagedForm, AnotherModelOrALaterVersion) {
  expect_not_loaded(ExitCode::checkpoint, {folder_of(2).string(), kModel, "another one"}, "another one");
  const fs::path path = folder_of(2) / kManifestFile;
  on_root([&] { write_all(path, sealed(of_next_version(read_all(path)))); });
  expect_not_loaded(ExitCode::checkpoint, {path.string(), fmt::format("version {}", kFormatVersion + 1), "use a newer one"});
}

TEST_P(DamagedForm, FilesOfAnotherStep) {
  for (const std::string& name : files()) {
    if (name == kManifestFile) continue;
    SCOPED_TRACE(name);
    const std::string bytes = read_all(folder_of(2) / name);
    comm_->barrier();
    on_root([&] { fs::copy_file(folder_of(1) / name, folder_of(2) / name, fs::copy_options::overwrite_existing); });
    const bool found_by_step = name == kModelFile && GetParam() == CheckpointForm::consolidated;
    expect_not_loaded(ExitCode::checkpoint, {(folder_of(2) / name).string(), found_by_step ? "step 1, but" : "checksum"});
    on_root([&] { write_all(folder_of(2) / name, bytes); });
  }
  expect_former_untouched();
}

// Loading takes what the manifest names and nothing else. verify() refuses it, since somebody put it there for a reason.
TEST_P(DamagedForm, ARankFileTooMany) {
  const fs::path stranger = folder_of(2) / "rank_00009.h5";
  on_root([&] { fs::copy_file(folder_of(1) / kModelFile, stranger); });
  expect_loads(2);
  on_root([&] {
    expect_mentions(error_of(ExitCode::checkpoint, [&] { CheckpointReader(folder_of(2)).verify(); }),
                    {stranger.string(), "Remove it"});
  });
}

// A manifest that is well sealed and lies: with a block size at which the number of blocks used to overflow, and none was
// compared.
TEST_P(DamagedForm, AManifestThatLies) {
  const fs::path path = folder_of(2) / kManifestFile;
  const std::string text = read_all(path);
  comm_->barrier();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string lie = text;
    return sealed(lie.replace(lie.find(from), from.size(), to));
  };
  on_root([&] { write_all(path, with("\"block\": 1048576", "\"block\": 9223372036854775807")); });
  expect_loads(2);  // one block
  for (const auto& [from, to] :
       {std::pair("\"block\": 1048576", "\"block\": 0"), std::pair("\"begin\": 0", "\"begin\": -1"),
        std::pair("\"shape\"", "\"shade\""), std::pair("\"file\": 0", "\"file\": 7"), std::pair("model.h5", "../x.h5x")}) {
    if (text.find(from) == std::string::npos) continue;
    SCOPED_TRACE(to);
    comm_->barrier();
    on_root([&] { write_all(path, with(from, to)); });
    expect_not_loaded(ExitCode::checkpoint, {path.string(), "not a checkpoint manifest"});
  }
}

}  // namespace
}  // namespace cohort::test
