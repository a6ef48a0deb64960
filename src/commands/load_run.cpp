#include "commands/load_run.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "comm/agreement.hpp"
#include "config/describe.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "gpu/device.hpp"
#include "train/precision.hpp"
#include "train/proof.hpp"

namespace cohort {

namespace {

// Ranks of one job with different run files would wait for each other for ever.
void require_the_same(Communicator& world, const std::string& path, const RunConfig& config) {
  if (same_on_all_ranks(world, to_toml(config))) return;
  throw SharedError(ExitCode::config, fmt::format("{}: the run file differs between ranks; give all nodes the same file", path));
}

}  // namespace

RunConfig load_run(Communicator& world, const std::string& path, const std::vector<std::string>& overrides, Count world_size) {
  RunConfig config;
  agree(world, "reading the run file", [&] {
    config = load_run_file(path, overrides);
    validate(config, world_size, {.cuda = gpu::built()});
  });
  require_the_same(world, path, config);
  return config;
}

RunConfig load_run_without_layout(Communicator& world, const std::string& path, const std::vector<std::string>& overrides) {
  RunConfig config;
  agree(world, "reading the run file", [&] {
    config = load_run_file(path, overrides);
    TrainSection& train = config.train;
    if (train.global_batch == 0) train.global_batch = train.micro_batch * std::max<Count>(1, train.accumulation) * world.size();
    config = reference_config(config);
  });
  require_the_same(world, path, config);
  return config;
}

RunConfig run_of_checkpoint(Communicator& world, const std::string& run_file, std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), {"train.global_batch=0", "train.accumulation=1"});
  RunConfig config;
  agree(world, "reading the checkpoint's run file", [&] {
    config = parse_saved_run_file(run_file, "the checkpoint's run file", overrides);
    config.parallel = {};
    std::erase_if(config.origins, [](const auto& origin) { return origin.first.starts_with("parallel."); });
    validate(config, world.size(), {.cuda = gpu::built()});
  });
  return config;
}

void set_up_job(Runtime& runtime, Communicator& world, const RunConfig& config) {
  runtime.monitor().set_timeout(config.watch.timeout);
  if (config.watch.check_collectives) world.check_collectives();
  runtime.open_device(device_of(config), config.device.share);
}

}  // namespace cohort
