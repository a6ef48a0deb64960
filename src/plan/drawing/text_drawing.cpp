#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "plan/drawing/drawing.hpp"
#include "plan/drawing/extent.hpp"

namespace cohort::pipeline {
namespace {

/// Columns of one unit of time: a whole number for the shortest action, unless that leaves much of the width unused.
double scale_of(const Extent& extent, int columns) {
  constexpr double kLeastUsed = 0.7;
  const double scale = columns / extent.total;
  const double of_shortest = std::floor(extent.shortest * scale + 1e-9);  // a whole number may have come out just below itself
  return of_shortest >= 1.0 && of_shortest >= kLeastUsed * extent.shortest * scale ? of_shortest / extent.shortest : scale;
}

/// Marks at round times, each a '|' with its number to the right of it. A number that does not fit in `columns` is left out.
std::string axis_line(const Extent& extent, double scale, int columns, std::string_view unit) {
  constexpr int kColumnsOfMark = 10;
  const double step = axis_step(extent.total, static_cast<int>(extent.total * scale) / kColumnsOfMark);
  std::string line;
  for (int mark = 0; mark * step <= extent.total * (1.0 + 1e-9); ++mark) {
    const std::string text = fmt::format("|{:g}{}{}", mark * step, mark == 0 ? " " : "", mark == 0 ? unit : "");
    const std::size_t place = static_cast<std::size_t>(std::llround(mark * step * scale));
    if (place < line.size() || place + text.size() > static_cast<std::size_t>(columns)) continue;
    line.resize(place, ' ');
    line += text;
  }
  return line;
}

}  // namespace

std::string draw_text(const std::vector<Event>& events, int columns, std::string_view unit) {
  const Extent extent = extent_of(events);
  if (extent.total <= 0.0) return "nothing took any time\n";
  const int digits = static_cast<int>(std::to_string(extent.rows.rbegin()->first).size());
  const int label = std::max(5 + digits, 7) + 1;  // "rank 12 ", and room for "  chunk "
  const int plot = columns - label;
  const double scale = scale_of(extent, plot);
  const std::size_t used = static_cast<std::size_t>(std::llround(extent.total * scale));

  std::vector<std::string> micro_batches(extent.rows.size(), std::string(used, '.'));
  std::vector<std::string> chunks(extent.rows.size(), std::string(used, ' '));
  for (const Event& event : events) {
    const std::size_t row = static_cast<std::size_t>(extent.rows.at(event.rank));
    const std::size_t end = static_cast<std::size_t>(std::llround((event.end - extent.start) * scale));
    const std::size_t begin = static_cast<std::size_t>(std::llround((event.start - extent.start) * scale));
    const char first = event.action.pass == Pass::forward ? '0' : 'a';
    for (std::size_t column = begin; column < std::min(std::max(end, begin + 1), used); ++column) {
      micro_batches[row][column] = static_cast<char>(first + event.action.micro_batch % 10);
      chunks[row][column] = static_cast<char>('0' + event.action.chunk % 10);
    }
  }

  std::string text;
  for (const auto& [rank, row] : extent.rows) {
    text += fmt::format("{:<{}}{}\n", fmt::format("rank {}", rank), label, micro_batches[static_cast<std::size_t>(row)]);
    if (extent.chunks > 1) text += fmt::format("{:<{}}{}\n", "  chunk", label, chunks[static_cast<std::size_t>(row)]);
  }
  text += fmt::format("{:<{}}{}\n", "", label, axis_line(extent, scale, plot, unit));
  text += "0-9 forward, a-j backward of micro-batches 0-9 (last digit; a is 0, b is 1)   . idle\n";
  return text;
}

}  // namespace cohort::pipeline
