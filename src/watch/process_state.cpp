#include "watch/process_state.hpp"

#include <unistd.h>

#include "base/process.hpp"

namespace cohort {

std::string process_state(std::int64_t process) {
  const std::optional<ProcessFacts> facts = process_facts(process);
  if (!facts) return process_facts(getpid()) ? "gone" : "";
  switch (facts->state) {
    case ProcessFacts::State::running:
      return "running";
    case ProcessFacts::State::asleep:
      return "asleep";
    case ProcessFacts::State::waits_for_disk:
      return "waiting for a disk or a network file system";
    case ProcessFacts::State::stopped:
      return "stopped by a signal";
    case ProcessFacts::State::traced:
      return "stopped by a debugger";
    case ProcessFacts::State::dead:
      return "dead";
    case ProcessFacts::State::unknown:
      return "";
  }
  return "";
}

}  // namespace cohort
