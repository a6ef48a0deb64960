// Tensors: memory, views of it, and refusal of what would read it wrongly.
#include "tensor/tensor.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/huge_pages.hpp"
#include "tensor/convert.hpp"

namespace cohort {
namespace {

TEST(Shape, CountsElementsRowsAndColumns) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.dims(), 3);
  EXPECT_EQ(shape.elements(), 30);
  EXPECT_EQ(shape.rows(), 6);
  EXPECT_EQ(shape.columns(), 5);
  EXPECT_EQ(shape[-1], 5);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape.str(), "[2, 3, 5]");
  EXPECT_EQ(Shape{}.elements(), 1);  // a scalar
  EXPECT_EQ(Shape({0, 7}).elements(), 0);
  EXPECT_EQ(Shape({100'000, 100'000}).elements(), 10'000'000'000);  // beyond 2^31
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
  EXPECT_NE(Shape({2}), Shape({2, 1}));
}

TEST(Shape, RefusesWhatIsNoShape) {
  EXPECT_THROW(Shape({-1}), Error);
  EXPECT_THROW(Shape({1, 1, 1, 1, 1, 1}), Error);
}

// The flags of the mapping that holds an address, as Linux tells them (proc(5), VmFlags): "hg" where huge pages were asked for.
std::string flags_of_mapping(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (std::istringstream(line) >> std::hex >> begin >> dash >> end && dash == '-') here = begin <= wanted && wanted < end;
    if (here && line.starts_with("VmFlags:")) return line + " ";
  }
  return "";
}

TEST(Tensor, LargeOnesAskForHugePages) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP() << "this system has no huge pages to ask for";
  const Tensor tensor = Tensor::zeros("test", {16 * kMiB}, DType::u8);
  EXPECT_NE(flags_of_mapping(tensor.data<std::uint8_t>() + 8 * kMiB).find(" hg "), std::string::npos);
}

TEST(Tensor, UndefinedUntilMade) {
  EXPECT_FALSE(Tensor{}.defined());
  EXPECT_TRUE(Tensor::zeros("test", {3}).defined());
  EXPECT_TRUE(Tensor::zeros("test", {0}).defined());
}

TEST(Tensor, ZerosAreZero) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i64, DType::u8}) {
    const Tensor tensor = Tensor::zeros("test", {7, 3}, dtype);
    EXPECT_EQ(tensor.bytes(), 21 * size_of(dtype));
    const auto* bytes = static_cast<const unsigned char*>(tensor.raw());
    for (Bytes i = 0; i < tensor.bytes(); ++i) EXPECT_EQ(bytes[i], 0);
  }
}

// Memory beside it is somebody else's: a huge page of which it has a part alone is left as it is.
TEST(Tensor, HugePagesAreThoseWhollyWithin) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP() << "this system has no huge pages to ask for";
  constexpr Bytes kHugePage = 2 * kMiB, kSmallPage = 4096;
  void* const memory = ::mmap(nullptr, 4 * kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto behind = static_cast<Bytes>(reinterpret_cast<std::uintptr_t>(memory) % kHugePage);
  std::uint8_t* const page = static_cast<std::uint8_t*>(memory) + (kHugePage - behind) % kHugePage;
  prefer_huge_pages(page + kSmallPage, 2 * kHugePage);
  const std::string first = flags_of_mapping(page + kSmallPage), within = flags_of_mapping(page + kHugePage),
                    last = flags_of_mapping(page + 2 * kHugePage + kSmallPage - 1);
  ::munmap(memory, 4 * kHugePage);
  EXPECT_EQ(first.find(" hg "), std::string::npos);
  EXPECT_NE(within.find(" hg "), std::string::npos);
  EXPECT_EQ(last.find(" hg "), std::string::npos);
}

TEST(Tensor, CopiesShareTheMemory) {
  Tensor copy;
  {
    const Tensor tensor = Tensor::zeros("test", {4});
    copy = tensor;
    tensor.f32()[2] = 5.0f;
  }
  EXPECT_EQ(copy.f32()[2], 5.0f);  // and keep it alive
}

TEST(Tensor, WrapUsesTheGivenMemory) {
  std::array<float, 6> memory{1, 2, 3, 4, 5, 6};
  const Tensor tensor = Tensor::wrap(memory.data(), {2, 3});
  EXPECT_EQ(tensor.f32(), memory.data());
  tensor.span<float>()[5] = 7.0f;
  EXPECT_EQ(memory[5], 7.0f);
  EXPECT_EQ(tensor.span<float>().size(), 6u);
}

TEST(Tensor, WrongTypeIsRefused) {
  const Tensor tensor = Tensor::zeros("test", {4}, DType::f32);
  EXPECT_THROW(tensor.data<double>(), Error);
  EXPECT_THROW(tensor.data<std::int32_t>(), Error);
  EXPECT_THROW(tensor.span<bf16>(), Error);
  EXPECT_THROW(Tensor::zeros("test", {4}, DType::i32).f32(), Error);
  EXPECT_NO_THROW(tensor.data<float>());
}

