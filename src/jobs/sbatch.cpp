#include "jobs/sbatch.hpp"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/error.hpp"
#include "base/text.hpp"
#include "jobs/shell_text.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

SbatchAnswer run(const std::vector<std::string>& words) {
  const std::string command = shell_words(words) + " 2>&1 </dev/null";
  std::FILE* pipe = popen(command.c_str(), "r");  // NOLINT(bugprone-command-processor): every word is quoted
  if (pipe == nullptr) fail(ExitCode::io, "cannot start {}", words.front());
  SbatchAnswer answer;
  std::array<char, 4096> piece{};
  while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), pipe)) answer.text.append(piece.data(), got);
  const int status = pclose(pipe);
  answer.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  while (answer.text.ends_with('\n')) answer.text.pop_back();
  return answer;
}

}  // namespace

bool has_sbatch() {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path == nullptr ? "" : path, ':')) {
    std::error_code error;
    if (fs::is_regular_file(fs::path(folder) / "sbatch", error)) return true;
  }
  return false;
}

SbatchAnswer test_with_sbatch(const fs::path& script) { return run({"sbatch", "--test-only", script.string()}); }

SbatchAnswer submit_with_sbatch(const fs::path& script) { return run({"sbatch", script.string()}); }

}  // namespace cohort
