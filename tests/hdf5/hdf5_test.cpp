// The HDF5 layer: what is written is read back, by name and by block; errors name the file and the reason; damaged files are
// refused.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <numeric>
#include <thread>

#include "base/file.hpp"
#include "hdf5/hdf5.hpp"
#include "support/temporary_folder.hpp"

namespace cohort::hdf5 {
namespace {

using test::TemporaryFolder;

// The message of the error that `action` throws; "" if it throws none.
template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Hdf5, EveryElementTypeComesBack) {
  const TemporaryFolder folder;
  const std::string path = folder / "types.h5";
  const std::vector<Element> elements{Element::u8,  Element::u16, Element::u32,  Element::u64, Element::i32,
                                      Element::i64, Element::f16, Element::bf16, Element::f32, Element::f64};
  std::vector<std::uint8_t> bytes(64);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{1});
  File file = File::create(path);
  for (const Element element : elements) {
    const std::vector<Count> shape{2, 4};
    Dataset dataset = file.create_dataset(fmt::format("all/{}", name_of(element)), element, shape);
    dataset.write_raw(bytes.data(), 8, element);
  }
  file.close();

  const File again = File::open(path, ExitCode::data);
  EXPECT_EQ(again.open_group("all").children().size(), elements.size());
  for (const Element element : elements) {
    const Dataset dataset = again.open_dataset(fmt::format("all/{}", name_of(element)));
    EXPECT_EQ(dataset.element(), element);
    EXPECT_EQ(dataset.shape(), (std::vector<Count>{2, 4}));
    std::vector<std::uint8_t> back(64);
    dataset.read_raw(back.data(), 8, element);
    const auto size = static_cast<std::ptrdiff_t>(8 * size_of(element));
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + size, back.begin())) << name_of(element);
  }
}

TEST(Hdf5, ZeroToFiveDims) {
  const TemporaryFolder folder;
  File file = File::create(folder / "dims.h5");
  std::vector<Count> shape;
  for (Count rank = 0; rank <= 5; ++rank) {
    Dataset dataset = file.create_dataset(fmt::format("rank{}", rank), Element::f32, shape);
    std::vector<float> values(static_cast<std::size_t>(dataset.elements()));
    std::iota(values.begin(), values.end(), 0.5f);
    dataset.write<float>(values);
    std::vector<float> back(values.size());
    dataset.read<float>(back);
    EXPECT_EQ(values, back);
    shape.push_back(rank + 2);
  }
}

TEST(Hdf5, BlocksAreTheRightElements) {
  const TemporaryFolder folder;
  File file = File::create(folder / "blocks.h5");
  constexpr Count kRows = 5;
  constexpr Count kColumns = 7;
  Dataset dataset = file.create_dataset("matrix", Element::i32, std::vector<Count>{kRows, kColumns});
  std::vector<std::int32_t> values(kRows * kColumns);
  std::iota(values.begin(), values.end(), 0);
  dataset.write<std::int32_t>(values);
  const std::vector<std::int32_t> patch{-1, -2, -3, -4};
  dataset.write_block(std::vector<Count>{3, 2}, std::vector<Count>{2, 2}, patch.data(), Element::i32);
  std::vector<std::int32_t> block(6);
  dataset.read_block(std::vector<Count>{3, 1}, std::vector<Count>{2, 3}, block.data(), Element::i32);
  EXPECT_EQ(block, (std::vector<std::int32_t>{22, -1, -2, 29, -3, -4}));
  EXPECT_TRUE(contains(error_of([&] {
                         dataset.read_block(std::vector<Count>{3, 6}, std::vector<Count>{2, 2}, block.data(), Element::i32);
                       }),
                       "outside of the shape [5, 7]"));
  EXPECT_TRUE(contains(error_of([&] {
                         dataset.read_block(std::vector<Count>{0, 0}, std::vector<Count>{1, 1}, block.data(), Element::f32);
                       }),
                       "holds int32 where float32 is wanted"));
}

TEST(Hdf5, EmptyDatasetsAndEmptyBlocks) {
  const TemporaryFolder folder;
  const std::string path = folder / "empty.h5";
  const std::vector<float> values{1.0f, 2.0f, 3.0f};
  {
    File file = File::create(path);
    file.create_dataset("none", Element::f32, std::vector<Count>{0, 3}).write_raw(nullptr, 0, Element::f32);
    Dataset some = file.create_dataset("some", Element::f32, std::vector<Count>{3});
    some.write<float>(values);
    some.write_block(std::vector<Count>{3}, std::vector<Count>{0}, nullptr, Element::f32);
  }
  const File file = File::open(path, ExitCode::data);
  const Dataset none = file.open_dataset("none");
  EXPECT_EQ(none.shape(), (std::vector<Count>{0, 3}));
  EXPECT_EQ(none.elements(), 0);
  none.read_raw(nullptr, 0, Element::f32);
  const Dataset some = file.open_dataset("some");
  some.read_block(std::vector<Count>{3}, std::vector<Count>{0}, nullptr, Element::f32);
  std::vector<float> back(values.size());
  some.read<float>(back);
  EXPECT_EQ(back, values);
  EXPECT_TRUE(contains(error_of([&] { some.read_block(std::vector<Count>{4}, std::vector<Count>{0}, nullptr, Element::f32); }),
                       "outside of the shape [3]"));
}

