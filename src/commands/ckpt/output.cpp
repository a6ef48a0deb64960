#include "commands/ckpt/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/text.hpp"

namespace cohort {
namespace {

constexpr double kSecondsBetweenDraws = 0.1;
constexpr double kSilentSeconds = 1.0;
constexpr const char* kEraseLine = "\r\033[K";

}  // namespace

void print_json(const nlohmann::ordered_json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

std::string short_number(double value) { return fmt::format("{:.4g}", value); }

ReadingLine::ReadingLine(std::string what)
    : what_(std::move(what)), terminal_(::isatty(STDERR_FILENO) == 1), begin_(steady_seconds()), last_drawn_(begin_) {}

ReadingLine::~ReadingLine() {
  if (drawn_) std::fputs(kEraseLine, stderr);
}

void ReadingLine::update(Bytes done, Bytes all) {
  if (!terminal_ || all <= 0) return;
  const double now = steady_seconds();
  if (now - begin_ < kSilentSeconds || now - last_drawn_ < kSecondsBetweenDraws) return;
  last_drawn_ = now;
  drawn_ = true;
  const double share = static_cast<double>(done) / static_cast<double>(all);
  const double left = share > 0.0 ? (now - begin_) * (1.0 - share) / share : 0.0;
  const double per_second = static_cast<double>(done) / (now - begin_);
  fmt::print(stderr, "{}{}: {:.0f} % of {}, {}/s, {} left", kEraseLine, what_, 100.0 * share, human_bytes(all),
             human_bytes(static_cast<Bytes>(per_second)), human_seconds(left));
  std::fflush(stderr);
}

}  // namespace cohort
