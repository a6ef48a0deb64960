#include "report/trace_record.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>

#include "observe/trace_json.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort::test {
namespace {

// A trace as the tracer of a rank would have written it.
class TraceFile {
 public:
  std::string head = R"({"program":"cohort","run":"r","ranks":2,"steps":[1,3],"clock":{"error_us":2.5}})";

  void span(int rank, int track, const char* kind, const std::string& name, double begin, double end,
            const std::string& about = "") {
    lines_.push_back(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"cat":"{}","name":"{}","args":{{{}}}}})", rank,
                                 track, 1e6 * begin, 1e6 * (end - begin), kind, name, about));
  }
  void request(int rank, const char* id, double begin, double end, const std::string& about) {
    lines_.push_back(fmt::format(R"({{"ph":"b","pid":{},"tid":0,"ts":{},"id":"{}","cat":"request","name":"n","args":{{{}}}}})",
                                 rank, 1e6 * begin, id, about));
    lines_.push_back(
        fmt::format(R"({{"ph":"e","pid":{},"tid":0,"ts":{},"id":"{}","cat":"request","name":"n"}})", rank, 1e6 * end, id));
  }
  void line(const std::string& text) { lines_.push_back(text); }
  TraceRecord read() const { return read_trace_record(write(std::string(trace_tail()))); }
  std::filesystem::path write(const std::string& tail) const {
    std::string text = trace_head(head);
    for (std::size_t i = 0; i < lines_.size(); ++i) text += (i > 0 ? ",\n" : "") + lines_[i];
    const auto path = *folder_ / "trace.json";
    std::ofstream(path) << text << tail;
    return path;
  }

 private:
  std::shared_ptr<TemporaryFolder> folder_ = std::make_shared<TemporaryFolder>();
  std::vector<std::string> lines_;
};

const std::string kSum = R"("operation":"all_reduce","group":"dp","bytes":1000,"ranks":2,"form":"blocking","number":1)";

TEST(TraceRecord, WaitsInTrainingAreExposed) {
  TraceFile file;
  for (const int rank : {0, 1}) {
    const double late = 0.125 * rank;
    for (int step = 1; step <= 3; ++step) {
      const double at = 10.0 * step + late;
      file.span(rank, 0, "step", fmt::format("step {}", step), at, at + 10);
      file.span(rank, 0, "phase", "backward", at, at + 4);
      file.span(rank, 0, "wait", "wait dp all_reduce", at + 1, at + 2 + rank, kSum);
      file.span(rank, 0, "phase", "validation", at + 5, at + 8);
      file.span(rank, 0, "wait", "wait dp all_reduce", at + 6, at + 7, kSum);
    }
    file.request(rank, rank == 0 ? "0x1" : "0x2", 10.5 + late, 12.5 + late, kSum);
    file.request(rank, rank == 0 ? "0x3" : "0x4", 50.0, 52.0, kSum);  // behind the last step
    if (rank == 0)
      file.request(0, "0x5", 11.0, 12.0,
                   R"("operation":"send","group":"pp","bytes":64,"ranks":2,"form":"asynchronous","peer":1)");
  }
  const TraceRecord trace = file.read();
  ASSERT_EQ(trace.ranks.size(), 2u);
  EXPECT_NEAR(trace.ranks[0].seconds, 30.0, 1e-6);
  EXPECT_NEAR(trace.ranks[0].training, 21.0, 1e-6);
  EXPECT_NEAR(trace.ranks[0].exposed, 3.0, 1e-6);
  EXPECT_NEAR(trace.ranks[1].exposed, 6.0, 1e-6);
  EXPECT_NEAR(trace.ranks[0].phases.at("backward"), 12.0, 1e-6);
  EXPECT_NEAR(trace.ranks[0].phases.at("other"), 9.0, 1e-6);
  EXPECT_NEAR(trace.clock_error, 2.5e-6, 1e-12);
  ASSERT_EQ(trace.operations.size(), 2u);
  EXPECT_EQ(trace.operations[0].group, "dp");
  EXPECT_EQ(trace.operations[0].calls, 2);
  EXPECT_EQ(trace.operations[0].callers, 2);
  EXPECT_EQ(trace.operations[0].bytes, 2000);
  EXPECT_NEAR(trace.operations[0].seconds, 4.0, 1e-6);
  EXPECT_NEAR(trace.operations[0].exposed, 9.0, 1e-6);
  ASSERT_EQ(trace.messages.size(), 1u);
  EXPECT_EQ(trace.messages[0].to, 1);
  EXPECT_EQ(trace.timeline_step, 2);
  EXPECT_NEAR(trace.timeline.seconds, 10.125, 1e-6);
  EXPECT_NEAR(trace.timeline.ranks[1].front().begin, 0.125, 1e-6);
}

TEST(TraceRecord, OnAGpuStallsOfTheComputeStreamAreExposed) {
  TraceFile file;
  for (int step = 1; step <= 3; ++step) file.span(0, 0, "step", fmt::format("step {}", step), 10.0 * step, 10.0 * step + 10);
  file.span(0, 0, "wait", "wait world all_reduce", 12, 13, kSum);  // of the host
  file.span(0, 0, "phase", "validation", 34, 38);
  file.span(0, kComputeStream, "micro_batch", "forward 0", 21, 27, R"("pass":"forward","micro_batch":0)");
  file.span(0, kComputeStream, "stall", "wait dp all_reduce", 23, 24.5, kSum);
  file.span(0, kComputeStream, "stall", "wait dp all_reduce", 33, 35, kSum);  // half of it in the validation
  file.span(0, kKernelStreams + 7, "kernel", "gemm", 11, 13);
  file.span(0, kKernelStreams + 7, "kernel", "gemm", 15, 17);
  file.span(0, kKernelStreams + 13, "kernel", "ncclDevKernel_AllReduce", 12, 16);
  file.span(0, kKernelStreams + 13, "kernel", "ncclDevKernel_Broadcast", 5, 6);    // before the first step
  file.span(0, kKernelStreams + 13, "kernel", "ncclDevKernel_Broadcast", 35, 36);  // in a validation
  const TraceRecord trace = file.read();
  EXPECT_NEAR(trace.ranks[0].exposed, 2.5, 1e-6)
      << "of what NCCL's kernel runs beside others, nothing; of stalls in a validation, neither";
  EXPECT_NEAR(trace.ranks[0].kernels, 6.0, 1e-6);
  ASSERT_EQ(trace.timeline.ranks.size(), 1u);
  EXPECT_EQ(trace.timeline.ranks[0][1].what, "waiting") << "as the device was, not the host";
}

TEST(TraceRecord, WhatIsNoTraceIsRefused) {
  TraceFile file;
  file.span(0, 0, "step", "step 1", 0, 1);
  EXPECT_ERROR(read_trace_record("/nowhere/trace.json"), ExitCode::io, "/nowhere/trace.json");
  EXPECT_ERROR(read_trace_record(file.write("")), ExitCode::io, "trace.json:5", "cut off");
  EXPECT_ERROR(read_trace_record(file.write(",\n{\"ph\":\"X\"")), ExitCode::io, "cut off");
  file.head = R"({"program":"another"})";
  EXPECT_ERROR(file.read(), ExitCode::io, "trace.json:2", "not a trace of cohort");
  file.head = "{";
  EXPECT_ERROR(file.read(), ExitCode::io, "not a trace of cohort");
  TraceFile strange;
  strange.line(R"({"ph":"X","pid":"zero"})");
  EXPECT_ERROR(strange.read(), ExitCode::io, "trace.json:4", "not as cohort writes it");
}

}  // namespace
}  // namespace cohort::test
