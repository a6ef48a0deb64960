#include "config/validate.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/checkpointing.hpp"
#include "config/data_mixture.hpp"
#include "config/fp8_rules.hpp"
#include "config/lora_keys.hpp"
#include "config/model_rules.hpp"
#include "config/nearest.hpp"
#include "config/offload.hpp"
#include "config/optimizer_rules.hpp"
#include "config/pipeline.hpp"
#include "config/schema.hpp"
#include "config/tensor_parallel_rules.hpp"
#include "config/where_set.hpp"

namespace cohort {
namespace {

void check_run(RunConfig& config) {
  const std::string& name = config.run.name;
  const bool safe =
      !name.empty() && name.size() <= 100 && name.front() != '.' && name.front() != '-' &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
      });
  if (!safe) {
    fail(ExitCode::config,
         "{}run.name = {} cannot name a folder: use 1 to 100 letters, digits, '.', '_' and '-', and begin with a letter, digit "
         "or '_'",
         where_set(config, {"run.name"}), toml_string(name));
  }
  if (config.run.directory.empty()) config.run.directory = "runs/" + name;
}

void check_model(RunConfig& config) {
  const ModelRules& rules = rules_of(config.model);
  if (config.data.kind != rules.data) {
    fail(ExitCode::config, "{}model.kind = \"{}\" is trained on data.kind = \"{}\", but data.kind is \"{}\"",
         where_set(config, {"data.kind", "model.kind"}), rules.kind, rules.data, config.data.kind);
  }
  rules.resolve(config);
  if (config.model.checkpointed_layers > config.model.layers) {
    fail(ExitCode::config, "{}model.checkpointed_layers = {} of {}: set it to at most that, or to 0 for all",
         where_set(config, {"model.checkpointed_layers", "model.layers"}), config.model.checkpointed_layers,
         counted(config.model.layers, "layer"));
  }
  if (config.data.kind == "tokens") check_data_files(config);
}

void check_validation(const RunConfig& config) {
  const TrainSection& train = config.train;
  if (train.validation_questions == 0 || !train.validation_choices.empty()) return;
  fail(ExitCode::config,
       "{}train.validation_questions = {} has no effect without questions: name their file in train.validation_choices",
       where_set(config, {"train.validation_questions"}), train.validation_questions);
}

// FSDP's names for what is here under the names of ZeRO.
void translate_fsdp_names(RunConfig& config) {
  std::string& data = config.parallel.data;
  if (data == "HYBRID_SHARD" && config.parallel.shard_ranks == 0) {
    fail(ExitCode::config,
         "{}parallel.data = \"HYBRID_SHARD\" shards within a node and replicates across nodes: set parallel.shard_ranks to the "
         "number of ranks on a node",
         where_set(config, {"parallel.data"}));
  }
  if (data == "NO_SHARD") data = "bucketed";
  if (data == "SHARD_GRAD_OP") data = "zero2";
  if (data == "FULL_SHARD" || data == "HYBRID_SHARD") data = "zero3";
}

void check_sequence(const RunConfig& config) {
  const Count cp = config.parallel.cp;
  if (cp == 1) return;
  const std::string where = where_set(config, {"parallel.cp"});
  if (!rules_of(config.model).is_decoder())
    fail(ExitCode::config, "{}parallel.cp = {}: an {} has no sequence to divide; set it to 1", where, cp, config.model.kind);
  if (config.model.context % (2 * cp) != 0) {
    fail(ExitCode::config,
         "{}model.context = {} is not a multiple of 2 x parallel.cp = {}: each rank takes an early and a late chunk of the "
         "sequence; contexts that fit: {}; cp values that fit: {}",
         where, config.model.context, 2 * cp, nearest_multiples(config.model.context, 2 * cp),
         nearest_fits(cp, config.model.context / 2, [&](Count ranks) { return config.model.context % (2 * ranks) == 0; }));
  }
}

void check_shards(const RunConfig& config) {
  const ParallelSection& parallel = config.parallel;
  const Count replicas = parallel.dp * parallel.cp;
  const auto fits = [&](Count ranks) { return replicas % ranks == 0; };
  if (parallel.shard_ranks != 0 && !fits(parallel.shard_ranks)) {
    fail(ExitCode::config, "{}parallel.shard_ranks = {} does not divide dp {} x cp {} = {}; values that fit: {}",
         where_set(config, {"parallel.shard_ranks"}), parallel.shard_ranks, parallel.dp, parallel.cp, replicas,
         nearest_fits(parallel.shard_ranks, replicas, fits));
  }
}

