// Virtual datasets: whole tensors that lie in pieces in other files, as our reader, h5py and h5dump see them.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.hpp"
#include "hdf5/hdf5.hpp"
#include "hdf5/hdf5_test_support.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort::hdf5 {
namespace {

using test::numbers;
using test::Output;
using test::run;
using test::TemporaryFolder;

constexpr Count kRows = 6;
constexpr Count kColumns = 5;

// The tensor [6, 5] of 0, 1, 2, ...: its columns 0 and 1 lie in a.h5 with the shape of their box; of the other three columns the
// first 7 elements (in the order of that box) are flat in b.h5, the other 11 in sub/c.h5.
std::vector<VirtualPart> parts() {
  const Shape shape{kRows, kColumns};
  const Box left{{0, 0}, {kRows, 2}}, right{{0, 2}, {kRows, 3}};
  return {{TensorPart(shape, left), "a.h5", "/x", false},
          {TensorPart(shape, right, 0, 7), "b.h5", "/deep/x", true},
          {TensorPart(shape, right, 7, 11), "sub/c.h5", "/x", true}};
}

void write_source(const std::filesystem::path& path, const std::string& name, const std::vector<Count>& shape,
                  const std::vector<float>& values) {
  File file = File::create(path.string());
  file.create_dataset(name, Element::f32, shape).write<float>(values);
  file.close();
}

// The values of the sources, plus `offset`.
void write_sources(const std::filesystem::path& folder, float offset) {
  std::vector<float> left;
  std::vector<float> right;
  for (Count row = 0; row < kRows; ++row) {
    for (Count column = 0; column < kColumns; ++column) {
      (column < 2 ? left : right).push_back(static_cast<float>(row * kColumns + column) + offset);
    }
  }
  std::filesystem::create_directories(folder / "sub");
  write_source(folder / "a.h5", "x", {kRows, 2}, left);
  write_source(folder / "b.h5", "deep/x", {7}, {right.begin(), right.begin() + 7});
  write_source(folder / "sub/c.h5", "x", {11}, {right.begin() + 7, right.end()});
}

void write_all(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  File file = File::create((folder / "index.h5").string(), ExitCode::io, {.virtual_datasets = true});
  file.create_virtual_dataset("model/x", Element::f32, std::vector<Count>{kRows, kColumns}, parts());
  file.create_virtual_dataset("model/none", Element::f32, std::vector<Count>{0, 2}, {});
  file.set_attribute("step", std::int64_t{1});
  file.close();
  write_sources(folder, 0);
}

std::vector<float> whole() {
  const std::vector<std::int32_t> integers = numbers(kRows * kColumns, 0);
  return {integers.begin(), integers.end()};
}

std::vector<float> read_whole(const std::filesystem::path& folder) {
  const File file = File::open((folder / "index.h5").string(), ExitCode::checkpoint);
  const Dataset dataset = file.open_dataset("model/x");
  EXPECT_TRUE(dataset.is_virtual());
  EXPECT_EQ(dataset.shape(), (std::vector<Count>{kRows, kColumns}));
  EXPECT_EQ(dataset.virtual_sources(), (std::vector<std::string>{"a.h5", "b.h5", "sub/c.h5"}));
  std::vector<float> values(kRows * kColumns, -1.0f);
  dataset.read<float>(values);
  return values;
}

class WorkingFolder {
 public:
  explicit WorkingFolder(const std::filesystem::path& folder) { std::filesystem::current_path(folder); }
  ~WorkingFolder() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
};

TEST(Virtual, TheWholeIsReadFromItsParts) {
  const TemporaryFolder folder;
  write_all(folder / "here");
  EXPECT_EQ(read_whole(folder / "here"), whole());
  const File file = File::open(folder / "here/index.h5", ExitCode::checkpoint);
  const Dataset dataset = file.open_dataset("model/x");
  for (Count begin = 0; begin < kRows * kColumns; ++begin) {
    std::vector<float> range(static_cast<std::size_t>(kRows * kColumns - begin));
    dataset.read_range(begin, kRows * kColumns - begin, range.data(), Element::f32);
    EXPECT_EQ(range.front(), static_cast<float>(begin));
    EXPECT_EQ(range.back(), static_cast<float>(kRows * kColumns - 1));
  }
  std::vector<float> block(4);
  dataset.read_block(std::vector<Count>{2, 1}, std::vector<Count>{2, 2}, block.data(), Element::f32);
  EXPECT_EQ(block, (std::vector<float>{11, 12, 16, 17}));
  EXPECT_FALSE(file.open_dataset("model/none").is_virtual());
}

// Sources are looked for beside the index file: not in the working folder, and not where they were written.
TEST(Virtual, NamesAreRelativeToTheIndexFile) {
  const TemporaryFolder folder;
  write_all(folder / "written");
  std::filesystem::rename(folder / "written", folder / "moved");
  write_all(folder / "written");
  write_sources(folder / "written", 100);
  std::filesystem::create_directory(folder / "elsewhere");
  write_sources(folder / "elsewhere", 200);
  {
    const WorkingFolder elsewhere(folder / "elsewhere");
    EXPECT_EQ(read_whole(folder / "moved"), whole());
    EXPECT_EQ(read_whole("../moved"), whole());
    std::filesystem::remove(folder / "moved/b.h5");  // elsewhere/b.h5 must not stand in
    EXPECT_ERROR(read_whole("../moved"), ExitCode::checkpoint, "moved/b.h5", "No such file");
  }
  const WorkingFolder start(folder.path());
  const File file = File::open("written/index.h5", ExitCode::checkpoint);
  const WorkingFolder later(folder / "elsewhere");
  std::vector<float> values(kRows * kColumns);
  file.open_dataset("model/x").read<float>(values);
  EXPECT_EQ(values[29], 129.0f);
}

// HDF5 would give fill values without a word.
TEST(Virtual, ASourceThatIsOpenHereIsRefused) {
  const TemporaryFolder folder;
  write_all(folder / "run");
  {
    const File source = File::open(folder / "run/a.h5", ExitCode::checkpoint);
    EXPECT_ERROR(read_whole(folder / "run"), ExitCode::checkpoint, "a.h5", "open in this process");
  }
  EXPECT_EQ(read_whole(folder / "run"), whole());
}

TEST(Virtual, ASourceThatIsMissingOrDamagedIsNamed) {
  const TemporaryFolder folder;
  const auto message_with = [&](const auto& damage, std::initializer_list<const char*> parts_of_message) {
    std::filesystem::remove_all(folder / "run");
    write_all(folder / "run");
    damage();
    test::expect_error([&] { read_whole(folder / "run"); }, ExitCode::checkpoint, parts_of_message);
  };
  const std::filesystem::path a = folder / "run/a.h5";
  const std::filesystem::path c = folder / "run/sub/c.h5";
  message_with([&] { std::filesystem::remove(a); }, {"index.h5", "/model/x", "run/a.h5", "No such file"});
  message_with([&] { std::filesystem::remove(c); }, {"index.h5", "/model/x", "run/sub/c.h5", "No such file"});
  message_with([&] { std::filesystem::resize_file(c, std::filesystem::file_size(c) - 1); }, {"run/sub/c.h5", "truncated"});
  message_with([&] { write_file_atomically(a, "no HDF5"); }, {"run/a.h5", "not an HDF5 file"});
  message_with([&] { write_source(c, "y", {11}, std::vector<float>(11)); }, {"run/sub/c.h5", "no dataset '/x'"});
  message_with([&] { write_source(c, "x", {10}, std::vector<float>(10)); }, {"run/sub/c.h5", "[10]", "[11]"});
  message_with([&] { write_source(a, "x", {12}, std::vector<float>(12)); }, {"run/a.h5", "[12]", "[6, 2]"});
}

TEST(Virtual, PartsThatDoNotFitAreRefused) {
  const TemporaryFolder folder;
  File file = File::create(folder / "index.h5", ExitCode::io, {.virtual_datasets = true});
  const std::vector<Count> shape{kRows, kColumns};
  const auto create = [&](const std::vector<VirtualPart>& some) { file.create_virtual_dataset("x", Element::f32, shape, some); };
  std::vector<VirtualPart> changed = parts();
  changed.pop_back();
  EXPECT_ERROR(create(changed), ExitCode::internal, "19 elements", "has 30");
  changed = parts();
  changed[0].part = TensorPart(Shape{kRows, kColumns + 1}, changed[0].part.box());
  EXPECT_ERROR(create(changed), ExitCode::internal, "a part of the shape [6, 6] in [6, 5]");
  changed = parts();
  changed[1].flat = false;
  EXPECT_ERROR(create(changed), ExitCode::internal, "must be flat");
  changed = parts();
  changed[1].file = "rank%b.h5";
  EXPECT_ERROR(create(changed), ExitCode::internal, "'%'");
  EXPECT_ERROR(file.create_virtual_dataset("x", Element::f32, {}, {}), ExitCode::internal, "scalar");
  File plain = File::create(folder / "plain.h5");
  EXPECT_ERROR(plain.create_virtual_dataset("x", Element::f32, shape, parts()), ExitCode::io, "plain.h5", "cannot create");
  create(parts());
  Dataset dataset = file.open_dataset("x");
  const std::vector<float> values(kRows * kColumns);
  EXPECT_ERROR(dataset.write<float>(values), ExitCode::internal, "virtual");
}

TEST(Virtual, H5dumpSeesTheWhole) {
  if (run("h5dump --version").status != 0) GTEST_SKIP() << "h5dump is not installed (hdf5-tools)";
  const TemporaryFolder folder;
  write_all(folder / "run");
  const Output dump = run(fmt::format("h5dump -y -w 200 -d /model/x '{}'", (folder / "run/index.h5").string()));
  EXPECT_EQ(dump.status, 0);
  EXPECT_NE(dump.text.find("0, 1, 2, 3, 4,"), std::string::npos) << dump.text;
  EXPECT_NE(dump.text.find("25, 26, 27, 28, 29"), std::string::npos) << dump.text;
}

// HDF5's own readers get no error where a source is missing: what they get must not pass for data.
TEST(Virtual, AMissingSourceShowsAsNoNumber) {
  if (run("h5dump --version").status != 0) GTEST_SKIP() << "h5dump is not installed (hdf5-tools)";
  const TemporaryFolder folder;
  const std::vector<std::pair<Element, std::string>> holes{{Element::f16, "nan"},         {Element::bf16, "nan"},
                                                           {Element::f32, "nan"},         {Element::f64, "nan"},
                                                           {Element::i32, "-2147483648"}, {Element::i64, "-9223372036854775808"},
                                                           {Element::u8, "255"},          {Element::u16, "65535"},
                                                           {Element::u32, "4294967295"},  {Element::u64, "18446744073709551615"}};
  File file = File::create(folder / "index.h5", ExitCode::io, {.virtual_datasets = true});
  for (const auto& [element, hole] : holes) {
    file.create_virtual_dataset(std::string(name_of(element)), element, std::vector<Count>{2},
                                std::vector<VirtualPart>{{TensorPart(Shape{2}), "gone.h5", "/x", false}});
  }
  file.close();
  for (const auto& [element, hole] : holes) {
    const Output dump = run(fmt::format("h5dump -y -d /{} '{}'", name_of(element), (folder / "index.h5").string()));
    std::string shown = dump.text.substr(dump.text.find("DATA {") + 6);
    std::erase_if(shown, [](char c) { return c == ' ' || c == '\n'; });
    EXPECT_EQ(shown.substr(0, shown.find('}')), hole + "," + hole) << name_of(element) << dump.text;
  }
}

TEST(Virtual, H5pySeesTheWholeAndBf16) {
  const std::string python = run("/usr/bin/python3 -c 'import h5py'").status == 0 ? "/usr/bin/python3" : "python3";
  if (run(python + " -c 'import h5py'").status != 0) GTEST_SKIP() << "h5py is not installed (python3-h5py)";
  const TemporaryFolder folder;
  write_all(folder / "run");
  const std::vector<std::uint16_t> bits{0x3f80, 0x4000, 0x4040};  // 1, 2, 3
  File source = File::create(folder / "run/half.h5");
  source.create_dataset("h", Element::bf16, std::vector<Count>{3}).write_raw(bits.data(), 3, Element::bf16);
  source.close();
  File index = File::create(folder / "run/half_index.h5", ExitCode::io, {.virtual_datasets = true});
  index.create_virtual_dataset("h", Element::bf16, std::vector<Count>{3, 1},
                               std::vector<VirtualPart>{{TensorPart(Shape{3, 1}), "half.h5", "/h", true}});
  index.close();
  write_file_atomically(folder / "read.py", R"(
import os, sys, h5py
os.chdir("/")
folder = sys.argv[1] + "/run/"
with h5py.File(folder + "index.h5", "r") as f:
    print(f["model/x"].is_virtual, f["model/x"].shape, (f["model/x"][...].reshape(-1) == range(30)).all(), f.attrs["step"])
with h5py.File(folder + "half_index.h5", "r") as f:
    print(f["h"].astype("f4")[...].tolist())
)");
  const Output read = run(fmt::format("{} '{}' '{}'", python, (folder / "read.py").string(), folder.path().string()));
  EXPECT_EQ(read.text, "True (6, 5) True 1\n[[1.0], [2.0], [3.0]]\n");
}

}  // namespace
}  // namespace cohort::hdf5
