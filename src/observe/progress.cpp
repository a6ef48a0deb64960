#include "observe/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "base/console.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

constexpr double kSecondsBetweenDraws = 0.1;
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

bool stdout_is_terminal() {
  if (::isatty(STDOUT_FILENO) != 1) return false;
  // Under mpirun, that of the process that started this one counts: mpirun on its own node, orted (whose output is no terminal)
  // elsewhere.
  return std::getenv("OMPI_COMM_WORLD_RANK") == nullptr || writes_to_terminal(::getppid());
}

ProgressLine::ProgressLine(const Options& options)
    : options_(options), begin_(options.clock()), last_drawn_(begin_ - 2 * kSecondsBetweenDraws) {}

std::string ProgressLine::text(Count step, double loss, double units_per_second) const {
  // The mean since the start, not the last step's time: validation and checkpoints come again, so they belong to the estimate.
  const Count done = step - options_.first_step;
  const double per_step = done > 0 ? (options_.clock() - begin_) / static_cast<double>(done) : 0.0;
  const double percent =
      options_.total_steps > 0 ? 100.0 * static_cast<double>(step) / static_cast<double>(options_.total_steps) : 100.0;
  return fmt::format("step {}/{} ({:.0f}%)  loss {:.4f}  {} {}/s  ETA {}", step, options_.total_steps, percent, loss,
                     human_count(units_per_second), options_.unit,
                     human_seconds(per_step * static_cast<double>(options_.total_steps - step)));
}

// A console that went away (a closed pipe, a full disk) is no reason to lose a run; the logs have it all.
void ProgressLine::print(const std::string& text) const { print_to_console(text, options_.out); }

void ProgressLine::update(Count step, double loss, double units_per_second) {
  const bool last = step == options_.total_steps;
  if (!options_.terminal) {
    if (step % options_.every == 0 || last) print(text(step, loss, units_per_second) + '\n');
    return;
  }
  const double now = options_.clock();
  if (now - last_drawn_ < kSecondsBetweenDraws && !last) return;
  last_drawn_ = now;
  drawn_ = text(step, loss, units_per_second);
  print(kClearLine + drawn_);
}

void ProgressLine::note(std::string_view text) {
  print(drawn_.empty() ? fmt::format("{}\n", text) : fmt::format("{}{}\n{}", kClearLine, text, drawn_));
}

void ProgressLine::finish() {
  if (!drawn_.empty()) print("\n");
  drawn_.clear();
}

}  // namespace cohort