void check_layout(RunConfig& config, Count world_size) {
  ParallelSection& parallel = config.parallel;
  const Count others = parallel.pp * parallel.cp * parallel.tp;
  if (parallel.dp == 0) parallel.dp = std::max<Count>(1, world_size / others);
  if (parallel.dp * others != world_size) {
    fail(ExitCode::config, "{}the layout dp {} x pp {} x cp {} x tp {} needs {}, but the job has {}; start {}, or {}",
         where_set(config, {"parallel.dp", "parallel.pp", "parallel.cp", "parallel.tp"}), parallel.dp, parallel.pp, parallel.cp,
         parallel.tp, counted(parallel.dp * others, "rank"), world_size, counted(parallel.dp * others, "rank"),
         world_size % others == 0 ? fmt::format("set parallel.dp = {} (or 0)", world_size / others)
                                  : fmt::format("choose pp, cp and tp whose product ({} now) divides {}", others, world_size));
  }
  if ((parallel.data == "monolith" || parallel.data == "manual") && world_size != 1) {
    fail(ExitCode::config,
         "{}parallel.data = \"{}\" runs on one rank, but the job has {}; start one rank, or choose naive, hooks, bucketed or "
         "zero1 to zero3",
         where_set(config, {"parallel.data"}), parallel.data, world_size);
  }
  if (parallel.data == "manual" && config.train.micro_batch % 2 != 0) {
    fail(ExitCode::config, "{}parallel.data = \"manual\" halves each micro-batch, but train.micro_batch = {} is odd; {} fits",
         where_set(config, {"train.micro_batch", "parallel.data"}), config.train.micro_batch, config.train.micro_batch + 1);
  }
}

void choose_bucket(RunConfig& config) {
  if (config.parallel.data != "bucketed") return;
  // A message must be long against its latency: MPI between processes of a node a few microseconds, and as many for each of the
  // kernels of NCCL, whose bandwidth is fifty times higher.
  if (config.parallel.bucket_mib == 0.0) config.parallel.bucket_mib = config.device.kind == "cuda" ? 128.0 : 4.0;
}

void check_batch(RunConfig& config) {
  TrainSection& train = config.train;
  const Count dp = config.parallel.dp;
  const Count once = train.micro_batch * dp;  // samples of one micro-batch over all ranks
  const std::string where = where_set(config, {"train.global_batch", "train.accumulation", "train.micro_batch"});
  if (train.accumulation == 0) {
    if (train.global_batch % once != 0) {
      fail(ExitCode::config,
           "{}train.global_batch = {} is not a multiple of train.micro_batch {} x dp {} = {}; global batches that fit: {}", where,
           train.global_batch, train.micro_batch, dp, once, nearest_multiples(train.global_batch, once));
    }
    train.accumulation = std::max<Count>(1, train.global_batch / once);
  }
  const Count product = once * train.accumulation;
  if (train.global_batch == 0) train.global_batch = product;
  if (train.global_batch != product) {
    fail(ExitCode::config,
         "{}train.global_batch = {}, but train.micro_batch {} x dp {} x train.accumulation {} = {}; set global_batch or "
         "accumulation to 0",
         where, train.global_batch, train.micro_batch, dp, train.accumulation, product);
  }
  if (config.data.kind == "two_moons" && config.data.samples < train.global_batch) {
    fail(ExitCode::config, "{}data.samples = {} are fewer than the {} of one step (train.global_batch); give at least as many",
         where_set(config, {"data.samples"}), config.data.samples, train.global_batch);
  }
}

void check_rate_scaling(const RunConfig& config) {
  if (config.optimizer.rate_scaling == "none" || config.optimizer.rate_batch > 0) return;
  fail(ExitCode::config,
       "{}optimizer.rate_scaling = \"{}\" needs the global batch that optimizer.learning_rate = {:g} is for: set "
       "optimizer.rate_batch",
       where_set(config, {"optimizer.rate_scaling"}), config.optimizer.rate_scaling, config.optimizer.learning_rate);
}

void check_stages(const RunConfig& config) {
  try {
    check_pipeline(config.model, config.parallel, config.train.accumulation);
  } catch (const Error& error) {
    const std::string where = where_set(config, {"parallel.chunks", "parallel.schedule", "parallel.pp"});
    const bool odd = config.train.accumulation % config.parallel.pp != 0;
    fail(error.code(), "{}{}{}", where, error.what(),
         odd ? fmt::format(" (the micro-batches of a step are train.accumulation = {})", config.train.accumulation) : "");
  }
}

