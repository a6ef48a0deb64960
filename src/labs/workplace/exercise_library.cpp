#include "labs/workplace/exercise_library.hpp"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "labs/grading/grading.hpp"

namespace cohort::labs {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostLines = 30;

std::string compiler() {
  const char* chosen = std::getenv("CXX");
  return chosen != nullptr && *chosen != '\0' ? chosen : "c++";
}

// In single quotes, for the shell.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char letter : text) result += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return result + "'";
}

struct Output {
  int status = 0;
  std::string text;
};

Output run(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");  // NOLINT(bugprone-command-processor): names of files are quoted
  if (pipe == nullptr) fail(ExitCode::io, "starting the shell for {}", command);
  Output output;
  std::array<char, 4096> block{};
  for (std::size_t count = 0; (count = std::fread(block.data(), 1, block.size(), pipe)) > 0;)
    output.text.append(block.data(), count);
  const int status = ::pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  return output;
}

std::string first_lines(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  if (lines.size() <= kMostLines) return text;
  return join({lines.begin(), lines.begin() + kMostLines}, "\n") +
         fmt::format("\n... and {} more lines", lines.size() - kMostLines);
}

// What the library depends on: the source and all headers of the labs.
std::size_t hash_of_inputs(const fs::path& source, const fs::path& headers, const std::string& command) {
  std::vector<fs::path> files{source};
  for (const auto& entry : fs::directory_iterator(headers / "cohort")) files.push_back(entry.path());
  std::sort(files.begin() + 1, files.end());
  std::string all = command;
  for (const fs::path& file : files) all += read_file(file, "source") + '\0';
  return std::hash<std::string>()(all);
}

}  // namespace

fs::path compile_exercise(const fs::path& source, const Compiling& how) {
  const std::string flags = how.sanitized ? "-O1 -fsanitize=address,undefined -fno-omit-frame-pointer" : "-O2";
  const std::string command = fmt::format("{} -std=c++20 -g {} -Wall -Wextra -fPIC -shared -I {} {}", compiler(), flags,
                                          quoted(how.headers.string()), quoted(source.string()));
  make_folders(how.built_in);
  const fs::path library =
      how.built_in / fmt::format("{}-{:016x}.so", source.stem().string(), hash_of_inputs(source, how.headers, command));
  if (fs::exists(library)) return library;
  const fs::path unfinished = library.string() + fmt::format(".{}.tmp", ::getpid());
  const Output output = run(fmt::format("{} -o {}", command, quoted(unfinished.string())));
  if (output.status == 127)
    fail(ExitCode::launch,
         "there is no compiler '{}': install one (on Debian: apt install g++; on a cluster: module load gcc), or name it in CXX",
         compiler());
  if (output.status != 0) fail(ExitCode::usage, "{} does not compile:\n{}", source.string(), first_lines(output.text));
  if (!output.text.empty()) fmt::print(stderr, "{}", first_lines(output.text));
  fs::rename(unfinished, library);
  return library;
}

std::string sanitizer_library() {
  const Output output = run(compiler() + " -print-file-name=libasan.so");
  const std::string file = split(output.text, '\n').empty() ? "" : split(output.text, '\n').front();
  if (output.status != 0 || file.find('/') == std::string::npos)
    fail(ExitCode::usage, "--sanitize: {} has no library libasan.so of the address sanitizer", compiler());
  return file;
}

Library::Library(const fs::path& file)
    : handle_(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL), [](void* handle) {
        if (handle != nullptr) ::dlclose(handle);
      }) {
  if (!handle_) fail(ExitCode::usage, "loading the exercise: {}", ::dlerror());
}

void* Library::address_of(const std::string& name) const {
  void* found = ::dlsym(handle_.get(), name.c_str());
  if (found == nullptr) reject("the file does not define {} any more", name);
  return found;
}

}  // namespace cohort::labs
