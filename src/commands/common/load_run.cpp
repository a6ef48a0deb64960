#include "commands/common/load_run.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "comm/consensus.hpp"
#include "config/fp8_rules.hpp"
#include "config/run_file.hpp"
#include "config/schema.hpp"
#include "config/validate.hpp"
#include "gpu/device.hpp"
#include "runtime/affinity.hpp"
#include "runtime/device_choice.hpp"
#include "runtime/failure_exit.hpp"
#include "train/check_optimizer.hpp"
#include "train/precision.hpp"
#include "train/proof.hpp"

namespace cohort {
namespace {

// From now on the job is watched as its run file says, whatever takes long from here on.
void watch_as_told(Runtime& runtime, const RunConfig& config) { runtime.monitor().set_timeout(config.watch.timeout); }

// Ranks of one job with different run files would wait for each other for ever.
void require_the_same(Communicator& world, const std::string& path, const RunConfig& config) {
  std::string values;
  for (const KeySpec& key : all_keys()) values += fmt::format("{} = {}\n", key.full_name(), value_as_toml(key, config));
  const std::string difference = difference_between_ranks(world, values);
  if (difference.empty()) return;
  throw SharedError(ExitCode::config,
                    fmt::format("{}: the run file differs between ranks: {}; give all nodes the same file", path, difference));
}

// What a run file can ask for here; GPUs are looked for only if it leaves the device open, and rank 0 says how that is decided:
// but for `expected` GPUs that are there. Collective over: world
BuildFeatures features_for(Runtime& runtime, Communicator& world, const DeviceSection& device, bool expected = false) {
  BuildFeatures features{.cuda = gpu::built()};
  if (device.kind != "auto") return features;
  const std::string reason = why_no_gpus(runtime.host(), runtime.local_rank(), device.share);
  features.gpus = reason.empty();
  if (world.rank() == 0 && !(features.gpus && expected)) {
    print_error_line(features.gpus ? "device.kind = \"auto\": GPUs, one for each rank"
                                   : fmt::format("device.kind = \"auto\": the CPU, since {}", reason));
  }
  return features;
}

// Collective over: world
RunConfig read_run(Runtime& runtime, Communicator& world, const std::string& path, const std::vector<std::string>& overrides) {
  RunConfig config;
  fail_together(world, "reading the run file", [&] {
    config = load_run_file(path, overrides);
    watch_as_told(runtime, config);
  });
  require_the_same(world, path, config);
  return config;
}

void check_gpu_multiplies(Communicator& world, const RunConfig& config) {
  if (config.precision.policy == "fp8")
    check_gpus_have_fp8(world, "precision.policy = \"fp8\"", "set precision.policy = \"bf16\"");
}

}  // namespace

// The lowest decides, so that all ranks say the same.
void check_gpus_have_fp8(Communicator& world, const std::string& what, const std::string& instead) {
  const Count lowest = -all_reduce_value(world, -static_cast<Count>(gpu::facts().compute_capability), ReduceOp::max);
  const std::string why = why_without_fp8(lowest);
  if (!why.empty()) throw SharedError(ExitCode::config, fmt::format("{} {}; {}", what, why, instead));
}

RunConfig load_run(Runtime& runtime, Communicator& world, const std::string& path, const std::vector<std::string>& overrides,
                   Count world_size, bool any_device) {
  RunConfig config = read_run(runtime, world, path, overrides);
  BuildFeatures features = features_for(runtime, world, config.device);
  features.cuda = features.cuda || any_device;
  fail_together(world, "reading the run file", [&] {
    validate(config, world_size, features);
    check_optimizer(config);
  });
  return config;
}

RunConfig load_run_without_layout(Runtime& runtime, Communicator& world, const std::string& path,
                                  const std::vector<std::string>& overrides) {
  RunConfig config = read_run(runtime, world, path, overrides);
  if (config.device.kind == "auto")
    config.device.kind = features_for(runtime, world, config.device).gpus ? "cuda" : "cpu";  // of every layout to come
  fail_together(world, "reading the run file", [&] {
    TrainSection& train = config.train;
    if (train.global_batch == 0) train.global_batch = train.micro_batch * std::max<Count>(1, train.accumulation) * world.size();
    config = reference_config(config);
    check_optimizer(config);
  });
  return config;
}

RunConfig run_of_checkpoint(Runtime& runtime, Communicator& world, const std::string& run_file,
                            std::vector<std::string> overrides, const CheckpointUse& use) {
  overrides.insert(overrides.begin(), {"train.global_batch=0", "train.accumulation=1"});
  if (!use.tokens.empty())
    overrides.insert(overrides.end(), {"unset data.sources", "unset data.stages", "data.tokens=" + use.tokens});
  RunConfig config;
  bool trained_on_gpus = false;
  fail_together(world, "reading the checkpoint's run file", [&] {
    for (const std::string& key : overrides) {
      if (key.starts_with("parallel."))
        fail(ExitCode::usage, "--set {}: a checkpoint is used in the layout that --layout names, as in --layout tp=2", key);
      if (key == "precision.policy=fp8") fail(ExitCode::usage, "--set {}: only training multiplies in 8 bits; choose bf16", key);
    }
    config = parse_saved_run_file(run_file, "the checkpoint's run file", overrides);
    watch_as_told(runtime, config);
    config.parallel = {};
    std::erase_if(config.origins, [](const auto& origin) { return origin.first.starts_with("parallel."); });
    if (config.precision.policy == "fp8") config.precision.policy = "bf16";  // the same weights, on any device
    trained_on_gpus = config.device.kind == "cuda";
    if (trained_on_gpus) config.device.kind = "auto";
    if (!use.reads_data && config.data.sources.empty() && config.data.tokens.empty())
      config.data.tokens = "TOKENS.h5";  // a name to be valid, and to be asked for
  });
  const BuildFeatures features = features_for(runtime, world, config.device, trained_on_gpus);
  fail_together(world, "reading the checkpoint's run file", [&] {
    if (use.layout.empty()) return validate(config, world.size(), features);
    if (config.device.kind == "auto") config.device.kind = features.gpus ? "cuda" : "cpu";
    const Layout layout = layout_from_words(config, use.layout, world.size());
    if (layout.ranks != world.size())
      fail(ExitCode::usage, "layout '{}' is one of {} ranks, but the job has {}", use.layout, layout.ranks, world.size());
    config = layout.config;
  });
  return config;
}

void set_up_job(Runtime& runtime, Communicator& world, const RunConfig& config) {
  if (config.watch.check_collectives) world.check_collectives();
  runtime.open_device(device_of(config), config.device.share);
  check_gpu_multiplies(world, config);
  const Count cores = -all_reduce_value(world, -static_cast<Count>(allowed_cores().size()), ReduceOp::max);
  if (config.device.threads > cores && world.rank() == 0) {
    print_error_line(
        fmt::format("warning: device.threads = {}, but {} may run on {} core{}: more threads than cores slow each other down",
                    config.device.threads, world.size() > 1 ? "a rank" : "this process", cores, cores == 1 ? "" : "s"));
  }
}

}  // namespace cohort
