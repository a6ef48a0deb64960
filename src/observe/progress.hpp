// What rank 0 shows while training: on a terminal one line that updates itself, elsewhere (a SLURM log, a pipe) a plain line
// every few steps. Only rank 0 constructs one.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "base/units.hpp"
#include "observe/clock.hpp"

namespace cohort {

/// Whether a user watches stdout. Under mpirun, Open MPI gives each rank a pseudo-terminal even if its own output goes to a
/// file; there the output of mpirun itself decides.
bool stdout_is_terminal();

class ProgressLine {
 public:
  struct Options {
    Count first_step = 0;              // steps done before this part of the run (resume)
    Count total_steps = 0;             // steps of the whole run
    Count every = 10;                  // steps between plain lines
    std::string_view unit = "tokens";  // what throughput counts: tokens or samples
    bool terminal = stdout_is_terminal();
    std::FILE* out = stdout;
    Clock clock = steady_seconds;
  };

  explicit ProgressLine(const Options& options);

  /// Step `step` (counted from 1) is done. On a terminal at most ten updates a second are drawn; the last step always is.
  void update(Count step, double loss, double units_per_second);
  /// Prints a line of its own, such as a validation result, without disturbing the updating line.
  void note(std::string_view text);
  /// Ends the updating line, so that what is printed next begins on a fresh one.
  void finish();

 private:
  void print(const std::string& text) const;
  std::string text(Count step, double loss, double units_per_second) const;

  Options options_;
  double begin_;
  double last_drawn_;
  std::string drawn_;  // the updating line as it stands on the terminal
};

}  // namespace cohort
