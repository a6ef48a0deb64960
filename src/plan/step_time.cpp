#include "plan/step_time.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "config/pipeline.hpp"
#include "mesh/mesh_shape.hpp"
#include "parallel/pipeline/stages.hpp"
#include "train/precision.hpp"

namespace cohort {
namespace {

// The step of one rank without its pipeline: that of the longer run, and as often as it is due what it has more than the shorter.
StepTime without_pipeline(const RunConfig& config, const CountedStep& counted, const MachineProfile& profile,
                          int ranks_per_node) {
  const TapedStep& longer = counted.runs.back();
  const Replay all = replay(longer.tape, profile, ranks_per_node);
  StepTime time{all.split.total(), all.split, all.communication, all.host_copies};
  if (counted.runs.size() == 1) return time;
  const TapedStep& shorter = counted.runs.front();
  const Replay less = replay(shorter.tape, profile, ranks_per_node);
  const double times = static_cast<double>(config.train.accumulation - longer.micro_batches) /
                       static_cast<double>(longer.micro_batches - shorter.micro_batches);
  time.split = all.split.plus(all.split.plus(less.split, -1.0), times);
  time.communication += times * (all.communication - less.communication);
  time.host_copies += times * (all.host_copies - less.host_copies);
  time.seconds = time.split.total();
  return time;
}

// What a stage does before its first pass, in each pass, and after its last.
struct StageTimes {
  double before = 0.0, after = 0.0;
  std::vector<double> forward, backward;  // by chunk, of one micro-batch
};

// The passes of the last micro-batch also start reductions, and wait behind them: what they take longer than the others counts as
// what comes after the last pass.
StageTimes times_of_stage(const TapedStep& run, const Replay& played, int chunks) {
  const auto clock = [&](double place) { return played.clock.at(static_cast<std::size_t>(place)); };
  const auto is_last = [&](const pipeline::Event& pass) {
    return run.micro_batches > 1 && pass.action.micro_batch + 1 == run.micro_batches;
  };
  StageTimes times{.before = clock(run.passes.front().start),
                   .after = played.clock.back() - clock(run.passes.back().end),
                   .forward = std::vector<double>(static_cast<std::size_t>(chunks)),
                   .backward = std::vector<double>(static_cast<std::size_t>(chunks))};
  const auto of = [&](const pipeline::Event& pass) -> double& {
    auto& passes = pass.action.pass == pipeline::Pass::forward ? times.forward : times.backward;
    return passes[static_cast<std::size_t>(pass.action.chunk)];
  };
  const auto others = static_cast<double>(std::max<Count>(1, run.micro_batches - 1));
  for (const pipeline::Event& pass : run.passes) {
    if (!is_last(pass)) of(pass) += (clock(pass.end) - clock(pass.start)) / others;
  }
  for (const pipeline::Event& pass : run.passes) {
    if (is_last(pass)) times.after += std::max(0.0, clock(pass.end) - clock(pass.start) - of(pass));
  }
  return times;
}

// Of one message between neighbouring stages.
double transfer_seconds(const RunConfig& config, const CountedStep& counted, const MachineProfile& profile, int ranks_per_node) {
  const MeshShape shape(config.parallel.dp, config.parallel.pp, config.parallel.cp, config.parallel.tp);
  const std::vector<int> stages = shape.group_of(0, {Axis::pp}).ranks;
  const GroupSpan span = span_of({stages[0], stages[1]}, ranks_per_node);
  for (const WorkEntry& entry : counted.runs.back().tape.entries()) {
    const auto* const start = std::get_if<CollectiveStart>(&entry);
    if (start != nullptr && start->group == name_of(Axis::pp) && start->operation == "recv")
      return profile.seconds_of("recv", span, start->bytes);
  }
  return 0.0;
}

StepTime with_pipeline(const RunConfig& config, const std::vector<CountedStep>& stages, const MachineProfile& profile,
                       int ranks_per_node) {
  const pipeline::Schedule schedule = schedule_of(config.parallel, config.train.accumulation);
  std::map<int, StageTimes> counted;  // by stage
  StepTime time;
  double transfer = 0.0;
  for (const CountedStep& stage : stages) {
    if (counted.contains(stage.stage)) continue;
    const TapedStep& run = stage.runs.back();
    counted[stage.stage] = times_of_stage(run, replay(run.tape, profile, ranks_per_node), schedule.chunks);
    transfer = std::max(transfer, transfer_seconds(config, stage, profile, ranks_per_node));
    const StepTime alone = without_pipeline(config, stage, profile, ranks_per_node);
    if (alone.seconds > time.split.total()) time = alone;
  }
  const std::vector<int> like = pipeline::like_ranks(config.model, schedule);
  const auto virtual_stages = static_cast<std::size_t>(schedule.virtual_stages());
  pipeline::Costs costs{std::vector<double>(virtual_stages), std::vector<double>(virtual_stages), transfer};
  for (int rank = 0; rank < schedule.stages; ++rank) {
    const StageTimes& own = counted.at(like[static_cast<std::size_t>(rank)]);
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      const auto stage = static_cast<std::size_t>(schedule.virtual_stage({rank, chunk}));
      costs.forward[stage] = own.forward[static_cast<std::size_t>(chunk)];
      costs.backward[stage] = own.backward[static_cast<std::size_t>(chunk)];
    }
  }
  for (const pipeline::Event& event : pipeline::simulate(schedule, costs)) {
    const StageTimes& own = counted.at(like[static_cast<std::size_t>(event.rank)]);
    time.seconds = std::max(time.seconds, own.before + event.end + own.after);
  }
  time.split.bubble = time.seconds - time.split.total();
  return time;
}

}  // namespace

void check_can_be_timed(const RunConfig& config, const MachineProfile& profile) {
  if (config.parallel.offload != "none")
    fail(ExitCode::config, "parallel.offload = \"{}\": the time of copies to the host is not planned", config.parallel.offload);
  if (config.model.activation_offload && profile.host_bytes_per_second == 0.0)
    fail(ExitCode::config,
         "model.activation_offload = true: the profile of {} has no speed of copies to the host; measure it again with cohort "
         "bench calibration",
         profile.name);
  const bool fp8 = exec_of(config).fp8;
  if (fp8 && profile.ops.empty() && !profile.covers(DType::u8, false))
    fail(ExitCode::config, "precision.policy = \"fp8\": the {} has no products in 8 bits", profile.name);
  if (profile.covers(storage_of(config).compute, exec_of(config).tf32) && (!fp8 || profile.covers(DType::u8, false))) return;
  fail(ExitCode::config,
       "the profile of {} has no measurements of precision.policy = \"{}\": measure them with cohort bench calibration "
       "--precision {}",
       profile.name, config.precision.policy, fp8 ? "bf16,fp8" : config.precision.policy);
}

StepTime predict_step_time(const RunConfig& config, const std::vector<CountedStep>& stages, const MachineProfile& profile,
                           int ranks_per_node) {
  check_can_be_timed(config, profile);
  if (config.parallel.pp > 1) return with_pipeline(config, stages, profile, ranks_per_node);
  StepTime slowest;
  for (const CountedStep& rank : stages) {
    const StepTime time = without_pipeline(config, rank, profile, ranks_per_node);
    if (time.seconds > slowest.seconds) slowest = time;
  }
  return slowest;
}

}  // namespace cohort
