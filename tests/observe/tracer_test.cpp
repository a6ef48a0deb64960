#include "observe/tracer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "observe/timers.hpp"
#include "observe/trace_json.hpp"

namespace cohort {
namespace {

using Kind = TraceSpan::Kind;
using nlohmann::json;

// Each test has the tracer of the process to itself.
class TracerTest : public ::testing::Test {
 public:
  ~TracerTest() override { Tracer::of_process().abandon(); }

 protected:
  Tracer& tracer_ = Tracer::of_process();

  const TraceSpan* find(const std::string& name) const {
    for (const TraceSpan& span : tracer_.spans()) {
      if (span.name == name) return &span;
    }
    return nullptr;
  }
  json events(const TracedRank& rank = {}) const { return json::parse("[" + trace_events(tracer_, rank) + "]"); }
};

TEST_F(TracerTest, OffRecordsNothing) {
  { const TraceScope scope(Kind::work, "before"); }
  tracer_.begin();
  tracer_.end();
  { const TraceScope scope(Kind::work, "after"); }
  EXPECT_TRUE(tracer_.spans().empty());
}

TEST_F(TracerTest, SpansNestAsTheirScopes) {
  tracer_.begin();
  {
    const TraceScope outer(Kind::micro_batch, "forward", 3, 1);
    const TraceScope inner("blocks.0", "forward");
  }
  tracer_.end();
  const TraceSpan *outer = find("forward"), *inner = find("blocks.0");
  ASSERT_NE(outer, nullptr);
  ASSERT_NE(inner, nullptr);
  EXPECT_LE(outer->begin, inner->begin);
  EXPECT_LE(inner->end, outer->end);
  EXPECT_EQ(outer->micro_batch, 3);
  EXPECT_EQ(outer->chunk, 1);
  EXPECT_EQ(inner->pass, "forward");
  EXPECT_EQ(inner->kind, Kind::layer);
}

// One that is open when the trace begins or ends has no begin or end in it.
TEST_F(TracerTest, ScopesAcrossTheBordersAreLeftOut) {
  {
    const TraceScope scope(Kind::work, "early");
    tracer_.begin();
  }
  {
    const TraceScope scope(Kind::work, "late");
    tracer_.end();
  }
  EXPECT_TRUE(tracer_.spans().empty());
}

TEST_F(TracerTest, TheBackgroundHasItsPartOfATrace) {
  std::thread([&] {
    const BackgroundSpan before(1, "across the begin");
    tracer_.begin();
  }).join();
  std::thread([&] {
    const BackgroundSpan after(1, "across the end");
    tracer_.end();
  }).join();
  const TraceSpan *begin = find("across the begin"), *end = find("across the end");
  ASSERT_NE(begin, nullptr);
  ASSERT_NE(end, nullptr);
  EXPECT_EQ(begin->begin, tracer_.began());
  EXPECT_EQ(begin->thread, 1);
  EXPECT_EQ(tracer_.spans().size(), 2u);
}

// An operation is a request, and a wait if somebody waited for it.
TEST_F(TracerTest, OperationsComeFromTheFlightRecorder) {
  FlightRecorder& recorder = FlightRecorder::of_process();
  tracer_.begin();
  const auto asked =
      recorder.begin({.operation = "all_reduce", .group = "dp", .number = 7, .elements = 10, .dtype = DType::f32, .ranks = 4});
  recorder.finish(asked);
  const auto waited = recorder.begin({.operation = "recv", .group = "pp", .peer = 2});
  recorder.wait(waited);
  recorder.finish(waited);
  const auto device = recorder.begin({.operation = "all_gather", .group = "dp", .on_device = true});
  recorder.wait(device);
  recorder.finish(device);
  tracer_.end();
  recorder.finish(recorder.begin({.operation = "send", .group = "pp"}));  // too late
  ASSERT_EQ(tracer_.spans().size(), 4u);
  EXPECT_EQ(tracer_.operations().size(), 3u);
  EXPECT_EQ(tracer_.spans()[2].kind, Kind::wait);
  EXPECT_EQ(tracer_.spans()[2].name, "recv");
  EXPECT_EQ(tracer_.spans()[3].kind, Kind::request) << "nobody waits for a device on the host";
  const json all = events();
  const json& begin = *std::find_if(all.begin(), all.end(), [](const json& event) { return event["ph"] == "b"; });
  EXPECT_EQ(begin["name"], "dp all_reduce");
  EXPECT_EQ(begin["args"]["bytes"], 40);
  EXPECT_EQ(begin["args"]["ranks"], 4);
  EXPECT_EQ(begin["args"]["number"], 7);
  EXPECT_EQ(begin["args"]["form"], "blocking");
}

// The span of a phase has the very times of the timers.
TEST_F(TracerTest, PhasesHaveTheTimersTimes) {
  StepTimers timers;
  tracer_.begin();
  timers.begin_step();
  {
    const auto backward = timers.scope(Phase::backward);
    const auto communication = timers.scope(Phase::communication);
  }
  tracer_.end();
  const TraceSpan *backward = find("backward"), *communication = find("communication");
  ASSERT_NE(backward, nullptr);
  ASSERT_NE(communication, nullptr);
  const double inside = communication->end - communication->begin;
  EXPECT_NEAR(inside, timers.seconds(Phase::communication), 1e-9);
  EXPECT_NEAR(backward->end - backward->begin - inside, timers.seconds(Phase::backward), 1e-9);
}

int pushed = 0, popped = 0;

TEST_F(TracerTest, ToolsGetRangesWithoutATrace) {
  tracer_.add_range_tool({[](const char*) { ++pushed; }, [] { ++popped; }});
  {
    const TraceScope scope(Kind::work, "a range");
    EXPECT_EQ(pushed, 1);
    EXPECT_EQ(popped, 0);
  }
  EXPECT_EQ(popped, 1);
  EXPECT_TRUE(Tracer::wanted());
  EXPECT_FALSE(Tracer::on());
}

TEST_F(TracerTest, EventsAreJsonWhateverTheNames) {
  tracer_.begin();
  tracer_.add({.kind = Kind::kernel, .thread = kKernelStreams + 7, .name = "void f<\"x\\\n\xff>", .begin = 1.0, .end = 1.5});
  tracer_.add({.kind = Kind::work, .name = "inner", .begin = 2.0, .end = 3.0});
  tracer_.add({.kind = Kind::step, .name = "outer", .begin = 2.0, .end = 3.0});
  tracer_.add({.kind = Kind::work, .name = "early", .begin = -5.0, .end = 0.5});
  tracer_.end();
  const json all = events({.rank = 3, .label = "host \"a\"", .shift = 0.25});
  std::vector<std::string> names;
  for (const json& event : all) {
    EXPECT_EQ(event["pid"], 3);
    if (event["ph"] == "X") names.push_back(event["name"]);
  }
  EXPECT_EQ(names.size(), 4u);
  EXPECT_EQ(names[0], "early") << "by time";
  EXPECT_EQ(names[1], "outer") << "what encloses others first";
  const json& kernel = all.back();
  EXPECT_EQ(kernel["ts"], 1.25e6);
  EXPECT_EQ(kernel["dur"], 0.5e6);
  EXPECT_EQ(kernel["tid"], kKernelStreams + 7);
}

}  // namespace
}  // namespace cohort
