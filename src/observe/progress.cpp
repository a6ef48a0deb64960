#include "observe/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/console.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

constexpr double kSecondsBetweenDraws = 0.1;
constexpr const char* kClearLine = "\r\x1b[K";
constexpr Count kRowsOnTerminal = 20;
constexpr std::size_t kCurveCells = 16;
constexpr int kBarCells = 20;
constexpr int kUnknownColumns = 100;

// A column of the table.
struct Column {
  const char* title;
  int width;
};
constexpr Column kStep{"step", 7}, kUnits{"", 8}, kLoss{"loss", 7}, kValidation{"val loss", 8}, kRate{"lr", 8}, kNorm{"norm", 7},
    kThroughput{"", 9}, kMfu{"MFU", 5}, kMemory{"memory", 9}, kLeft{"ETA", 10};

std::string cell(const Column& column, std::string_view text) { return fmt::format("{:>{}}", text, column.width); }

// Four digits or so of a number of any size; "nan" as it is.
std::string digits(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value) || size == 0.0) return fmt::format("{:.4f}", value);
  if (size >= 1e4 || size < 1e-3) return fmt::format("{:.1e}", value);
  return fmt::format("{:.{}f}", value, size >= 1000 ? 1 : size >= 100 ? 2 : size >= 10 ? 3 : 4);
}

}  // namespace

bool stdout_is_terminal() {
  if (::isatty(STDOUT_FILENO) != 1) return false;
  // Under mpirun, that of the process that started this one counts: mpirun on its own node, orted (whose output is no terminal)
  // elsewhere.
  return std::getenv("OMPI_COMM_WORLD_RANK") == nullptr || writes_to_terminal(::getppid());
}

bool locale_has_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;  // the first that is set counts
    return locale.find("UTF-8") != std::string_view::npos || locale.find("utf8") != std::string_view::npos;
  }
  return false;
}

int terminal_columns() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;  // mpirun's terminals have none
  return known ? size.ws_col : kUnknownColumns;
}

ProgressTable::ProgressTable(const Options& options)
    : options_(options),
      rows_every_(options.every),
      begin_(options.clock()),
      last_drawn_(begin_ - 2 * kSecondsBetweenDraws),
      losses_(kCurveCells) {
  if (options_.terminal) {
    const Count at_least = options_.total_steps / kRowsOnTerminal;
    rows_every_ *= std::max<Count>(1, (at_least + options_.every - 1) / options_.every);
  }
}

bool ProgressTable::has_row(Count step) const {
  return step == options_.first_step + 1 || step % rows_every_ == 0 || step == options_.total_steps;
}

std::string ProgressTable::time_left(Count step) const {
  // By the mean since the start, not the last step's time: validation and checkpoints come again, so they belong to the estimate.
  const Count done = step - options_.first_step;
  const double per_step = done > 0 ? (options_.clock() - begin_) / static_cast<double>(done) : 0.0;
  return human_seconds(per_step * static_cast<double>(options_.total_steps - step));
}

std::string ProgressTable::row(const ProgressFigures& f) const {
  std::vector<std::string> cells{cell(kStep, fmt::format("{}", f.step)),
                                 cell(kUnits, human_count(f.units)),
                                 cell(kLoss, digits(f.loss)),
                                 cell(kValidation, f.validation ? digits(*f.validation) : ""),
                                 cell(kRate, fmt::format("{:.2e}", f.learning_rate)),
                                 cell(kNorm, digits(f.gradient_norm)),
                                 cell(kThroughput, human_count(f.rate))};
  if (options_.has_mfu) cells.push_back(cell(kMfu, f.mfu ? fmt::format("{:.1f}%", 100.0 * *f.mfu) : ""));
  cells.push_back(cell(kMemory, f.memory ? human_bytes(*f.memory) : ""));
  cells.push_back(cell(kLeft, time_left(f.step)));
  return join(cells, "  ") + '\n';
}

std::string ProgressTable::line(const ProgressFigures& f) const {
  const double share = options_.total_steps > 0 ? static_cast<double>(f.step) / static_cast<double>(options_.total_steps) : 1.0;
  const int full = std::clamp(static_cast<int>(share * kBarCells), 0, kBarCells);
  std::string bar;
  for (int i = 0; i < kBarCells; ++i) bar += options_.utf8 ? (i < full ? "━" : "╌") : (i < full ? "#" : ".");
  const std::string begin = fmt::format("step {}/{}", f.step, options_.total_steps);
  const std::string end = fmt::format("  {:.0f}%  loss {:.4f}  {} {}/s  ETA {}", 100.0 * share, f.loss, human_count(f.rate),
                                      options_.unit, time_left(f.step));
  // What does not fit is left out: a line that wraps cannot be drawn over.
  int left = options_.columns - 1 - static_cast<int>(begin.size() + end.size());
  std::string text = begin;
  if (left >= kBarCells + 2) {
    text += "  " + bar;
    left -= kBarCells + 2;
  }
  text += end;
  const std::vector<double> curve = losses_.values();
  if (options_.utf8 && left >= static_cast<int>(curve.size()) + 2) text += "  " + sparkline(curve);
  if (static_cast<int>(begin.size() + end.size()) >= options_.columns)
    text.resize(static_cast<std::size_t>(std::max(0, options_.columns - 1)));
  return text;
}

// A console that went away (a closed pipe, a full disk) is no reason to lose a run; the logs have it all.
void ProgressTable::print(const std::string& text) const { print_to_console(text, options_.out); }

void ProgressTable::print_above(const std::string& text) const { print(drawn_.empty() ? text : kClearLine + text + drawn_); }

void ProgressTable::update(const ProgressFigures& figures) {
  losses_.add(figures.loss);
  if (has_row(figures.step) || figures.validation) {
    std::string header;
    if (!has_header_) {
      std::vector<std::string> titles{cell(kStep, kStep.title),
                                      cell(kUnits, options_.unit),
                                      cell(kLoss, kLoss.title),
                                      cell(kValidation, kValidation.title),
                                      cell(kRate, kRate.title),
                                      cell(kNorm, kNorm.title),
                                      cell(kThroughput, fmt::format("{}/s", options_.unit))};
      if (options_.has_mfu) titles.push_back(cell(kMfu, kMfu.title));
      titles.push_back(cell(kMemory, kMemory.title));
      titles.push_back(cell(kLeft, kLeft.title));
      header = join(titles, "  ") + '\n';
    }
    has_header_ = true;
    print_above(header + row(figures));
  }
  if (!options_.terminal) return;
  const double now = options_.clock();
  if (now - last_drawn_ < kSecondsBetweenDraws && figures.step != options_.total_steps) return;
  last_drawn_ = now;
  drawn_ = line(figures);
  print(kClearLine + drawn_);
}

void ProgressTable::note(std::string_view text) { print_above(fmt::format("{}\n", text)); }

void ProgressTable::finish() {
  if (!drawn_.empty()) print("\n");
  drawn_.clear();
}

}  // namespace cohort
