// Progress of work that may take long, on stderr: a line that updates itself on a terminal, elsewhere a plain line now and then.
// Work of less than a second shows nothing.
#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "base/text.hpp"

namespace cohort {

class WorkProgress {
 public:
  explicit WorkProgress(std::string what) : what_(std::move(what)), last_(std::chrono::steady_clock::now()) {}
  ~WorkProgress() {
    if (drawn_ && terminal_) std::fputc('\n', stderr);
  }
  WorkProgress(const WorkProgress&) = delete;
  WorkProgress& operator=(const WorkProgress&) = delete;

  void show(double share) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < (terminal_ ? std::chrono::seconds(1) : std::chrono::seconds(10))) return;
    last_ = now;
    drawn_ = true;
    fmt::print(stderr, "{}{}: {:.0f}%{}", terminal_ ? "\r" : "", what_, 100 * std::min(share, 1.0), terminal_ ? "" : "\n");
    std::fflush(stderr);
  }

 private:
  std::string what_;
  std::chrono::steady_clock::time_point last_;
  bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  bool drawn_ = false;
};

}  // namespace cohort
