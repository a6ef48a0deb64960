#include <mach-o/dyld.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/error.hpp"
#include "base/process.hpp"

namespace cohort {
namespace {

ProcessFacts::State state_of(int status) {
  switch (status) {
    case SRUN:
      return ProcessFacts::State::running;  // asleep as well, as long as it can be woken: threads have a state here, processes
                                            // hardly
    case SSLEEP:
      return ProcessFacts::State::asleep;
    case SSTOP:
      return ProcessFacts::State::stopped;
    case SZOMB:
      return ProcessFacts::State::dead;
    default:
      return ProcessFacts::State::unknown;
  }
}

ProcessFacts facts_of(const kinfo_proc& info) {
  const timeval& began = info.kp_proc.p_starttime;
  return {.state = state_of(info.kp_proc.p_stat),
          .parent = info.kp_eproc.e_ppid,
          .name = info.kp_proc.p_comm,
          .began = fmt::format("{}.{:06}", static_cast<std::int64_t>(began.tv_sec), static_cast<std::int64_t>(began.tv_usec))};
}

// The answer of sysctl to a question of any length, as bytes; empty if there is none.
std::vector<char> ask(std::vector<int> question) {
  std::size_t bytes = 0;
  const auto words = static_cast<unsigned>(question.size());
  if (sysctl(question.data(), words, nullptr, &bytes, nullptr, 0) != 0) return {};
  std::vector<char> answer(bytes + bytes / 8);  // processes may be started in between
  bytes = answer.size();
  if (sysctl(question.data(), words, answer.data(), &bytes, nullptr, 0) != 0) return {};
  answer.resize(bytes);
  return answer;
}

std::vector<kinfo_proc> processes_named_by(std::vector<int> question) {
  const std::vector<char> answer = ask(std::move(question));
  std::vector<kinfo_proc> all(answer.size() / sizeof(kinfo_proc));
  std::memcpy(all.data(), answer.data(), all.size() * sizeof(kinfo_proc));
  return all;
}

}  // namespace

std::optional<ProcessFacts> process_facts(std::int64_t process) {
  const std::vector<kinfo_proc> found = processes_named_by({CTL_KERN, KERN_PROC, KERN_PROC_PID, static_cast<int>(process)});
  if (found.empty()) return std::nullopt;
  return facts_of(found.front());
}

std::vector<std::int64_t> visible_processes() {
  std::vector<std::int64_t> numbers;
  for (const kinfo_proc& info : processes_named_by({CTL_KERN, KERN_PROC, KERN_PROC_ALL, 0}))
    numbers.push_back(info.kp_proc.p_pid);
  return numbers;
}

// KERN_PROCARGS2: an int that counts the arguments, the path of the program, zero bytes, the arguments, then the environment.
std::string environment_at_start(std::int64_t process) {
  const std::vector<char> answer = ask({CTL_KERN, KERN_PROCARGS2, static_cast<int>(process)});
  int arguments = 0;
  if (answer.size() <= sizeof arguments) return "";
  std::memcpy(&arguments, answer.data(), sizeof arguments);
  const std::string text(answer.begin() + sizeof arguments, answer.end());
  std::size_t at = text.find_first_not_of('\0', text.find('\0'));
  for (; arguments > 0 && at < text.size(); --arguments) at = std::min(text.find('\0', at), text.size() - 1) + 1;
  const std::size_t end = std::min(text.find(std::string(2, '\0'), std::min(at, text.size())), text.size());
  return at < end ? text.substr(at, end - at) + '\0' : "";
}

bool writes_to_terminal(std::int64_t) { return false; }  // the files of another process cannot be opened

// The most that it had so far: what it has now is asked for in another way on every version of the system.
Bytes resident_memory() {
  rusage usage{};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<Bytes>(usage.ru_maxrss) : 0;
}

std::filesystem::path program_file() {
  std::array<char, 4096> path{};
  auto bytes = static_cast<std::uint32_t>(path.size());
  if (_NSGetExecutablePath(path.data(), &bytes) != 0)
    fail(ExitCode::io, "cannot find out which file this program is: its path is too long");
  return std::filesystem::canonical(path.data());
}

}  // namespace cohort
