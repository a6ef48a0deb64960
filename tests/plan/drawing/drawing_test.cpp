// Pictures of timelines. That the SVG is well-formed XML, tests/commands/plan_test.py checks with a parser.
#include "plan/drawing/drawing.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan/drawing/machine_drawing.hpp"

namespace cohort::test {
namespace {

using pipeline::Costs;
using pipeline::Event;
using pipeline::Pass;
using pipeline::Schedule;
using pipeline::ScheduleKind;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++times;
  return times;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    all.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

TEST(PipelineDrawing, TextOf1f1b) {
  const Schedule schedule{ScheduleKind::one_f_one_b, 2, 1, 3};
  const auto events = simulate(schedule, Costs{{1.0, 1.0}, {2.0, 2.0}});
  // 12 ms; 40 columns less the label of 8 give 2 columns a ms.
  const std::vector<std::string> rows = lines(draw_text(events, 40, "ms"));
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0], "rank 0  0011....aaaa22bbbb..cccc");
  EXPECT_EQ(rows[1], "rank 1  ..00aaaa11bbbb22cccc....");
  EXPECT_EQ(rows[2], "        |0 ms               |10");
  EXPECT_EQ(rows[3].substr(0, 11), "0-9 forward");
}

TEST(PipelineDrawing, TextOfChunks) {
  const Schedule schedule{ScheduleKind::interleaved, 2, 2, 2};
  const std::string text = draw_text(simulate(schedule, Costs{{1, 1, 1, 1}, {1, 1, 1, 1}}), 40, "ms");
  const std::vector<std::string> rows = lines(text);
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[0], "rank 0  000111000111...aaa...bbbaaabbb") << text;
  EXPECT_EQ(rows[1], "  chunk 000000111111   111   111000000") << text;
}

TEST(PipelineDrawing, NoRowIsWiderThanAsked) {
  const Schedule schedule{ScheduleKind::one_f_one_b, 8, 1, 64};
  const auto events = simulate(schedule, Costs{std::vector<double>(8, 1.1), std::vector<double>(8, 2.3), 0.07});
  for (const int columns : {40, 77, 120, 1000}) {
    const std::vector<std::string> rows = lines(draw_text(events, columns, "ms"));
    ASSERT_EQ(rows.size(), 10U);
    for (std::size_t row = 0; row < 9; ++row) EXPECT_LE(rows[row].size(), static_cast<std::size_t>(columns));
    EXPECT_GE(rows[0].size(), static_cast<std::size_t>(columns) * 7 / 10);  // and the width is used
  }
}

// Measured: from some zero, ranks missing, in any order, gaps.
const std::vector<Event> kMeasured{{12, {Pass::backward, 11, 0}, 1007.0, 1010.0}, {3, {Pass::forward, 11, 0}, 1000.0, 1002.5}};

TEST(PipelineDrawing, MeasuredEventsStartAtZero) {
  const std::vector<std::string> rows = lines(draw_text(kMeasured, 48, "ms"));
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0], "rank 3  1111111111..............................");
  EXPECT_EQ(rows[1], "rank 12 ............................bbbbbbbbbbbb");
  EXPECT_EQ(pipeline::draw_text({}, 48, "ms"), "nothing took any time\n");
}

TEST(PipelineDrawing, AnActionTooShortForTheClockHasAColumn) {
  const std::vector<Event> events{
      {0, {Pass::forward, 0, 0}, 0.0, 1.0}, {0, {Pass::forward, 1, 0}, 2.0, 2.0}, {0, {Pass::forward, 2, 0}, 3.0, 4.0}};
  EXPECT_EQ(lines(draw_text(events, 48, "ms"))[0], "rank 0  0000000000..........1.........2222222222");
}

TEST(PipelineDrawing, SvgHasABoxAnAction) {
  const Schedule schedule{ScheduleKind::interleaved, 2, 2, 4};
  const auto events = simulate(schedule, Costs{{1, 1, 1, 1}, {2, 2, 2, 2}});
  const std::string svg = draw_svg(events, "a < b & c", "ms");
  EXPECT_EQ(count(svg, "<g><title>"), events.size());
  EXPECT_EQ(count(svg, "a &lt; b &amp; c"), 1U);
  EXPECT_EQ(count(svg, "<title>rank 1, backward of micro-batch 0, chunk 1: 4 to 6 ms</title>"), 1U);
  EXPECT_EQ(count(svg, ">rank "), 2U + events.size());
}

TEST(PipelineDrawing, SvgOfMeasuredEvents) {
  const std::string svg = draw_svg(kMeasured, "measured", "ms");
  EXPECT_EQ(count(svg, "chunk 0: 7 to 10 ms</title>"), 1U);
  EXPECT_EQ(count(svg, "nan"), 0U);
  EXPECT_EQ(count(pipeline::draw_svg({}, "empty", "ms"), "nan"), 0U);
}

// A bar has all parts of a step, the legend those that some step has.
TEST(MachineDrawing, HasHostCopiesApartFromCommunication) {
  ScalingPoint point;
  point.ranks = 2;
  point.tokens_per_second = 1.0;
  point.time.split = {.products = 2.0, .exposed = {{"dp", 0.5}}, .host_copies = 0.25};
  point.time.seconds = point.time.split.total();
  ScalingCurve curve{.weak = {point}, .strong = {}};
  const std::string with = draw_machine_plan(curve, "");
  EXPECT_EQ(count(with, "communication: 500 ms"), 1u);
  EXPECT_EQ(count(with, "host copies: 250 ms"), 1u);
  EXPECT_EQ(count(with, ">host copies</text>"), 1u);
  EXPECT_EQ(count(with, ">attention</text>"), 0u);
  curve.weak[0].time.split.host_copies = 0.0;
  EXPECT_EQ(count(draw_machine_plan(curve, ""), ">host copies</text>"), 0u);
}

}  // namespace
}  // namespace cohort::test
