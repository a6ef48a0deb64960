// `cohort bench generate`: how fast text is generated, beside what the memory allows. A token reads all weights, so at batch 1
// its time is at least that of reading them and the cache.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "checkpoint/load/collective.hpp"
#include "commands/bench/bench.hpp"
#include "commands/bench/kernels_shapes.hpp"
#include "commands/common/load_run.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/override_options.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "gpu/device.hpp"
#include "models/family.hpp"
#include "observe/clock.hpp"
#include "ops/adamw.hpp"
#include "ops/gemm.hpp"
#include "runtime/runtime.hpp"
#include "train/cached_passes.hpp"
#include "train/model_on_mesh.hpp"
#include "train/precision.hpp"
#include "train/sampling.hpp"

namespace cohort {
namespace {

struct BenchGenerateOptions {
  std::string shape = "gpt2-124m";
  std::string checkpoint;  // its model instead of the shape
  std::vector<std::string> overrides;
  Count prompt = 128;
  Count tokens = 64;
  Count batch = 1;
  bool json = false;
};

struct Rates {
  double prompt_seconds = 0.0;             // of the prompt's pass
  std::vector<double> token_seconds;       // of each pass over one more token of each text
  std::vector<std::int32_t> prompt, text;  // of the first text
};

double median_seconds(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Bytes a second that one process moves, by the better of a copy, which reads and writes, and a sum, which reads: the best of
// several, on memory that no cache holds.
double memory_bandwidth(const ops::Exec& exec) {
  constexpr Count kElements = Count{1} << 26;
  constexpr int kRepeats = 5;
  const Tensor from = Tensor::zeros("bench.from", {kElements}, DType::f32, exec.device);
  const Tensor to = Tensor::zeros("bench.to", {kElements}, DType::f32, exec.device);
  const Tensor sum = Tensor::zeros("bench.sum", {1}, DType::f64, exec.device);
  double best = 0.0;
  const auto time = [&](Bytes bytes, const auto& move) {
    const double begin = steady_seconds();
    move();
    to.slice(0, 1).to_host();
    sum.to_host();  // a GPU is done
    best = std::max(best, static_cast<double>(bytes) / (steady_seconds() - begin));
  };
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    time(2 * from.bytes(), [&] { to.copy_from(from); });
    time(from.bytes(), [&] { ops::sum_of_squares(exec, sum, from); });
  }
  return best;
}

// Of the weights that a pass over one token reads: all but the tables of the embedding, of which it reads a row each.
Bytes weight_bytes_per_token(const Model& model) {
  Bytes bytes = 0;
  for (std::size_t unit = 1; unit < model.units().size(); ++unit) {
    for (const Parameter* parameter : model.units()[unit].parameters)
      bytes += parameter->elements() * size_of(model.storage().compute);
  }
  return bytes;
}

std::int32_t likeliest(std::span<const float> logits) { return draw_token(logits, {.temperature = 0.0}, 0.0); }

// The same prompt for each text, and the likeliest tokens: what they say has no part in the time.
Rates measure_generation(CachedPasses& passes, const BenchGenerateOptions& options, Count vocabulary) {
  Rates rates;
  const CounterRandom random(1, RandomPurpose::test);
  for (Count i = 0; i < options.prompt; ++i)
    rates.prompt.push_back(
        static_cast<std::int32_t>(random.u32(static_cast<std::uint64_t>(i)) % static_cast<std::uint32_t>(vocabulary)));
  std::vector<double> prompt_seconds;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const double begin = steady_seconds();
    const std::int32_t token = likeliest(passes.run_prompt(0, rates.prompt));
    prompt_seconds.push_back(steady_seconds() - begin);
    rates.text = {token};
  }
  rates.prompt_seconds = median_seconds(prompt_seconds);
  for (Count slot = 1; slot < options.batch; ++slot) passes.copy_slot(slot, 0);
  while (static_cast<Count>(rates.text.size()) < options.tokens) {
    std::vector<CachedPasses::Row> rows;
    for (Count slot = 0; slot < options.batch; ++slot)
      rows.push_back({slot, options.prompt + static_cast<Count>(rates.text.size()) - 1, rates.text.back()});
    const double begin = steady_seconds();
    const std::span<const float> logits = passes.run_tokens(rows);
    rates.text.push_back(likeliest(logits.first(static_cast<std::size_t>(vocabulary))));
    rates.token_seconds.push_back(steady_seconds() - begin);
  }
  return rates;
}

// The model's run on the one rank, of a shape or of a checkpoint.
RunConfig config_of_bench(Runtime& runtime, Communicator& world, const BenchGenerateOptions& options) {
  if (!options.checkpoint.empty()) {
    const TrainingState state = read_training_state_collectively(world, options.checkpoint);
    return run_of_checkpoint(runtime, world, state.run_file, options.overrides);
  }
  RunConfig config;
  config.model = known_models().at(options.shape);
  for (const std::string& assignment : options.overrides) apply_override(config, assignment);
  config.data.tokens = "random";  // no file is read; validate() wants a name
  validate(config, world.size(), {.cuda = gpu::built()});
  return config;
}

void print_generation(const nlohmann::ordered_json& r) {
  const auto number = [&](const char* key) { return r.at(key).get<double>(); };
  Table table({"", ""});
  table.add({"model", fmt::format("{}, {} parameters", r.at("model").get<std::string>(), human_count(number("parameters")))});
  table.add({"device", fmt::format("{}, {}, {}", r.at("device").get<std::string>(), r.at("precision").get<std::string>(),
                                   counted(r.at("threads").get<Count>(), "thread"))});
  table.add({"prompt", fmt::format("{} tokens in {:.1f} ms: {:.0f} tokens/s", r.at("prompt_tokens").get<Count>(),
                                   1e3 * number("prompt_seconds"), number("prompt_tokens_per_second"))});
  table.add({"new tokens",
             fmt::format("{:.2f} ms (median of {}, best {:.2f}), {} at once: {:.1f} tokens/s", 1e3 * number("token_seconds"),
                         r.at("new_tokens").get<Count>() - 1, 1e3 * number("token_seconds_best"),
                         counted(r.at("batch").get<Count>(), "text"), number("tokens_per_second"))});
  table.add({"read for each", fmt::format("{} of weights, {} of the cache", human_bytes(r.at("weight_bytes").get<Bytes>()),
                                          human_bytes(r.at("cache_bytes").get<Bytes>()))});
  table.add({"memory", fmt::format("{:.1f} GB/s, measured now", 1e-9 * number("memory_bytes_per_second"))});
  table.add({"share of its bound",
             fmt::format("{:.0f} % by the median, {:.0f} % by the best", 100.0 * number("share_of_bound"),
                         100.0 * number("share_of_bound") * number("token_seconds") / number("token_seconds_best"))});
  fmt::print("{}", table.str(2));
}

int bench_generate(const BenchGenerateOptions& options) {
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  if (world->size() > 1) throw SharedError(ExitCode::usage, "cohort bench generate runs on one rank: start it without mpirun");
  const RunConfig config = config_of_bench(runtime, *world, options);
  if (config.model.context < options.prompt + options.tokens) {
    fail(ExitCode::usage, "--prompt {} and --tokens {} do not fit into the model's context of {}", options.prompt, options.tokens,
         config.model.context);
  }
  set_up_job(runtime, *world, config);
  ops::set_gemm_threads(static_cast<int>(config.device.threads));
  ModelOnMesh model(config, *world);
  if (!options.checkpoint.empty()) model.load(options.checkpoint);
  Hooks none;
  CachedPasses passes(model.predictor(), options.batch, options.prompt + options.tokens, exec_of(config).kernels, none);
  double bandwidth = memory_bandwidth(exec_of(config));
  const Rates rates = measure_generation(passes, options, config.model.vocabulary);
  bandwidth = std::max(bandwidth, memory_bandwidth(exec_of(config)));

  const double token_seconds = median_seconds(rates.token_seconds);
  const Bytes weight_bytes = weight_bytes_per_token(model.model());
  const Bytes cache_bytes = options.batch * (options.prompt + options.tokens / 2) * passes.cache_bytes_per_token();
  const nlohmann::ordered_json result{
      {"model", config.model.kind},
      {"parameters", count_parameters(config.model)},
      {"device", runtime.device()},
      {"precision", config.precision.policy},
      {"threads", config.device.threads},
      {"prompt_tokens", options.prompt},
      {"prompt_seconds", rates.prompt_seconds},
      {"prompt_tokens_per_second", static_cast<double>(options.prompt) / rates.prompt_seconds},
      {"batch", options.batch},
      {"new_tokens", options.tokens},
      {"token_seconds", token_seconds},
      {"token_seconds_best", *std::min_element(rates.token_seconds.begin(), rates.token_seconds.end())},
      {"tokens_per_second", static_cast<double>(options.batch) / token_seconds},
      {"weight_bytes", weight_bytes},
      {"cache_bytes", cache_bytes},
      {"memory_bytes_per_second", bandwidth},
      {"share_of_bound", static_cast<double>(weight_bytes + cache_bytes) / bandwidth / token_seconds},
      {"prompt", rates.prompt},
      {"tokens", rates.text}};
  if (options.json) {
    fmt::print("{}\n", result.dump());
  } else {
    print_generation(result);
  }
  return 0;
}

}  // namespace

