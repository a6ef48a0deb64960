#include "config/offload.hpp"

#include "base/error.hpp"
#include "config/optimizer_rules.hpp"

namespace cohort {

void check_offload(const RunConfig& config, const std::string& where) {
  const ParallelSection& parallel = config.parallel;
  if (parallel.offload == "none") return;
  for (const OptimizerRules* rules : optimizers_at_work(config.optimizer)) {
    if (!rules->whole_matrices) continue;
    fail(ExitCode::config,
         "{}parallel.offload = \"{}\" updates weights in blocks as they stream past, but optimizer {} needs whole matrices; set "
         "parallel.offload = \"none\", or use another optimizer",
         where, parallel.offload, rules->kind);
  }
  const bool parameters = parallel.offload == "parameters";
  if (parameters && parallel.data != "zero3") {
    fail(ExitCode::config,
         "{}parallel.offload = \"parameters\" with parallel.data = \"{}\": its layers read whole weights, which must be on the "
         "device; set parallel.data = \"zero3\", or parallel.offload = \"optimizer\"",
         where, parallel.data);
  }
  if (config.device.kind == "cuda") return;
  if (parameters) {
    fail(ExitCode::config,
         "{}parallel.offload = \"parameters\" moves weights to host memory, where those of device.kind = \"cpu\" are already; "
         "set parallel.offload = \"optimizer\" with a parallel.offload_directory, or device.kind = \"cuda\"",
         where);
  }
  if (parallel.offload_directory.empty()) {
    fail(ExitCode::config,
         "{}parallel.offload = \"optimizer\" moves optimizer state to host memory, where that of device.kind = \"cpu\" is "
         "already; set parallel.offload_directory to keep it on a disk, or parallel.offload = \"none\"",
         where);
  }
}

}  // namespace cohort
