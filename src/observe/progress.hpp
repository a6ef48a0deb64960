// What rank 0 shows while training: a table that stays, a row every few steps; and on a terminal below it one line that updates
// itself, with a bar and the course of the loss. Elsewhere (a SLURM log, a pipe) the table alone. Only rank 0 constructs one.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "observe/clock.hpp"
#include "observe/sparkline.hpp"

namespace cohort {

/// Whether a user watches stdout. Under mpirun, Open MPI gives each rank a pseudo-terminal even if its own output goes to a
/// file; there the output of mpirun itself decides.
bool stdout_is_terminal();
/// Whether the locale of the environment has UTF-8, so that block characters can be printed.
bool locale_has_utf8();
/// Columns of the terminal behind stdout; 100 if that cannot be known.
int terminal_columns();

/// What a row of the table says of a step.
struct ProgressFigures {
  Count step = 0;      // from 1
  double units = 0.0;  // tokens or samples, from the first step of the run
  double loss = 0.0;
  std::optional<double> validation = {};  // the loss of the validation after this step
  double learning_rate = 0.0;
  double gradient_norm = 0.0;
  double rate = 0.0;                 // units per second
  std::optional<double> mfu = {};    // share of the peak, 0 to 1
  std::optional<Bytes> memory = {};  // of this rank
};

class ProgressTable {
 public:
  struct Options {
    Count first_step = 0;              // steps done before this part of the run (resume)
    Count total_steps = 0;             // steps of the whole run
    Count every = 10;                  // steps between rows; on a terminal a multiple of it, so that there are about 20
    std::string_view unit = "tokens";  // what throughput counts: tokens or samples
    bool has_mfu = false;              // whether there is a column for it
    bool terminal = stdout_is_terminal();
    bool utf8 = locale_has_utf8();
    int columns = terminal_columns();
    std::FILE* out = stdout;
    Clock clock = steady_seconds;
  };

  explicit ProgressTable(const Options& options);

  /// Whether this step gets a row by its number: the first, every few steps, the last. A validated step gets one, too. For what
  /// is dear to find out.
  bool has_row(Count step) const;
  /// Step figures.step is done. On a terminal at most ten updates of the line a second are drawn; the last step always is.
  void update(const ProgressFigures& figures);
  /// Prints a line of its own without disturbing the updating line.
  void note(std::string_view text);
  /// Ends the updating line, so that what is printed next begins on a fresh one.
  void finish();

 private:
  void print(const std::string& text) const;
  // Above the updating line.
  void print_above(const std::string& text) const;
  std::string row(const ProgressFigures& figures) const;
  std::string line(const ProgressFigures& figures) const;
  std::string time_left(Count step) const;

  Options options_;
  Count rows_every_;
  double begin_;
  double last_drawn_;
  bool has_header_ = false;
  RunningCurve losses_;
  std::string drawn_;  // the updating line as it stands on the terminal
};

}  // namespace cohort
