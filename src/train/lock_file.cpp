#include "train/lock_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <sstream>
#include <system_error>
#include <thread>

#include "base/error.hpp"
#include "observe/clock.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// What a process that was just killed may need to be gone.
constexpr double kSecondsToDie = 2.0;

std::string reason(int error) { return std::generic_category().message(error); }

// "" if it cannot be read.
std::string contents(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool is_there(const fs::path& path) {
  std::error_code none;
  return fs::exists(path, none);
}

std::string link_target(const fs::path& path) {
  std::error_code none;
  return fs::read_symlink(path, none).string();
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

// One PID namespace of one boot of one kernel: where a process number means one process.
std::string machine() { return contents("/proc/sys/kernel/random/boot_id") + link_target("/proc/self/ns/pid"); }

std::string describe_self(const JobStart& job) {
  std::random_device random;
  const Json self{{"host", host_name()},
                  {"process", getpid()},
                  {"process_began", beginning_of(getpid())},
                  {"machine", machine()},
                  {"slurm_job", job.id},
                  {"slurm_restart", job.restart},
                  {"since", utc_timestamp()},
                  {"token", fmt::format("{:08x}{:08x}", random(), random())}};
  return self.dump() + "\n";
}

struct Owner {
  std::string host = "an unknown host";
  pid_t process = 0;
  std::string process_began, machine, slurm_job, since = "an unknown time";
  int slurm_restart = 0;

  std::string str() const {
    return fmt::format("{}process {} on {}, since {}", slurm_job.empty() ? "" : fmt::format("SLURM job {}, ", slurm_job), process,
                       host, since);
  }
};

// A text that no LockFile wrote has an unknown owner, whose life shows in the file's age alone.
Owner owner_from(const std::string& text) {
  Owner owner;
  try {
    const Json json = Json::parse(text);
    Owner read;
    json.at("host").get_to(read.host);
    json.at("process").get_to(read.process);
    json.at("process_began").get_to(read.process_began);
    json.at("machine").get_to(read.machine);
    json.at("slurm_job").get_to(read.slurm_job);
    json.at("slurm_restart").get_to(read.slurm_restart);
    json.at("since").get_to(read.since);
    owner = read;
  } catch (const Json::exception&) {
  }
  return owner;
}

bool is_process_alive(const Owner& owner) {
  if (kill(owner.process, 0) != 0 && errno == ESRCH) return false;
  if (!is_there(fmt::format("/proc/{}/stat", owner.process))) return true;  // another user's, hidden from us (hidepid)
  return beginning_of(owner.process) == owner.process_began;                // else the number is another's now
}

// Seconds since the file was touched. `just_written` is a file of the same folder that is touched here to learn what time it is
// there. Opening a file makes an NFS client ask the server for its times.
double age_of(const fs::path& path, const fs::path& just_written) {
  const auto touched = [](const fs::path& file) -> double {
    const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    const bool known = descriptor >= 0 && fstat(descriptor, &status) == 0;
    if (descriptor >= 0) close(descriptor);
    return known ? static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * static_cast<double>(status.st_mtim.tv_nsec) : 0.0;
  };
  utimensat(AT_FDCWD, just_written.c_str(), nullptr, 0);
  const double then = touched(path);
  return then == 0.0 ? 0.0 : touched(just_written) - then;
}

void write_new(const fs::path& path, const std::string& text) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  const bool written = descriptor >= 0 && write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (written) return;
  if (descriptor >= 0) unlink(path.c_str());
  fail(ExitCode::io,
       "cannot write in {}: {}; the user that runs the job needs the right and the space to write there; or choose another place "
       "with --set run.directory=FOLDER",
       path.parent_path().string(), reason(error));
}

// Whether `path` is the file `written` now. NFS may lose the answer to a link that it made: the number of links tells.
bool link_as(const fs::path& written, const fs::path& path) {
  if (link(written.c_str(), path.c_str()) == 0) return true;
  const int error = errno;
  struct stat status {};
  if (stat(written.c_str(), &status) == 0 && status.st_nlink == 2) return true;
  if (error == EEXIST) return false;
  unlink(written.c_str());
  fail(ExitCode::io, "cannot make the lock {}: {}", path.string(), reason(error));
}

}  // namespace

LockFile::LockFile(fs::path path, JobStart job) : path_(std::move(path)), job_(std::move(job)), text_(describe_self(job_)) {
  fs::path written = path_;
  written += fmt::format(".{}.tmp", Json::parse(text_)["token"].get<std::string>());
  write_new(written, text_);
  const double deadline = steady_seconds() + kSecondsToDie;
  while (!link_as(written, path_)) {
    const std::string found = contents(path_);
    if (found.empty() && !is_there(path_)) continue;  // given back since
    const Owner owner = owner_from(found);
    const bool is_near = !owner.machine.empty() && owner.machine == machine();
    const bool is_past_self = !job_.id.empty() && owner.slurm_job == job_.id && owner.slurm_restart < job_.restart;
    const double age = age_of(path_, written);
    if (is_past_self || (is_near ? !is_process_alive(owner) : age > kAbandonedSeconds)) {
      dead_owner_ = owner.str();
      if (take_from_the_dead(written, found)) return;
    } else if (is_near && steady_seconds() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    } else {
      unlink(written.c_str());
      fail(
          ExitCode::launch,
          "{} belongs to a running job: {}; its last sign of life was {:.0f} s ago. Wait for its end, end it with `touch {}`, or "
          "give this run another folder with --set run.name=NAME{}",
          path_.parent_path().string(), owner.str(), age, (path_.parent_path() / "stop").string(),
          is_near ? ""
                  : fmt::format(". If that job is dead, start again later: {} s after its last sign of life its lock counts as "
                                "abandoned",
                                kAbandonedSeconds));
    }
  }
  unlink(written.c_str());
}

bool LockFile::take_from_the_dead(const fs::path& written, const std::string& found) const {
  const LockFile alone(path_.string() + ".takeover", job_);
  if (contents(path_) != found) return false;  // somebody else was faster
  if (rename(written.c_str(), path_.c_str()) == 0) return true;
  const int error = errno;
  unlink(written.c_str());
  fail(ExitCode::io, "cannot take over the lock {}: {}", path_.string(), reason(error));
}

LockFile::~LockFile() {
  if (contents(path_) == text_) unlink(path_.c_str());
}

bool LockFile::touch() const {
  const std::string found = contents(path_);
  if (found.empty() && is_there(path_)) return true;  // the file system did not answer; the next time tells
  if (found != text_) return false;
  return utimensat(AT_FDCWD, path_.c_str(), nullptr, 0) == 0 || errno != ENOENT;
}

}  // namespace cohort
