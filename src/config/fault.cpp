#include "config/fault.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"

namespace cohort {
namespace {

// A run's configuration in which nothing but [fault] counts, so that the short form is checked by the schema.
RunConfig parse_short_form(const std::string& text) {
  const std::string where = "--fault " + text;
  const std::size_t colon = text.find(':');
  RunConfig parsed;
  apply_override(parsed, "fault", "kind", text.substr(0, colon), where);
  if (parsed.fault.kind == "none") fail(ExitCode::config, "{}: none is not a fault; omit --fault", where);
  if (colon == std::string::npos) return parsed;
  for (const std::string& part : split(text.substr(colon + 1), ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) {
      fail(ExitCode::config, "{}: '{}' is not of the form KEY=VALUE, as in --fault exit:rank=2,step=5", where, part);
    }
    apply_override(parsed, "fault", part.substr(0, equals), part.substr(equals + 1), where);
  }
  return parsed;
}

// In `origins`, what was set of the fault: "run.toml:7: ", or "--fault exit:rank=2: " which is the same for every key.
std::string at(const RunConfig& set, const char* key) {
  for (const std::string& name : {std::string("fault.") + key, std::string("fault.kind")}) {
    const auto origin = set.origins.find(name);
    if (origin != set.origins.end()) return origin->second + ": ";
  }
  return "";
}

bool saves_after(const RunConfig& run, Count step) {
  const CheckpointSection& checkpoint = run.checkpoint;
  return (checkpoint.every > 0 && step % checkpoint.every == 0) || (checkpoint.at_end && step == run.train.steps);
}

void check_place(const RunConfig& set, const RunConfig& run, Count world_size) {
  const FaultSection& fault = set.fault;
  if (fault.rank >= world_size) {
    fail(ExitCode::config, "{}fault.rank = {}, but the job has {}, 0 to {}", at(set, "rank"), fault.rank,
         counted(world_size, "rank"), world_size - 1);
  }
  if (fault.step > run.train.steps) {
    fail(ExitCode::config, "{}fault.step = {} comes after the last step, train.steps = {}", at(set, "step"), fault.step,
         run.train.steps);
  }
  if (fault.phase == "save" && !saves_after(run, fault.step)) {
    fail(ExitCode::config,
         "{}fault.phase = \"save\", but no checkpoint is due after step {}: checkpoint.every = {}, the last step is {}",
         at(set, "phase"), fault.step, run.checkpoint.every, run.train.steps);
  }
}

void check_kind(const RunConfig& set, const RunConfig& run) {
  const FaultSection& fault = set.fault;
  if (fault.kind == "nan" && fault.phase != "start") {
    fail(ExitCode::config, "{}fault.phase = \"{}\" has no effect with \"nan\", which acts in forward; remove it",
         at(set, "phase"), fault.phase);
  }
  if (fault.kind == "device" && run.device.kind != "cuda") {
    fail(ExitCode::config,
         "{}fault.kind = \"device\" takes a rank's GPU away, but device.kind is \"{}\"; on a CPU try segv or hang",
         at(set, "kind"), run.device.kind);
  }
}

std::string deed_of(const FaultSection& fault) {
  if (fault.kind == "exit") return fmt::format("exit with code {}", fault.code);
  if (fault.kind == "abort") return "abort";
  if (fault.kind == "kill") return "be killed (SIGKILL)";
  if (fault.kind == "stop") return "be stopped (SIGSTOP)";
  if (fault.kind == "segv") return "crash (SIGSEGV)";
  if (fault.kind == "throw") return "throw an error";
  if (fault.kind == "hang") return "hang";
  if (fault.kind == "slow") return fmt::format("take {} s longer for each step", fault.seconds);
  if (fault.kind == "nan") return "compute NaN";
  if (fault.kind == "disk") return "fail to write";
  if (fault.kind == "device") return "lose its GPU";
  fail(ExitCode::internal, "the fault '{}' has no description", fault.kind);
}

}  // namespace

std::vector<FaultSection> faults_of(const RunConfig& config, const std::vector<std::string>& short_forms, Count world_size) {
  std::vector<RunConfig> sets;
  if (config.fault.kind != "none") sets.push_back(config);
  for (const std::string& text : short_forms) sets.push_back(parse_short_form(text));
  std::vector<FaultSection> faults;
  for (const RunConfig& set : sets) {
    refuse_idle_keys(set);
    check_place(set, config, world_size);
    check_kind(set, config);
    faults.push_back(set.fault);
  }
  return faults;
}

std::string describe_fault(const FaultSection& fault) {
  const std::string when = fmt::format("{} step {}", fault.kind == "slow" || fault.kind == "disk" ? "from" : "at", fault.step);
  const std::string phase = fault.phase == "start" ? "" : fault.phase == "save" ? ", at the save" : ", in " + fault.phase;
  return fmt::format("rank {} will {} {}{}", fault.rank, deed_of(fault), when, phase);
}

}  // namespace cohort
