// `cohort compare`: two runs or more in one table, and where they part.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/run_record.hpp"

namespace cohort {

/// How the losses of two runs relate, step by step.
struct LossComparison {
  Count common_steps = 0;           // that both have
  Count first_common = 0;           // the first of them
  Count first_difference = 0;       // the first of them with another loss, be it in the last bit; 0: there is none
  Count beyond_a_percent = 0;       // the first whose losses differ by more than 1 %; 0: there is none
  double largest_difference = 0.0;  // over all common steps, relative to the first run's loss
  Count largest_at = 0;
};
LossComparison compare_losses(const RunRecord& a, const RunRecord& b);

/// A sentence or two: are they the same run, up to where, and which is better.
std::string verdict_of(const RunRecord& a, const RunRecord& b);

/// Runs of one name are called by their folders.
void tell_names_apart(std::span<RunRecord> runs);

/// Of each run a column: steps, losses, speed, time, memory. Ends with a newline.
std::string comparison_table(std::span<const RunRecord> runs);

/// Keys of the run files whose values differ, "key: value, value, ...", one a run. Keys that only name the run or its folder are
/// left out. Throws Error(config) if a run file cannot be read.
std::vector<std::string> differing_keys(std::span<const RunRecord> runs);

}  // namespace cohort
