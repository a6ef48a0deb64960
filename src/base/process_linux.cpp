#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "base/error.hpp"
#include "base/process.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

ProcessFacts::State state_of(char letter) {
  switch (letter) {
    case 'R':
      return ProcessFacts::State::running;
    case 'S':
      return ProcessFacts::State::asleep;
    case 'D':
      return ProcessFacts::State::waits_for_disk;
    case 'T':
      return ProcessFacts::State::stopped;
    case 't':
      return ProcessFacts::State::traced;
    case 'Z':
    case 'X':
      return ProcessFacts::State::dead;
    default:
      return ProcessFacts::State::unknown;
  }
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

// proc(5), stat: number, name in parentheses, state, parent ... and as field 22 the beginning, in clock ticks since boot. The
// name may hold anything, so fields are counted from its closing parenthesis.
std::optional<ProcessFacts> process_facts(std::int64_t process) {
  const std::string stat = contents(fmt::format("/proc/{}/stat", process));
  const std::size_t name_begin = stat.find('(');
  const std::size_t name_end = stat.rfind(") ");
  if (name_begin == std::string::npos || name_end == std::string::npos) return std::nullopt;
  ProcessFacts facts;
  facts.name = stat.substr(name_begin + 1, name_end - name_begin - 1);
  std::istringstream fields(stat.substr(name_end + 2));
  char state = 0;
  fields >> state >> facts.parent;
  facts.state = state_of(state);
  constexpr int kFieldsFromParentToBeginning = 18;
  for (int i = 0; i < kFieldsFromParentToBeginning; ++i) fields >> facts.began;
  return facts;
}

std::vector<std::int64_t> visible_processes() {
  std::vector<std::int64_t> processes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) processes.push_back(std::stoll(name));
  }
  return processes;
}

std::string environment_at_start(std::int64_t process) { return contents(fmt::format("/proc/{}/environ", process)); }

bool writes_to_terminal(std::int64_t process) {
  const int fd = ::open(fmt::format("/proc/{}/fd/1", process).c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  const bool terminal = ::isatty(fd) == 1;
  ::close(fd);
  return terminal;
}

// proc(5), statm: pages in all, and those in memory.
Bytes resident_memory() {
  std::istringstream fields(contents("/proc/self/statm"));
  Bytes all = 0, resident = 0;
  fields >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

fs::path program_file() {
  std::error_code error;
  fs::path file = fs::read_symlink("/proc/self/exe", error);
  if (error) fail(ExitCode::io, "cannot determine the path of this program (/proc/self/exe: {})", error.message());
  return file;
}

}  // namespace cohort
