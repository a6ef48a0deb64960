// What several tests of HDF5 files need.
#pragma once

#include <sys/resource.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace cohort::test {

/// first, first + 1, ...
inline std::vector<std::int32_t> numbers(Count elements, std::int32_t first) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(elements));
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// While it lives, writes of this process beyond so many bytes of a file fail, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(Bytes bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{static_cast<rlim_t>(bytes), before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

struct Output {
  int status;
  std::string text;
};

/// Runs a command line; its output and its errors together.
inline Output run(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");  // NOLINT(bugprone-command-processor): of tests
  std::string text;
  std::array<char, 4096> buffer{};
  for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) text.append(buffer.data(), got);
  return {::pclose(pipe), text};
}

}  // namespace cohort::test
