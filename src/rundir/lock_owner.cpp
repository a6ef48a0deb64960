#include "rundir/lock_owner.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "observe/clock.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A file of /proc; "" if it cannot be read.
std::string contents(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

// When a process began, in clock ticks since boot (proc(5), stat, field 22); "" if there is none, or it is dead and not yet
// waited for. The name of the program, field 2, may have spaces in it, so fields are counted from its closing parenthesis.
std::string beginning_of(pid_t process) {
  const std::string stat = contents(fmt::format("/proc/{}/stat", process));
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream fields(stat.substr(name_end + 1));
  std::string state, field;
  fields >> state;
  if (state == "Z" || state == "X") return "";
  constexpr int kFieldsFromStateToBeginning = 19;
  for (int i = 0; i < kFieldsFromStateToBeginning; ++i) fields >> field;
  return field;
}

// "" if this system does not say: then it is not known to be the same as any other.
std::string this_machine() {
  std::error_code unreadable;
  const std::string boot = contents("/proc/sys/kernel/random/boot_id");
  const std::string processes = fs::read_symlink("/proc/self/ns/pid", unreadable).string();
  return boot.empty() || processes.empty() ? "" : boot + processes;
}

bool is_process_alive(const LockOwner& owner) {
  if (kill(owner.process, 0) != 0 && errno == ESRCH) return false;
  std::error_code none;
  if (!fs::exists(fmt::format("/proc/{}/stat", owner.process), none)) return true;  // another user's, hidden from us (hidepid)
  return beginning_of(owner.process) == owner.process_began;                        // else the number is another's now
}

}  // namespace

LockOwner LockOwner::self(const JobStart& job) {
  std::random_device random;
  return {.host = host_name(),
          .process = getpid(),
          .process_began = beginning_of(getpid()),
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
