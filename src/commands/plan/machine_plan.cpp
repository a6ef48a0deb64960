#include "commands/plan/machine_plan.hpp"

#include "config/model_rules.hpp"
#include "models/model.hpp"
#include "telemetry/device_peaks.hpp"

namespace cohort {
namespace {

constexpr double kSecondsOfHour = 3600.0;

std::optional<double> mfu_of(const MachinePlan& plan, const std::string& gpu) {
  const Datasheet* const sheet = gpu.empty() ? datasheet_of_device(plan.machine.profile.name) : datasheet_named(gpu);
  const auto peak = sheet == nullptr ? std::nullopt : sheet->flops(utilisation_policy(plan.reference.precision.policy));
  if (!peak) return std::nullopt;
  const double flops = declare_model(plan.reference.model)->flops_per_token(plan.reference.model.context);
  return flops * plan.tokens_per_second() / plan.ranks / *peak;
}

}  // namespace

double MachinePlan::tokens_of_step() const {
  return static_cast<double>(best().layout.config.train.global_batch * units_per_sample(reference.model));
}

double MachinePlan::days() const { return tokens / tokens_per_second() / goodput.share / kSecondsOfHour / 24.0; }

MachinePlan make_machine_plan(const PlanRunOptions& options) {
  MachinePlan plan;
  const RunConfig run = read_plan_file(options);
  plan.machine = machine_of_plan(options, run);
  plan.reference = reference_of_plan(options, plan.machine.profile.device);
  check_can_be_timed(plan.reference, plan.machine.profile);
  plan.ranks = ranks_of_machine(options, run);
  plan.parameters = count_parameters(plan.reference.model);
  plan.found = suggest_layouts(plan.reference, plan.ranks, plan.machine);
  check_some_fit(plan.found, plan.ranks, plan.machine);
  plan.curve = scaling_curve(plan.reference, plan.best(), plan.machine);
  plan.failures = {kSecondsOfHour * options.failure_hours, options.checkpoint_seconds, options.restart_seconds};
  plan.goodput = best_goodput(plan.ranks, plan.failures);
  plan.tokens = options.tokens > 0.0 ? options.tokens : plan.tokens_of_step() * static_cast<double>(plan.reference.train.steps);
  plan.price = options.price;
  plan.mfu = mfu_of(plan, options.gpu);
  return plan;
}

}  // namespace cohort
