#include "config/schema.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/data_mixture.hpp"
#include "config/key_ranges.hpp"
#include "config/lora_keys.hpp"
#include "config/model_keys.hpp"
#include "config/optimizer_groups.hpp"
#include "config/optimizer_keys.hpp"
#include "config/optimizer_rules.hpp"
#include "config/pipeline.hpp"

namespace cohort {
namespace {

using OnlyWith = KeySpec::OnlyWith;

std::vector<KeySpec> training_keys() {
  const OnlyWith tokens{"data.kind", {"tokens"}};
  const OnlyWith two_moons{"data.kind", {"two_moons"}};
  const OnlyWith skipping{"train.on_nonfinite", {"skip"}};
  return {
      KEY(data, kind, Choices{{"tokens", "two_moons"}}, "kind of samples: text, or generated points. " + data_kinds_of_models(),
          {}),
      KEY(data, tokens, kAny, "token file written by `cohort data prepare`", tokens),
      KEY(data, sources, kAny, "instead of data.tokens: several token files, as tables [[data.sources]] with name and tokens",
          tokens),
      KEY(data, stages, kAny,
          "how the sources are mixed, as tables [[data.stages]]: from_step (the first has 1) and weights, a number for each "
          "source",
          tokens),
      KEY(data, documents, Choices{{"joined", "separate"}},
          "separate: attention, loss and positions do not cross from one document of a sample to the next", tokens),
      KEY(data, samples, IntegerRange{1, kMaxSamples}, "training samples to generate", two_moons),

      KEY(train, steps, IntegerRange{1, kMaxSteps}, "optimizer steps of the whole run", {}),
      KEY(train, micro_batch, IntegerRange{1, kMaxSize}, "samples per forward and backward pass on one rank", {}),
      KEY(train, global_batch, IntegerRange{0, kMaxSamples},
          "samples per step over all ranks; 0 = micro_batch x dp x accumulation", {}),
      KEY(train, accumulation, IntegerRange{0, kMaxSize},
          "micro-batches per step on one rank; 0 = global_batch / (micro_batch x dp)", {}),
      KEY(train, clip_norm, kNotNegative, "largest global gradient norm; 0 = no clipping", {}),
      KEY(train, on_nonfinite, Choices{{"stop", "skip"}},
          "when the loss or a gradient is not finite: stop the run, or skip the step and continue", {}),
      KEY(train, max_skips, IntegerRange{1, kMaxSteps}, "consecutive steps that may be skipped before the run stops", skipping),
      KEY(train, validate_every, IntegerRange{0, kMaxSteps}, "steps between validations; 0 = only at the end", {}),
      KEY(train, validation_samples, IntegerRange{0, kMaxSamples}, "samples per validation, over all ranks; 0 = the whole split",
          {}),
      KEY(train, validate_at_start, kAny, "also validate before the first step of a run; metrics.jsonl has it as step 0", {}),
      KEY(train, validation_choices, kAny,
          "JSONL file of multiple-choice questions (ctx, endings, label) that each validation scores; \"\" = none", tokens),
      KEY(train, validation_questions, IntegerRange{0, kMaxSamples}, "questions of it to score, the first ones; 0 = all", tokens),
  };
}

std::vector<KeySpec> schedule_keys() {
  const OnlyWith decaying{"schedule.kind", {"cosine", "linear"}};
  return {
      KEY(schedule, kind, Choices{{"cosine", "linear", "constant"}}, "shape of the learning rate after warm-up", {}),
      KEY(schedule, warmup_steps, IntegerRange{0, kMaxSteps},
          "steps over which the rate rises to its peak; fewer than train.steps", {}),
      KEY(schedule, decay_steps, IntegerRange{0, kMaxSteps}, "step at which the final rate is reached; 0 = train.steps",
          decaying),
      KEY(schedule, final_fraction, (NumberRange{0.0, 1.0}), "final rate / peak rate", decaying),
  };
}

std::vector<KeySpec> parallel_keys() {
  const OnlyWith bucketed{"parallel.data", {"bucketed"}};
  const OnlyWith zero{"parallel.data", {"zero1", "zero2", "zero3"}};
  const OnlyWith offloading{"parallel.offload", {"optimizer", "parameters"}};
  const OnlyWith tensor{"parallel.tp", {}}, pipeline{"parallel.pp", {}}, interleaved{"parallel.schedule", {"interleaved"}};
  return {
      KEY(parallel, data,
          (Choices{{"monolith", "manual", "naive", "hooks", "bucketed", "zero1", "zero2", "zero3", "NO_SHARD", "SHARD_GRAD_OP",
                    "FULL_SHARD", "HYBRID_SHARD"}}),
          "data-parallel strategy. FSDP's names mean bucketed, zero2, zero3, and zero3 with shard_ranks", {}),
      KEY(parallel, dp, IntegerRange{0, kMaxRanks}, "data-parallel ranks; 0 = all ranks that pp, cp and tp leave", {}),
      KEY(parallel, pp, IntegerRange{1, kMaxRanks},
          "pipeline stages: each holds consecutive layers, and micro-batches pass through them", {}),
      KEY(parallel, cp, IntegerRange{1, kMaxRanks}, "context-parallel ranks: each holds a part of every sample (ring attention)",
          {}),
      KEY(parallel, tp, IntegerRange{1, kMaxRanks}, "tensor-parallel ranks: each holds a part of every matrix", {}),
      KEY(parallel, sequence, kAny, "tp: sequence parallelism; norms, dropout and the residual stream are sharded as well",
          tensor),
      KEY(parallel, tensor_overlap, kAny,
          "sequence: gather and sum rows block by block around a ring, while the products of other blocks run",
          (OnlyWith{"parallel.sequence", {"true"}})),
      KEY(parallel, schedule, Choices{pipeline::schedule_names()},
          "pp: order of the micro-batches' passes; `cohort plan --schedule` draws it", pipeline),
      KEY(parallel, chunks, IntegerRange{1, 10000}, "pp, interleaved: model chunks per rank, 2 or more", interleaved),
      KEY(parallel, bucket_mib, (NumberRange{0.0, 65536.0}),
          "bucket size: MiB of gradients per all-reduce; 0 = 4 on CPUs, 128 on GPUs", bucketed),
      KEY(parallel, wrap, (Choices{{"model", "block", "layer"}}), "zero: parameters that are gathered and reduced together",
          zero),
      KEY(parallel, shard_ranks, IntegerRange{0, kMaxRanks},
          "zero: ranks that share one copy of the state, a divisor of dp x cp; 0 = all. Fewer = hybrid sharding", zero),
      KEY(parallel, offload, (Choices{{"none", "optimizer", "parameters"}}),
          "zero: what is kept in host memory instead of GPU memory; optimizer: its state and the fp32 weights, updated there; "
          "parameters: also the weights that layers read (zero3)",
          zero),
      KEY(parallel, offload_directory, kAny,
          "offload: folder on a fast local disk for the optimizer's moments, one scratch file per rank; \"\" = kept in memory",
          offloading),
  };
}

std::vector<KeySpec> run_keys() {
  return {
      KEY(run, name, kAny, "name of the run: letters, digits, '.', '_' and '-'", {}),
      KEY(run, directory, kAny, "folder of logs, metrics and checkpoints; \"\" = runs/<name>", {}),
      KEY(run, seed, (IntegerRange{0, INT64_MAX}), "seed of initial weights, sample order, dropout and sampling", {}),
      KEY(run, initial_checkpoint, kAny, "checkpoint or run whose weights training starts from; \"\" = random weights", {}),
  };
}

std::vector<KeySpec> fault_keys() {
  const std::vector<std::string> kinds{"exit", "abort", "kill", "stop", "segv", "throw", "hang", "slow", "nan", "disk", "device"};
  std::vector<std::string> with_none{"none"};
  with_none.insert(with_none.end(), kinds.begin(), kinds.end());
  const OnlyWith any{"fault.kind", kinds};
  const OnlyWith exit{"fault.kind", {"exit"}};
  const OnlyWith slow{"fault.kind", {"slow"}};
  return {
      KEY(fault, kind, Choices{with_none},
          "what goes wrong on one rank: it exits, aborts, is killed or stopped, crashes, throws an error, hangs, gets slow, "
          "computes NaN, fails to write, or loses its GPU",
          {}),
      KEY(fault, rank, IntegerRange{0, kMaxRanks}, "rank at fault", any),
      KEY(fault, step, IntegerRange{1, kMaxSteps}, "step of the fault; slow: the first one", any),
      KEY(fault, phase, Choices{{"start", "forward", "backward", "communication", "optimizer", "save"}},
          "where in the step: its start, the first start of a phase, or the save after it", any),
      KEY(fault, once, kAny, "not again after a resume (recorded in the run folder)", any),
      KEY(fault, code, IntegerRange{0, 255}, "exit code", exit),
      KEY(fault, seconds, kNotNegative, "seconds added to each step", slow),
  };
}

std::vector<KeySpec> other_keys() {
  const OnlyWith tokens{"data.kind", {"tokens"}};
  const OnlyWith summed{"parallel.data", {"bucketed", "zero1", "zero2", "zero3"}};
  const OnlyWith fp16{"precision.policy", {"fp16"}};
  const OnlyWith consolidated{"checkpoint.form", {"consolidated"}};
  return {
      KEY(checkpoint, every, IntegerRange{0, kMaxSteps}, "steps between checkpoints; 0 = only at the end", {}),
      KEY(checkpoint, at_end, kAny, "write one after the last step", {}),
      KEY(checkpoint, form, Choices{{"consolidated", "per_rank"}},
          "one file of whole tensors, or one file per rank and an index through which tools see whole tensors; any layout loads "
          "either",
          {}),
      KEY(checkpoint, async, kAny, "copy the state and write it in the background while training continues", {}),
      KEY(checkpoint, weights, Choices{{"fp32", "bf16", "fp16"}},
          "type of /model; 16 bits: rounded, for users of the weights only, with exact fp32 copies in /optim/master", {}),
      KEY(checkpoint, keep, IntegerRange{0, kMaxSteps}, "newest checkpoints kept; 0 = all", {}),
      KEY(checkpoint, keep_every, IntegerRange{0, kMaxSteps}, "also keep those whose step is a multiple of this; 0 = none", {}),
      KEY(checkpoint, keep_best, kAny, "also keep the one with the lowest validation loss", {}),
      KEY(checkpoint, verify, kAny, "read each checkpoint back and compare its checksums before it counts as complete", {}),
      KEY(checkpoint, fallback, Choices{{"refuse", "previous"}},
          "when the newest checkpoint is damaged: refuse to resume, or resume from the newest intact one and set later ones "
          "aside",
          {}),
      KEY(checkpoint, on_commit, kAny,
          "shell command to run when a checkpoint is complete, with COHORT_CHECKPOINT and COHORT_STEP; failure is only reported",
          {}),
      // Not by KEY: `export` is a word of C++.
      KeySpec{
          "checkpoint",
          "export",
          [](RunConfig& config) -> Field { return &config.checkpoint.export_format; },
          Choices{{"none", "hf", "safetensors"}},
          "also write the weights of each checkpoint, as `cohort ckpt export` does, to export/step_NNNNNNNN in the run folder",
          {}},
      KEY(checkpoint, site, Choices{{"local", "nfs", "lustre"}},
          "file system of the run folder: sets who writes and how, unless the keys below do", {}),
      KEY(checkpoint, write, Choices{{"site", "gathered", "collective"}},
          "who writes a consolidated file: gathered = rank 0; collective = all ranks through MPI-IO; site = collective on lustre",
          consolidated),
      KEY(checkpoint, chunk, IntegerRange{0, 16 * kMiB}, "chunk size of datasets in bytes; 0 = contiguous", {}),
      KEY(checkpoint, compression, IntegerRange{0, 9}, "gzip level of chunks, with byte shuffle; 0 = none", {}),
      KEY(checkpoint, alignment, IntegerRange{-1, kGiB},
          "datasets of at least this many bytes start at a multiple of it; -1 = the site's", {}),
      KEY(checkpoint, stripe_count, IntegerRange{-1, 100000},
          "lustre: storage targets of a collectively written file; 0 = the folder's, -1 = the site's", {}),
      KEY(checkpoint, stripe_size, IntegerRange{-1, 4 * kGiB}, "lustre: stripe size in bytes; 0 = the folder's, -1 = the site's",
          {}),
      KEY(checkpoint, locking, kAny, "lock files while writing, against other programs; many network file systems cannot", {}),

      KEY(log, every, IntegerRange{1, kMaxSteps}, "steps between progress lines on the console (metrics.jsonl has every step)",
          {}),
      KEY(log, level, Choices{{"debug", "info", "warning"}}, "least severe level in the rank logs", {}),

      KEY(observe, layers_every, IntegerRange{0, kMaxSteps},
          "steps between records of norms and histograms of weights, gradients and activations by layer (layers.jsonl), besides "
          "the first and the last step; 0 = never",
          {}),
      KEY(observe, tensorboard, kAny, "also write metrics, histograms and samples as TensorBoard event files (tensorboard/)", {}),

      KEY(sample, tokens, IntegerRange{0, kMaxSize}, "tokens to generate at the end of training; 0 = none", tokens),
      KEY(sample, prompt, kAny, "text to continue; \"\" = start of the validation split", tokens),
      KEY(sample, temperature, (NumberRange{0.0, 1000.0}), "divides the logits; 0 = always the likeliest token", tokens),
      KEY(sample, top_k, IntegerRange{0, kMaxSamples}, "sample from the k likeliest tokens; 0 = from all", tokens),

      KEY(device, kind, (Choices{{"auto", "cpu", "cuda"}}),
          "where tensors live; auto: on GPUs if every rank can have one of its own, else on the CPU", {}),
      KEY(device, kernels, (Choices{{"tuned", "portable"}}),
          "tuned: the fastest kernel of each op for the device; portable: only the Kokkos kernels, the same on every device "
          "(slow: for comparison and study)",
          {}),
      // A run file may serve both kinds, so the keys of one are not refused with the other.
      KEY(device, threads, IntegerRange{1, 1024}, "cpu: threads per rank", {}),
      KEY(device, share, kAny, "cuda: let several ranks share one GPU (slow; for trying things out)", {}),
      KEY(device, collective_timeout, kPositive,
          "cuda: seconds that NCCL may wait for other ranks before a rank ends the run (watch.timeout is shorter unless it is 0)",
          {}),
      KEY(device, gemm_tuning, kAny,
          "cuda: file of tuned matrix products, created if missing: faster, and the same bits as long as the file stays; \"\" = "
          "no tuning",
          {}),

      KEY(precision, policy, Choices{{"fp32", "tf32", "bf16", "fp16", "fp8"}},
          "type of activations and of the weights that layers read; fp32 master weights, gradients and optimizer state in all; "
          "fp8 = bf16, but linear layers multiply in 8 bits",
          {}),
      KEY(precision, reduction, Choices{{"fp32", "compute"}},
          "type in which gradients are summed over ranks; compute = the policy's type: half the traffic, less exact", summed),
      KEY(precision, loss_scale, kPositive, "first factor of the loss, which keeps small gradients from becoming 0 in fp16",
          fp16),
      KEY(precision, loss_scale_interval, IntegerRange{1, kMaxSteps}, "steps without overflow after which the factor doubles",
          fp16),
      KEY(precision, min_loss_scale, kPositive, "the run stops when the factor would fall below this", fp16),

      KEY(watch, timeout, kNotNegative,
          "seconds after which a job with a lost or stuck rank is ended, naming that rank; 0 = wait forever", {}),
      KEY(watch, check_collectives, kAny,
          "before each collective, ranks compare what they are about to call, and stop with both call sites if it differs: slow, "
          "for debugging Cohort itself",
          {}),
  };
}

std::string number_as_toml(double value) {
  std::string text = fmt::format("{}", value);  // the shortest text that reads back to the same bits
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

const std::vector<SectionSpec>& all_sections() {
  static const std::vector<SectionSpec> kSections{
      {"run", "the run as a whole"},
      {"model", "what is trained"},
      {"lora", "low-rank adapters, to fine-tune a model with few trained parameters"},
      {"data", "what it is trained on"},
      {"train", "length and batch sizes"},
      {"optimizer", "how weights are updated"},
      {"schedule", "the learning rate over the steps"},
      {"parallel", "how the work is spread over ranks: world size = dp x pp x cp x tp"},
      {"checkpoint", "when the state is saved"},
      {"log", "what is reported"},
      {"observe", "what is recorded beside the metrics of each step"},
      {"sample", "text generated at the end of training"},
      {"device", "the hardware of one rank"},
      {"precision", "the element types of a step"},
      {"watch", "what ends a job that hangs"},
      {"fault", "a deliberate failure, to see how the job handles it; short form: cohort train --fault"},
  };
  return kSections;
}

const std::vector<KeySpec>& all_keys() {
  static const std::vector<KeySpec> kKeys = [] {
    std::vector<KeySpec> keys;
    for (const auto& group : {run_keys(), model_keys(), lora_keys(), training_keys(), optimizer_keys(), schedule_keys(),
                              parallel_keys(), other_keys(), fault_keys()}) {
      keys.insert(keys.end(), group.begin(), group.end());
    }
    return keys;
  }();
  return kKeys;
}

const KeySpec* find_key(std::string_view section, std::string_view name) {
  for (const KeySpec& key : all_keys()) {
    if (key.section == section && key.name == name) return &key;
  }
  return nullptr;
}

const KeySpec* find_key(std::string_view full_name) {
  const std::size_t dot = full_name.find('.');
  return dot == std::string_view::npos ? nullptr : find_key(full_name.substr(0, dot), full_name.substr(dot + 1));
}

std::string expected_value(const KeySpec& key) {
  if (const auto* range = std::get_if<IntegerRange>(&key.allowed))
    return fmt::format("an integer from {} to {}", range->low, range->high);
  if (const auto* range = std::get_if<NumberRange>(&key.allowed)) {
    return fmt::format("a number {} {} and {} {}", range->low_open ? "above" : "of at least", range->low,
                       range->high_open ? "below" : "at most", range->high);
  }
  if (const auto* choices = std::get_if<Choices>(&key.allowed)) {
    if (choices->names.size() == 1) return fmt::format("\"{}\"", choices->names.front());
    std::string names = "one of " + join(choices->names);
    if (choices->if_true.empty()) return names;
    return fmt::format("{} (true = {}, false = {})", names, choices->if_true, choices->if_false);
  }
  RunConfig defaults;
  const Field field = key.field(defaults);
  if (std::holds_alternative<std::vector<OptimizerGroup>*>(field)) return "an array of tables, each with match = [patterns]";
  if (std::holds_alternative<std::vector<DataSource>*>(field)) return "an array of tables, each with name and tokens";
  if (std::holds_alternative<std::vector<DataStage>*>(field)) return "an array of tables, each with from_step and weights";
  return std::holds_alternative<bool*>(field) ? "true or false" : "a string";
}

// A field knows its place in a mutable config alone; what comes of this is only read.
static Field to_read(const KeySpec& key, const RunConfig& config) { return key.field(const_cast<RunConfig&>(config)); }

std::string field_as_toml(const Field& field) {
  struct Writer {
    std::string operator()(const std::string* text) const { return toml_string(*text); }
    std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
    std::string operator()(const double* value) const { return number_as_toml(*value); }
    std::string operator()(const Count* value) const { return fmt::format("{}", *value); }
    std::string operator()(const std::uint64_t* value) const { return fmt::format("{}", *value); }
    std::string operator()(const std::vector<OptimizerGroup>* groups) const { return groups_as_toml(*groups); }
    std::string operator()(const std::vector<DataSource>* sources) const { return sources_as_toml(*sources); }
    std::string operator()(const std::vector<DataStage>* stages) const { return stages_as_toml(*stages); }
  };
  return std::visit(Writer{}, field);
}

std::string value_as_toml(const KeySpec& key, const RunConfig& config) { return field_as_toml(to_read(key, config)); }

std::string KeySpec::OnlyWith::values_in_words() const { return values.empty() ? "2 or more" : join(values, " or "); }

bool is_used(const KeySpec& key, const RunConfig& config) {
  if (key.only_with.key.empty()) return true;
  if (key.section == "lora") return config.model.lora.rank > 0;
  const KeySpec* decider = find_key(key.only_with.key);
  COHORT_CHECK(decider != nullptr, "the schema makes {} depend on {}, which does not exist", key.full_name(), key.only_with.key);
  const auto has_effect_with = [&](const std::string& value) {
    return std::find(key.only_with.values.begin(), key.only_with.values.end(), value) != key.only_with.values.end();
  };
  if (key.section == "optimizer" && key.only_with.key == "optimizer.kind") {
    const auto kinds = optimizers_at_work(config.optimizer);
    return std::any_of(kinds.begin(), kinds.end(), [&](const OptimizerRules* rules) { return has_effect_with(rules->kind); });
  }
  const Field field = to_read(*decider, config);
  if (key.only_with.values.empty()) return *std::get<Count*>(field) > 1;
  if (const auto* const flag = std::get_if<bool*>(&field)) return has_effect_with(**flag ? "true" : "false");
  return has_effect_with(*std::get<std::string*>(field));
}

std::string toml_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace cohort