TEST(Tensor, SlicesAreRowsOfTheSameMemory) {
  const Tensor tensor = Tensor::zeros("test", {4, 3, 2});
  for (int i = 0; i < 24; ++i) tensor.f32()[i] = static_cast<float>(i);
  const Tensor slice = tensor.slice(1, 3);
  EXPECT_EQ(slice.shape(), Shape({2, 3, 2}));
  EXPECT_EQ(slice.f32(), tensor.f32() + 6);
  EXPECT_EQ(slice.slice(1, 2).f32()[0], 12.0f);
  EXPECT_EQ(tensor.slice(4, 4).elements(), 0);
  EXPECT_EQ(tensor.slice(0, 4).f32(), tensor.f32());
  EXPECT_EQ(Tensor::zeros("test", {8}, DType::f64).slice(3, 8).bytes(), 40);
  slice.zero();
  EXPECT_EQ(tensor.f32()[5], 5.0f);
  EXPECT_EQ(tensor.f32()[6], 0.0f);
  EXPECT_EQ(tensor.f32()[17], 0.0f);
  EXPECT_EQ(tensor.f32()[18], 18.0f);
}

TEST(Tensor, SlicesOutsideAreRefused) {
  const Tensor tensor = Tensor::zeros("test", {4, 3});
  EXPECT_THROW(tensor.slice(0, 5), Error);
  EXPECT_THROW(tensor.slice(-1, 2), Error);
  EXPECT_THROW(tensor.slice(3, 2), Error);
  EXPECT_THROW(Tensor::zeros("test", Shape{}).slice(0, 1), Error);
}

TEST(Tensor, ReshapeKeepsTheElements) {
  const Tensor tensor = Tensor::zeros("test", {4, 6});
  const Tensor other = tensor.reshaped({2, 3, 4});
  EXPECT_EQ(other.shape(), Shape({2, 3, 4}));
  EXPECT_EQ(other.raw(), tensor.raw());
  EXPECT_THROW(tensor.reshaped({5, 5}), Error);
}

TEST(Tensor, CopyFromCopiesAndChecks) {
  const Tensor from = Tensor::zeros("test", {2, 3}), to = Tensor::zeros("test", {2, 3});
  from.f32()[4] = 9.0f;
  to.copy_from(from);
  EXPECT_EQ(to.f32()[4], 9.0f);
  from.f32()[4] = 1.0f;
  EXPECT_EQ(to.f32()[4], 9.0f);  // a copy, not a view
  EXPECT_THROW(to.copy_from(Tensor::zeros("test", {3, 2})), Error);
  EXPECT_THROW(to.copy_from(Tensor::zeros("test", {2, 3}, DType::f64)), Error);
}

TEST(Tensor, OnTheHostThereIsNothingToBring) {
  const Tensor tensor = Tensor::zeros("test", {2, 3});
  EXPECT_TRUE(tensor.on_host());
  EXPECT_EQ(tensor.to_host().raw(), tensor.raw());
  EXPECT_EQ(tensor.to(DeviceKind::cpu, "test").raw(), tensor.raw());
  EXPECT_EQ(to_host_fp32(tensor).raw(), tensor.raw());
}

// A tensor that says it is on the device must not be read by the host, whatever the memory really is.
TEST(Tensor, TheHostDoesNotReachDeviceMemory) {
  std::array<float, 2> memory{};
  const Tensor tensor = Tensor::wrap(memory.data(), {2}, DType::f32, DeviceKind::gpu);
  EXPECT_FALSE(tensor.on_host());
  EXPECT_EQ(tensor.f32(), memory.data());
  EXPECT_THROW(tensor.span<float>(), Error);
  EXPECT_EQ(tensor.slice(1, 2).device(), DeviceKind::gpu);
  EXPECT_EQ(tensor.reshaped({1, 2}).device(), DeviceKind::gpu);
}

template <class To, class From>
void expect_converted() {
  const std::array<float, 6> values{0.0f, 1.0f, -1.5f, 0.1f, 300.7f, -6e4f};
  const Tensor from = Tensor::zeros("test", {2, 3}, dtype_of<From>), to = Tensor::zeros("test", {6}, dtype_of<To>);
  for (std::size_t i = 0; i < 6; ++i) from.span<From>()[i] = from_float<From>(values[i]);
  convert(to, from);
  for (std::size_t i = 0; i < 6; ++i) {
    const float exact = to_float(from_float<From>(values[i]));  // what is stored
    EXPECT_EQ(to_float(to.span<To>()[i]), to_float(from_float<To>(exact)))
        << name_of(dtype_of<From>) << " to " << name_of(dtype_of<To>) << ": " << values[i];
  }
}

TEST(Convert, BetweenAllFloatingTypes) {
  expect_converted<float, bf16>();
  expect_converted<float, f16>();
  expect_converted<bf16, float>();
  expect_converted<f16, float>();
  expect_converted<bf16, f16>();
  expect_converted<f16, bf16>();
  expect_converted<float, float>();
}

TEST(Convert, RefusesWhatDoesNotFit) {
  const Tensor three = Tensor::zeros("test", {3});
  EXPECT_THROW(convert(three, Tensor::zeros("test", {4}, DType::bf16)), Error);
  EXPECT_THROW(convert(three, Tensor::zeros("test", {3}, DType::i32)), Error);
  EXPECT_THROW(convert(Tensor::zeros("test", {3}, DType::f64), three), Error);
  std::array<float, 3> memory{};
  EXPECT_THROW(convert(three, Tensor::wrap(memory.data(), {3}, DType::f32, DeviceKind::gpu)), Error);
}

TEST(Convert, ToHostFp32WidensWhatIsNarrow) {
  const Tensor narrow = Tensor::zeros("test", {2}, DType::bf16);
  narrow.span<bf16>()[1] = from_float<bf16>(1.5f);
  const Tensor wide = to_host_fp32(narrow);
  EXPECT_EQ(wide.dtype(), DType::f32);
  EXPECT_EQ(wide.f32()[1], 1.5f);
}

}  // namespace
}  // namespace cohort