TEST(Hdf5, AttributesAndText) {
  const TemporaryFolder folder;
  const std::string path = folder / "attributes.h5";
  const std::string long_text(200000, 'x');
  {
    File file = File::create(path);
    file.set_attribute("count", std::int64_t{1} << 40);
    file.set_attribute("count", std::int64_t{-7} << 40);  // replaces
    file.set_attribute("ratio", 0.1);
    file.set_attribute("name", std::string("café"));
    file.set_attribute("nothing", std::string());
    Group group = file.create_group("a/b");
    EXPECT_EQ(group.name(), "/a/b");
    group.set_attribute("here", std::int64_t{1});
    file.write_text("notes/long", long_text);
    file.write_text("notes/empty", "");
  }
  const File file = File::open(path, ExitCode::checkpoint);
  EXPECT_EQ(file.int_attribute("count"), std::int64_t{-7} << 40);
  EXPECT_EQ(file.double_attribute("ratio"), 0.1);
  EXPECT_EQ(file.string_attribute("name"), "café");
  EXPECT_EQ(file.string_attribute("nothing"), "");
  EXPECT_EQ(file.open_group("a/b").int_attribute("here"), 1);
  EXPECT_EQ(file.read_text("notes/long"), long_text);
  EXPECT_EQ(file.read_text("notes/empty"), "");
  EXPECT_FALSE(file.has_group("a/b/c/d"));
  EXPECT_FALSE(file.has_dataset("a/b"));
  EXPECT_EQ(file.children(), (std::vector<std::string>{"a", "notes"}));
  EXPECT_TRUE(contains(error_of([&] { (void)file.int_attribute("absent"); }), "attribute 'absent' is missing"));
  EXPECT_TRUE(contains(error_of([&] { (void)file.int_attribute("name"); }), "is not an integer"));
  EXPECT_TRUE(contains(error_of([&] { (void)file.open_dataset("x/y"); }), "there is no dataset '/x/y'"));
  EXPECT_TRUE(contains(error_of([&] { (void)file.open_dataset("a/b"); }), "there is no dataset '/a/b'"));  // a group
}

// Groups on the way are made where they are missing, some or all; a dataset is no group.
TEST(Hdf5, GroupsOnTheWay) {
  const TemporaryFolder folder;
  File file = File::create(folder / "groups.h5");
  for (const char* name : {"a/b/c/first", "a/b/c/second", "a/b/other/deep/third", "fourth"})
    file.create_dataset(name, Element::i32, {}).write<std::int32_t>(std::vector<std::int32_t>{4});
  EXPECT_TRUE(file.has_group("a/b/other/deep"));
  EXPECT_EQ(file.open_group("a/b").children(), (std::vector<std::string>{"c", "other"}));
  EXPECT_EQ(file.open_group("a/b/c").children(), (std::vector<std::string>{"first", "second"}));
  EXPECT_TRUE(contains(error_of([&] { file.create_dataset("a/b/c/first/x", Element::i32, {}); }), "'a/b/c/first/x'"));
  EXPECT_TRUE(contains(error_of([&] { file.create_dataset("fourth/x/y", Element::i32, {}); }), "cannot look up 'fourth/x'"));
}

