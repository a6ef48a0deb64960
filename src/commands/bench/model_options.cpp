#include "commands/bench/model_options.hpp"

#include <string>
#include <vector>

#include "commands/bench/kernels_shapes.hpp"
#include "commands/common/numbers.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "gpu/device.hpp"
#include "models/family.hpp"

namespace cohort {
namespace {

std::vector<std::string> decoder_kinds() {
  std::vector<std::string> kinds;
  for (const ModelFamily* family : all_model_families()) {
    if (family->decoder != nullptr) kinds.push_back(family->rules.kind);
  }
  return kinds;
}

}  // namespace

void add_model_options(CLI::App& command, RunConfig& c) {
  command
      .add_option("--shape", "Predefined model: sets model, layers, width, heads, context, vocabulary; other options override it")
      ->type_name("NAME")
      ->check(CLI::IsMember(known_models()))
      ->each([&c](const std::string& name) { c.model = known_models().at(name); })
      ->trigger_on_parse();
  command.add_option("--device", c.device.kind, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}))->capture_default_str();
  command.add_option("--kernels", c.device.kernels, "tuned, or portable: only the Kokkos kernels")
      ->check(CLI::IsMember({"tuned", "portable"}))
      ->capture_default_str();
  command.add_option("--gemm-tuning", c.device.gemm_tuning, "cuda: file of tuned matrix products, created if missing")
      ->type_name("FILE");
  command.add_option("--model", c.model.kind, "Family")->check(CLI::IsMember(decoder_kinds()))->capture_default_str();
  command.add_option("--layers", c.model.layers, "Blocks")->check(integer_from(1))->capture_default_str();
  command.add_option("--width", c.model.width, "Model width")->check(integer_from(1))->capture_default_str();
  command.add_option("--heads", c.model.heads, "Query heads")->check(integer_from(1))->capture_default_str();
  command.add_option("--context", c.model.context, "Tokens per sample")->check(integer_from(1))->capture_default_str();
  command.add_option("--vocabulary", c.model.vocabulary, "Vocabulary size")->check(integer_from(1))->capture_default_str();
  command.add_option("--micro-batch", c.train.micro_batch, "Samples per forward and backward pass on one rank")
      ->check(integer_from(1))
      ->capture_default_str();
  command.add_option("--accumulation", c.train.accumulation, "Micro-batches per step")->check(integer_from(1));
  command.add_option("--bucket-mib", c.parallel.bucket_mib, "Bucket size of the strategy bucketed")
      ->check(number_above(0.0, 1e6))
      ->capture_default_str();
  command.add_option("--threads", c.device.threads, "Threads per rank")->check(integer_from(1))->capture_default_str();
}

void settle_bench_config(RunConfig& config, const std::vector<std::string>& overrides, int ranks) {
  for (const std::string& assignment : overrides) apply_override(config, assignment);
  config.data.tokens = "random";  // no file is read; validate() wants a name
  validate(config, ranks, {.cuda = gpu::built()});
}

}  // namespace cohort