void add_bench_generate(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand("generate", "Time the generation of text, as a share of what the memory allows");
  command->footer(
      "Examples:\n"
      "  cohort bench generate                                          GPT-2 124M in fp32 on one core\n"
      "  cohort bench generate --set precision.policy=bf16              half of the bytes\n"
      "  cohort bench generate --batch 8 --prompt 64 --tokens 16        the weights are read once for 8 texts\n"
      "  cohort bench generate --set device.kind=cuda --set precision.policy=bf16");
  const auto options = std::make_shared<BenchGenerateOptions>();
  command->add_option("--shape", options->shape, "Predefined model, with random weights")
      ->type_name("NAME")
      ->check(CLI::IsMember(known_models()))
      ->capture_default_str();
  command->add_option("--checkpoint", options->checkpoint, "A checkpoint or a run folder: its model instead");
  command->add_option("--prompt", options->prompt, "Tokens of the prompt")->check(integer_from(1))->capture_default_str();
  command->add_option("--tokens", options->tokens, "Tokens to generate")->check(integer_from(2))->capture_default_str();
  command->add_option("--batch", options->batch, "Texts side by side")->check(integer_from(1, 65'536))->capture_default_str();
  add_override_options(*command, options->overrides);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([&action, options] { action = [options] { return bench_generate(*options); }; });
}

}  // namespace cohort
