#include "base/exception.hpp"

#include <cstdio>
#include <filesystem>
#include <new>
#include <system_error>

namespace cohort {

Error as_error(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return {ExitCode::memory, "out of memory: lower train.micro_batch or the model's size, or use more ranks"};
  }
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    const std::string second = file->path2().empty() ? "" : fmt::format(" and '{}'", file->path2().string());
    return {ExitCode::io, fmt::format("'{}'{}: {}", file->path1().string(), second, file->code().message())};
  }
  // fmt::print() throws one where stdio only sets a flag.
  if (const auto* system = dynamic_cast<const std::system_error*>(&error); system != nullptr && std::ferror(stdout) != 0) {
    return {ExitCode::io, fmt::format("cannot write to standard output: {}", system->code().message())};
  }
  return {ExitCode::internal, fmt::format("internal error: {}", error.what())};
}

}  // namespace cohort
