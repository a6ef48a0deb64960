#include "rundir/lock_owner.hpp"

#include <fmt/format.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): POSIX's, with kill()
#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <random>

#include "base/machine.hpp"
#include "base/process.hpp"
#include "observe/clock.hpp"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

// When this process began; "" if the kernel does not say.
std::string own_beginning() {
  const std::optional<ProcessFacts> facts = process_facts(getpid());
  return facts ? facts->began : "";
}

// "" if this system does not say: then it is not known to be the same as any other.
std::string this_machine() {
  const std::string boot = boot_id();
  const std::string processes = process_namespace();
  return boot.empty() || processes.empty() ? "" : boot + "\n" + processes;
}

bool is_process_alive(const LockOwner& owner) {
  if (kill(owner.process, 0) != 0 && errno == ESRCH) return false;
  const std::optional<ProcessFacts> facts = process_facts(owner.process);
  if (!facts) return true;  // another user's, hidden from us (hidepid)
  return facts->state != ProcessFacts::State::dead && facts->began == owner.process_began;  // else the number is another's now
}

}  // namespace

LockOwner LockOwner::self(const JobStart& job) {
  std::random_device random;
  return {.host = host_name(),
          .process = getpid(),
          .process_began = own_beginning(),
          .machine = this_machine(),
          .job = job,
          .since = utc_timestamp(),
          .token = fmt::format("{:08x}{:08x}", random(), random())};
}

LockOwner LockOwner::from(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    LockOwner owner;
    json.at("host").get_to(owner.host);
    json.at("process").get_to(owner.process);
    json.at("process_began").get_to(owner.process_began);
    json.at("machine").get_to(owner.machine);
    json.at("slurm_cluster").get_to(owner.job.cluster);
    json.at("slurm_job").get_to(owner.job.id);
    json.at("slurm_restart").get_to(owner.job.restart);
    json.at("since").get_to(owner.since);
    json.at("token").get_to(owner.token);
    return owner;
  } catch (const Json::exception&) {
    return {};
  }
}

std::string LockOwner::text() const {
  const Json json{{"host", host},
                  {"process", process},
                  {"process_began", process_began},
                  {"machine", machine},
                  {"slurm_cluster", job.cluster},
                  {"slurm_job", job.id},
                  {"slurm_restart", job.restart},
                  {"since", since},
                  {"token", token}};
  return json.dump() + "\n";
}

std::string LockOwner::str() const {
  if (host.empty()) return "an unknown job, whose lock file is empty or unreadable";
  return fmt::format("{}process {} on {}, since {}", job.id.empty() ? "" : fmt::format("SLURM job {}, ", job.id), process, host,
                     since);
}

LockOwner::Life LockOwner::life_seen_by(const JobStart& other) const {
  if (!machine.empty() && machine == this_machine()) return is_process_alive(*this) ? Life::alive : Life::dead;
  const bool is_earlier_start =
      !job.id.empty() && job.id == other.id && job.cluster == other.cluster && job.restart < other.restart;
  return is_earlier_start ? Life::dead : Life::unknown;
}

}  // namespace cohort
