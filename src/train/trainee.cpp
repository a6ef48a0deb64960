#include "train/trainee.hpp"

#include <algorithm>
#include <cmath>

#include "ops/cross_entropy.hpp"
#include "ops/gemm.hpp"
#include "optim/clip.hpp"
#include "optim/schedule.hpp"

namespace cohort {
namespace {

double mean_loss(double loss_sum, std::span<const ModelInput> micro_batches) {
  Count valid = 0;
  for (const ModelInput& input : micro_batches) {
    valid += std::count_if(input.targets.begin(), input.targets.end(),
                           [](std::int32_t target) { return target != ops::kIgnoredTarget; });
  }
  return valid > 0 ? loss_sum / static_cast<double>(valid) : 0.0;
}

}  // namespace

Trainee::Trainee(const RunConfig& config, const Mesh& mesh)
    : config_(config), group_(mesh.gradient()), model_(make_model(config.model, config.run.seed)) {
  ops::set_gemm_threads(static_cast<int>(config.device.threads));
  optimizer_ = std::make_unique<AdamW>(model_->parameters(), config.optimizer);
  strategy_ = make_data_parallel(config.parallel, config.model, config.run.seed, *model_, group_);
}

StepResult Trainee::step(Count step, std::span<const ModelInput> micro_batches, Count global_valid_targets, StepTimers& timers) {
  StepResult result;
  result.valid_targets = global_valid_targets;
  const double inverse = global_valid_targets > 0 ? 1.0 / static_cast<double>(global_valid_targets) : 0.0;
  const StepContext context{.exec = exec_,
                            .activations = &activations_,
                            .training = true,
                            .seed = config_.run.seed,
                            .step = static_cast<std::uint32_t>(step)};
  const double own_loss = strategy_->accumulate_gradients(context, micro_batches, static_cast<float>(inverse), timers);
  result.own_loss = mean_loss(own_loss, micro_batches);
  {
    const auto scope = timers.scope(Phase::communication);
    result.loss = all_reduce_value(group_, own_loss, ReduceOp::sum) * inverse;
  }
  const auto scope = timers.scope(Phase::optimizer);
  result.gradient_norm = gradient_norm(exec_, model_->parameters());
  result.learning_rate = learning_rate(config_.schedule, config_.optimizer.learning_rate, step);
  if (!std::isfinite(result.loss) || !std::isfinite(result.gradient_norm)) {
    throw SharedError(
        ExitCode::training,
        fmt::format(
            "step {}: loss {}, gradient norm {}, learning rate {:.3g}: training has diverged; lower optimizer.learning_rate, "
            "lengthen schedule.warmup_steps or lower train.clip_norm, and go on from the last checkpoint with --resume",
            step + 1, result.loss, result.gradient_norm, result.learning_rate));
  }
  optimizer_->step(exec_, result.learning_rate, clip_factor(result.gradient_norm, config_.train.clip_norm), step);
  strategy_->weights_changed();
  return result;
}

}  // namespace cohort
