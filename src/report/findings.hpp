// What somebody should look at in a run, by its figures alone.
#pragma once

#include <string>
#include <vector>

#include "report/run_record.hpp"

namespace cohort {

struct Finding {
  Count step = 0;  // where it is, or began
  std::string text;
};

/// By rising step, of each kind the worst five:
///   losses that are not finite; steps that were skipped;
///   spikes: a loss above those of the 50 steps before (20 at least) by 6 times their spread (median absolute deviation) and by
///     10 %; of several within 50 steps the highest;
///   a validation loss that rises: the last is above the lowest by 2 % or more, three validations or more ago;
///   a plateau: over the last third of 300 steps or more the smoothed loss fell by less than 0.5 %, far from the entropy floor;
///   or
///     it rose;
///   ranks that work 1.3 times as long as the median of their pipeline stage, in a third of the reports or more;
///   more than a tenth of the time in validations, or in saves.
std::vector<Finding> findings_of(const RunRecord& run);

}  // namespace cohort