void check_schedule(RunConfig& config) {
  ScheduleSection& schedule = config.schedule;
  if (schedule.warmup_steps >= config.train.steps) {
    fail(ExitCode::config, "{}schedule.warmup_steps = {} must be fewer than train.steps = {}",
         where_set(config, {"schedule.warmup_steps", "train.steps"}), schedule.warmup_steps, config.train.steps);
  }
  if (schedule.kind == "constant") return;
  if (schedule.decay_steps == 0) {
    schedule.decay_steps = config.train.steps;
    config.origins.erase("schedule.decay_steps");  // nobody chose that number
  }
  if (schedule.decay_steps <= schedule.warmup_steps) {
    fail(ExitCode::config, "{}schedule.decay_steps = {} must be more than schedule.warmup_steps = {}",
         where_set(config, {"schedule.decay_steps"}), schedule.decay_steps, schedule.warmup_steps);
  }
}

void check_device(const RunConfig& config, BuildFeatures features) {
  if (config.device.kind == "cuda" && !features.cuda) {
    fail(
        ExitCode::config,
        "{}device.kind = \"cuda\", but this cohort was built without CUDA; build the preset `cuda`, or set device.kind = \"cpu\"",
        where_set(config, {"device.kind"}));
  }
  if (config.device.kind == "cpu" && config.precision.policy == "tf32") {
    fail(ExitCode::config,
         "{}precision.policy = \"tf32\" is a mode of NVIDIA's matrix products; on a CPU choose fp32, bf16 or fp16",
         where_set(config, {"precision.policy", "device.kind"}));
  }
  if (config.device.kernels == "portable" && config.precision.policy == "tf32") {
    fail(ExitCode::config,
         "{}precision.policy = \"tf32\" is a mode of NVIDIA's matrix products, which device.kernels = \"portable\" leaves out; "
         "choose fp32, bf16 or fp16",
         where_set(config, {"device.kernels", "precision.policy"}));
  }
  if (config.precision.policy == "fp16" && config.precision.min_loss_scale > config.precision.loss_scale) {
    fail(ExitCode::config, "{}precision.min_loss_scale = {} is above precision.loss_scale = {}",
         where_set(config, {"precision.min_loss_scale", "precision.loss_scale"}), config.precision.min_loss_scale,
         config.precision.loss_scale);
  }
}

}  // namespace

void refuse_idle_keys(const RunConfig& config) {
  for (const KeySpec& key : all_keys()) {
    const auto origin = config.origins.find(key.full_name());
    if (origin == config.origins.end() || is_used(key, config)) continue;
    const KeySpec* decider = find_key(key.only_with.key);
    fail(ExitCode::config, "{}: {} has no effect with {} = {} (only with {}); remove it", origin->second, key.full_name(),
         key.only_with.key, value_as_toml(*decider, config), key.only_with.values_in_words());
  }
}

void validate(RunConfig& config, Count world_size, BuildFeatures features) {
  COHORT_CHECK(world_size >= 1, "a job has at least one rank, not {}", world_size);
  if (config.device.kind == "auto") config.device.kind = features.gpus ? "cuda" : "cpu";
  translate_fsdp_names(config);
  refuse_idle_keys(config);
  check_optimizer_groups(config.optimizer);
  check_run(config);
  check_model(config);
  check_layout(config, world_size);
  check_lora(config);
  check_sequence(config);
  check_tensor_parallel(config.model, config.parallel.tp, config.parallel.sequence, where_set(config, {"parallel.tp"}),
                        config.parallel.cp);
  check_shards(config);
  check_offload(config, where_set(config, {"parallel.offload"}));
  choose_bucket(config);
  check_batch(config);
  check_rate_scaling(config);
  check_validation(config);
  check_stages(config);
  validate_checkpointing(config, [&](const char* key) { return where_set(config, {key}); });
  check_schedule(config);
  check_device(config, features);
  check_fp8(config);
}

void set_vocabulary(RunConfig& config, Count token_file_vocabulary) {
  if (config.model.vocabulary == 0) config.model.vocabulary = token_file_vocabulary;
  if (config.model.vocabulary < token_file_vocabulary) {
    fail(ExitCode::config,
         "{}model.vocabulary = {} is smaller than the {} tokens of the token file '{}'; set it to 0 or to at least {}",
         where_set(config, {"model.vocabulary"}), config.model.vocabulary, token_file_vocabulary,
         config.data.token_files().front(), token_file_vocabulary);
  }
  check_tensor_parallel(config.model, config.parallel.tp, config.parallel.sequence, where_set(config, {"parallel.tp"}),
                        config.parallel.cp);
}

}  // namespace cohort