// As in HDF5, several slashes are one, and one at the beginning is the root: no group has an empty name.
TEST(Hdf5, SeveralSlashesAreOne) {
  const TemporaryFolder folder;
  File file = File::create(folder / "slashes.h5");
  file.create_dataset("a//b", Element::i32, {}).write<std::int32_t>(std::vector<std::int32_t>{1});
  file.create_dataset("a/c///d//e", Element::i32, {}).write<std::int32_t>(std::vector<std::int32_t>{2});
  file.create_dataset("//f/g", Element::i32, {}).write<std::int32_t>(std::vector<std::int32_t>{3});
  file.open_group("a/").create_dataset("h", Element::i32, {});
  EXPECT_EQ(file.children(), (std::vector<std::string>{"a", "f"}));
  EXPECT_EQ(file.open_group("a").children(), (std::vector<std::string>{"b", "c", "h"}));
  EXPECT_EQ(file.open_group("a//c").children(), (std::vector<std::string>{"d"}));
  const auto value_of = [&](const std::string& name) {
    std::vector<std::int32_t> value(1);
    file.open_dataset(name).read<std::int32_t>(value);
    return value[0];
  };
  for (const char* name : {"a/b", "a//b", "/a/b", "//a///b"}) EXPECT_EQ(value_of(name), 1) << name;
  for (const char* name : {"a/c/d/e", "a//c//d//e"}) EXPECT_EQ(value_of(name), 2) << name;
  EXPECT_EQ(value_of("f/g"), 3);
  EXPECT_TRUE(file.has_group("a//c") && file.has_dataset("a//b") && !file.has_dataset("a//x") && !file.has_group("x//y"));
  EXPECT_TRUE(contains(error_of([&] { (void)file.open_dataset("a//x"); }), "there is no dataset '/a//x'"));
  EXPECT_TRUE(contains(error_of([&] { file.create_dataset("a/b", Element::i32, {}); }), "'a/b'")) << "it is there as a//b";
}

TEST(Hdf5, SameContentSameBytes) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& path) {
    File file = File::create(path);
    file.create_dataset("a/b/c", Element::i32, {}).write<std::int32_t>(std::vector<std::int32_t>{5});
    file.create_group("d").set_attribute("x", 0.5);
    file.write_text("e/text", "words");
    file.close();
  };
  write(folder / "one.h5");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5's times are in seconds
  write(folder / "two.h5");
  EXPECT_EQ(read_file(folder / "one.h5"), read_file(folder / "two.h5"));
}

TEST(Hdf5, ManyDatasetsInOneGroup) {
  const TemporaryFolder folder;
  const std::string path = folder / "many.h5";
  {
    File file = File::create(path);
    for (std::int32_t i = 0; i < 300; ++i) {
      file.create_dataset(fmt::format("layers/{}", i), Element::i32, {}).write<std::int32_t>(std::vector<std::int32_t>{i});
    }
    file.close();
  }
  const File file = File::open(path, ExitCode::data);
  EXPECT_EQ(file.open_group("layers").children().size(), 300u);
  std::vector<std::int32_t> value(1);
  file.open_dataset("layers/257").read<std::int32_t>(value);
  EXPECT_EQ(value[0], 257);
}

TEST(Hdf5, FilesThatCannotBeOpenedSayWhy) {
  const TemporaryFolder folder;
  EXPECT_TRUE(contains(error_of([&] { File::open(folder / "absent.h5", ExitCode::data); }), "No such file"));
  EXPECT_TRUE(contains(error_of([&] { File::open(folder.path(), ExitCode::data); }), "directory"));
  EXPECT_TRUE(contains(error_of([&] { File::create(folder / "no/such/folder.h5"); }), "cannot be created"));
  write_file_atomically(folder / "text.h5", "this is not HDF5, however long it may be; it has no signature");
  EXPECT_TRUE(contains(error_of([&] { File::open(folder / "text.h5", ExitCode::data); }), "not an HDF5 file"));
  {
    File file = File::create(folder / "cut.h5");
    std::vector<float> values(10000);
    file.create_dataset("x", Element::f32, std::vector<Count>{10000}).write<float>(values);
    file.close();
  }
  std::filesystem::resize_file(folder / "cut.h5", 20000);
  EXPECT_TRUE(contains(error_of([&] { File::open(folder / "cut.h5", ExitCode::data); }), "truncated"));
}

TEST(Hdf5, ClosingWithOpenDatasetsIsRefused) {
  const TemporaryFolder folder;
  File file = File::create(folder / "open.h5");
  const Dataset dataset = file.create_dataset("x", Element::f32, std::vector<Count>{1});
  EXPECT_TRUE(contains(error_of([&] { file.close(); }), "closed while"));
}

TEST(Hdf5, AKilledWriterDoesNotBlockTheName) {
  const TemporaryFolder folder;
  const std::string path = folder / "live.h5";
  File file = File::create(path);
  file.create_dataset("x", Element::f32, std::vector<Count>{4}).write<float>(std::vector<float>{1, 2, 3, 4});
  // What lies on disk now is what a killed writer would leave. It may lack objects, but nothing marks it as in use for ever.
  std::filesystem::copy_file(path, folder / "killed.h5");
  const std::string message = error_of([&] { File::open(folder / "killed.h5", ExitCode::data); });
  EXPECT_TRUE(message.empty() || contains(message, "truncated or damaged")) << message;
  File again = File::create(folder / "killed.h5");
  again.set_attribute("step", std::int64_t{1});
  again.close();
  EXPECT_EQ(File::open(folder / "killed.h5", ExitCode::data).int_attribute("step"), 1);
}

}  // namespace
}  // namespace cohort::hdf5
