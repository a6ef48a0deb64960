#include "base/error.hpp"

#include <cstring>

namespace cohort {

std::string_view meaning_of(ExitCode code) {
  switch (code) {
    case ExitCode::success:
      return "success";
    case ExitCode::internal:
      return "a bug in Cohort, or a GPU that failed";
    case ExitCode::usage:
      return "the command line is wrong";
    case ExitCode::config:
      return "the run file is wrong, or sizes in it do not fit each other";
    case ExitCode::launch:
      return "the launch: MPI, SLURM, GPUs, an unfit node (cohort preflight), or another job in the run folder";
    case ExitCode::data:
      return "data: a token file or a text is damaged, was changed, or is not what the run needs";
    case ExitCode::checkpoint:
      return "a checkpoint is missing, damaged or of another model";
    case ExitCode::io:
      return "a file (also a token file that is missing) or standard output cannot be read or written";
    case ExitCode::training:
      return "training failed: a loss or a model's output is not finite";
    case ExitCode::interrupted:
      return "stopped by a signal; saved if a step was done: start it again with --resume-if-any";
    case ExitCode::memory:
      return "out of memory, of the device or of the host";
    case ExitCode::unequal:
      return "a difference was found by cohort prove, cohort plan --measure or cohort ckpt diff; an exercise of cohort lab check "
             "is not right";
    case ExitCode::lost:
      return "a rank was lost or stuck, and the job was ended: ask cohort doctor RUN";
    case ExitCode::stopped:
      return "stopped by the file RUN/stop, after saving: not to be requeued";
  }
  return "";
}

void fail_check(const char* expression, const char* file, int line, const std::string& message) {
  const char* in_tree = std::strstr(file, "src/");
  throw Error(ExitCode::internal,
              fmt::format("{} (check failed: {} at {}:{})", message, expression, in_tree ? in_tree : file, line));
}

}  // namespace cohort
