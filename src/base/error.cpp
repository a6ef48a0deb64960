#include "base/error.hpp"

#include <cstring>

namespace cohort {

void fail_check(const char* expression, const char* file, int line, const std::string& message) {
  const char* in_tree = std::strstr(file, "src/");
  throw Error(ExitCode::internal,
              fmt::format("{} (check failed: {} at {}:{})", message, expression, in_tree ? in_tree : file, line));
}

}  // namespace cohort
