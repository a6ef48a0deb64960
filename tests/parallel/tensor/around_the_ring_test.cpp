// Products of blocks of rows, around the ring of parts (TensorParallel with overlap): which block comes when, what it holds, and
// in which order the terms of a sum are added.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <source_location>
#include <string>
#include <thread>
#include <vector>

#include "parallel/tensor/training.hpp"
#include "watch/report.hpp"

namespace cohort::test {
namespace {

constexpr Count kRows = 3, kColumns = 5;  // of a part

// Notes when turns of the ring begin and end.
class Noting : public TensorParallelGroup {
 public:
  using TensorParallelGroup::TensorParallelGroup;
  std::vector<std::string> notes;

 protected:
  void do_pass_on(const Tensor& outgoing, const Tensor& incoming, const Site& site) override {
    notes.emplace_back("turn begins");
    TensorParallelGroup::do_pass_on(outgoing, incoming, site);
  }
  void wait() override {
    TensorParallelGroup::wait();
    notes.emplace_back("turn ends");
  }
};

Tensor device_tensor(const Shape& shape, const std::vector<float>& values) {
  const Tensor host = Tensor::zeros("test", shape);
  std::copy(values.begin(), values.end(), host.f32());
  return host.to(test_device(), "test");
}

std::vector<float> values_of(const Tensor& tensor) {
  const Tensor host = tensor.to_host();
  return {host.f32(), host.f32() + host.elements()};
}

class AroundTheRing : public ::testing::Test {
 protected:
  void SetUp() override {
    if (parts_ == 1) GTEST_SKIP() << "one part has all rows";
  }
  void expect_the_product_inside_each_turn() const {
    std::vector<std::string> expected;
    for (int turn = 1; turn < parts_; ++turn) expected.insert(expected.end(), {"turn begins", "product", "turn ends"});
    std::vector<std::string> notes = parallel_.notes;
    notes.erase(sums_ ? notes.begin() : notes.end() - 1);  // the first block of a sum and the last of a gathering travel no more
    EXPECT_EQ(notes, expected);
  }
  // What each element of a part's rows is here.
  static std::vector<float> rows_of(int part) {
    std::vector<float> values;
    for (Count i = 0; i < kRows * kColumns; ++i) values.push_back(static_cast<float>(100 * part + i));
    return values;
  }

  Ranks ranks_;
  int parts_ = ranks_.size(), part_ = ranks_.tensors().rank();
  Noting parallel_{ranks_.tensors(), true, true};
  Arena arena_{"test", test_device()};
  StepContext context_{.exec = {.device = test_device()}, .activations = &arena_};
  bool sums_ = false;
};

TEST_F(AroundTheRing, RowsAreMultipliedWhileTheNextArrive) {
  const Tensor own = device_tensor({kRows, kColumns}, rows_of(part_));
  const Tensor all = Tensor::zeros("test", {parts_ * kRows, kColumns}, DType::f32, test_device());
  int seen = 0;
  parallel_.gather_rows(all, own, [&](const RowBlock& block, const Tensor& rows) {
    parallel_.notes.emplace_back("product");
    const int owner = (part_ + parts_ - seen++) % parts_;
    EXPECT_EQ(block.begin, owner * kRows);
    EXPECT_EQ(block.end, (owner + 1) * kRows);
    EXPECT_EQ(block.last, seen == parts_);
    EXPECT_EQ(values_of(rows), rows_of(owner));
  });
  EXPECT_EQ(seen, parts_);
  expect_the_product_inside_each_turn();
  for (int part = 0; part < parts_; ++part) EXPECT_EQ(values_of(all.slice(part * kRows, (part + 1) * kRows)), rows_of(part));
}

// Of fp32 terms that differ by more than 24 bits the order of addition shows.
TEST_F(AroundTheRing, TermsAreAddedInTheOrderOfTheRing) {
  const std::vector<float> term_of_part{1.0f, 3e8f, 5.0f, -3e8f};
  const auto term = [&](int part, Count row) { return term_of_part[static_cast<std::size_t>(part)] + static_cast<float>(row); };
  const Tensor own = Tensor::zeros("test", {kRows, kColumns}, DType::f32, test_device());
  int seen = 0;
  sums_ = true;
  parallel_.sum_rows(context_, own, [&](const RowBlock& block, const Tensor& terms) {
    parallel_.notes.emplace_back("product");
    ++seen;
    EXPECT_EQ(block.begin, (part_ + parts_ - seen) % parts_ * kRows);
    EXPECT_EQ(block.last, seen == parts_);
    std::vector<float> values;
    for (Count row = block.begin; row < block.end; ++row) values.insert(values.end(), kColumns, term(part_, row));
    terms.copy_from(device_tensor({kRows, kColumns}, values));
  });
  expect_the_product_inside_each_turn();
  std::vector<float> expected;
  for (Count row = part_ * kRows; row < (part_ + 1) * kRows; ++row) {
    float sum = term((part_ + 1) % parts_, row);
    for (int step = 2; step <= parts_; ++step) sum += term((part_ + step) % parts_, row);
    expected.insert(expected.end(), kColumns, sum);
  }
  EXPECT_EQ(values_of(own), expected);
}

// Part 0 does not come until part 1, which waits for it, has been seen to say where: here, not in the files that pass it on.
TEST_F(AroundTheRing, WhoHangsIsNamedWithItsPlace) {
  const Tensor own = device_tensor({kRows, kColumns}, rows_of(part_));
  parallel_.read_rows(context_, own,
                      [](const RowBlock&, const Tensor&) {});  // the first turn of a group on GPUs makes their ring
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const auto in_time = [=] { return std::chrono::steady_clock::now() < deadline; };
  const Count job = all_reduce_value(ranks_.host(), part_ == 0 ? static_cast<Count>(getpid()) : Count{0}, ReduceOp::sum);
  const std::filesystem::path seen = std::filesystem::temp_directory_path() / fmt::format("cohort_seen_{}", job);
  std::optional<ReportedOperation> stuck;
  std::thread observer;
  if (part_ == 1) {
    observer = std::thread([&] {
      while (!stuck && in_time()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        for (const ReportedOperation& operation : make_report(1, "node1", FlightRecorder::of_process()).waiting)
          if (operation.peer == 0 && operation.kind.starts_with("recv")) stuck = operation;
      }
      std::ofstream(seen) << "seen";
    });
  } else if (part_ == 0) {
    while (!std::filesystem::exists(seen) && in_time()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::filesystem::remove(seen);
  }
  const auto here = std::source_location::current();
  parallel_.read_rows(context_, own, [](const RowBlock&, const Tensor&) {});
  if (observer.joinable()) observer.join();
  const std::string place = fmt::format("around_the_ring_test.cpp:{})", here.line() + 1);
  EXPECT_EQ(stuck.has_value(), part_ == 1);
  EXPECT_TRUE(!stuck || stuck->text.ends_with(place)) << stuck->text;

  // And so with the collectives.
  const auto last = [] { return FlightRecorder::of_process().records().back().str(); };
  parallel_.sum(own);
  EXPECT_NE(last().find("around_the_ring_test.cpp:"), std::string::npos) << last();
}

}  // namespace
}  // namespace cohort::test
