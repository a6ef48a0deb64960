#include "commands/load_run.hpp"

#include "base/error.hpp"
#include "comm/agreement.hpp"
#include "config/describe.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "gpu/device.hpp"

namespace cohort {

RunConfig load_run(Communicator& world, const std::string& path, const std::vector<std::string>& overrides, Count world_size) {
  RunConfig config;
  agree(world, "reading the run file", [&] {
    config = load_run_file(path, overrides);
    validate(config, world_size, {.cuda = gpu::built()});
  });
  // Ranks of one job with different run files would wait for each other for ever.
  if (!same_on_all_ranks(world, to_toml(config))) {
    throw SharedError(ExitCode::config,
                      fmt::format("{}: the run file differs between ranks; give all nodes the same file", path));
  }
  return config;
}

RunConfig run_of_checkpoint(Communicator& world, const std::string& run_file, std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), {"train.global_batch=0", "train.accumulation=1"});
  RunConfig config;
  agree(world, "reading the checkpoint's run file", [&] {
    config = parse_run_file(run_file, "the checkpoint's run file", overrides);
    config.parallel = {};
    std::erase_if(config.origins, [](const auto& origin) { return origin.first.starts_with("parallel."); });
    validate(config, world.size(), {.cuda = gpu::built()});
  });
  return config;
}

}  // namespace cohort
