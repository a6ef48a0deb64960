// Pictures of a pipeline's timeline, simulated or measured: one row a rank, time from left to right, 0 at the earliest start.
// Ranks without events have no row. `unit` names the unit of the events' times, for the axis ("ms").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "parallel/pipeline/timeline.hpp"

namespace cohort::pipeline {

/// Plain text, at most `columns` wide (40 or more). An action fills its columns with the last digit of its micro-batch: 0 to 9 in
/// a forward, a to j, which stand for 0 to 9, in a backward; '.' is idle time. With more than one chunk a second line below each
/// rank says which. The shortest action has a whole number of columns, so that equal times look equal, if 70 % of the width can
/// be used so; an action of less than a column can be hidden by the next. Ends with the axis, a legend and a newline.
std::string draw_text(const std::vector<Event>& events, int columns, std::string_view unit);

/// An SVG document: forwards blue, backwards orange, later chunks darker, micro-batches as numbers where they fit (and in
/// tooltips with the times), a legend and an axis. About 250 bytes an event.
std::string draw_svg(const std::vector<Event>& events, std::string_view title, std::string_view unit);

}  // namespace cohort::pipeline
