// The run file as structs: one struct per TOML section, defaults in place. What each key means, its range and how it is parsed is
// said once, in config/schema.cpp. After validate() every derived value (0 = "choose for me") that the run uses has been filled
// in, except model.vocabulary, which comes from the token file; keys that the run does not use stay at their defaults.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/units.hpp"

namespace cohort {

/// [run]
struct RunSection {
  std::string name = "run";
  std::string directory;  // "" = runs/<name>
  std::uint64_t seed = 1234;
  std::string initial_checkpoint;  // checkpoint or run whose weights training starts from; "" = random ones

  bool operator==(const RunSection&) const = default;
};

/// The value of a key of which the schema knows nothing: one family of models (config/model_rules.hpp) or one optimizer
/// (config/optimizer_rules.hpp) alone has it.
using KeyValue = std::variant<std::string, Count, double, bool>;
/// Whether T is one of its types.
template <class T>
inline constexpr bool kIsKeyValue =
    std::is_same_v<T, std::string> || std::is_same_v<T, Count> || std::is_same_v<T, double> || std::is_same_v<T, bool>;
/// All such keys of all families, with their defaults.
std::map<std::string, KeyValue> own_keys_at_defaults();
/// The same of all optimizers.
std::map<std::string, KeyValue> own_optimizer_keys_at_defaults();

/// [lora]: adapters that are trained in the place of the model's weights (nn/lora.hpp). A part of what the model is: whoever
/// builds it needs to know.
struct LoraSection {
  Count rank = 0;                                         // r; 0 = none, all weights are trained
  double alpha = 16.0;                                    // the adapters' product is multiplied by alpha / r
  std::string targets = "*.query.weight,*.value.weight";  // patterns of the names of weights of linear layers

  bool operator==(const LoraSection&) const = default;
};

/// [model]: what families share; which of it a family takes is said in its folder, src/models/FAMILY
struct ModelSection {
  std::string kind = "gpt2";  // the family
  Count layers = 4;           // transformer blocks, or hidden linear layers
  Count width = 128;          // C, model width
  Count heads = 4;            // NH, query heads
  Count kv_heads = 0;         // NKV, key and value heads; 0 = heads
  Count ffn_width = 0;        // F; 0 = what the family usually has
  Count context = 64;         // T, tokens of one sample
  Count vocabulary = 0;       // V; 0 = that of the token file
  bool tied_head = true;      // the output projection shares the embedding's weight
  double dropout = 0.0;       // probability
  double init_std = 0.02;     // of normal initial values; residual projections are divided by sqrt(2 layers)
  double rope_theta = 10000.0;
  std::string rope_scaling =
      "none";                // none | linear | llama3: slower rotation, for samples longer than those of the first training
  double rope_factor = 8.0;  // by which it is slower
  double rope_low_freq_factor = 1.0;   // llama3: turns in the original context below which a pair is slowed
  double rope_high_freq_factor = 4.0;  // llama3: turns above which it is not
  Count rope_original_context = 8192;  // llama3: T of the first training
  double norm_epsilon = 1e-5;
  std::string activation_checkpointing = "none";  // none | selective | full: what backward computes again (nn/block.hpp)
  Count checkpointed_layers = 0;                  // of so many layers; 0 = of all
  bool activation_offload = false;                // what blocks keep waits in host memory (nn/activation_offload.hpp)
  Count inputs = 16;                              // of a classifier: features of a sample
  Count classes = 2;                              // of a classifier: width of the head
  std::map<std::string, KeyValue> own = own_keys_at_defaults();
  LoraSection lora = {};

  bool operator==(const ModelSection&) const = default;
};

/// [[data.sources]]: one of several token files (config/data_mixture.hpp)
struct DataSource {
  std::string name;
  std::string tokens;  // its token file
  std::string origin;  // where it was set, for messages; not compared

  bool operator==(const DataSource& other) const { return name == other.name && tokens == other.tokens; }
};

/// [[data.stages]]: how the sources are mixed from a step on
struct DataStage {
  Count from_step = 1;
  std::map<std::string, double> weights;  // of sources, by name; of others 0
  std::string origin;                     // where it was set, for messages; not compared

  bool operator==(const DataStage& other) const { return from_step == other.from_step && weights == other.weights; }
};

/// [data]
struct DataSection {
  std::string kind = "tokens";      // tokens | two_moons (for the mlp)
  std::string tokens;               // token file written by `cohort data prepare`
  std::vector<DataSource> sources;  // instead: several
  std::vector<DataStage> stages;    // and how they are mixed
  Count samples = 4096;             // two_moons: training samples
  // joined | separate: whether loss and attention cross from one document of a sample to the next
  std::string documents = "joined";

  /// The paths of the token files: `tokens`, or those of the sources.
  std::vector<std::string> token_files() const {
    if (sources.empty()) return {tokens};
    std::vector<std::string> files;
    for (const DataSource& source : sources) files.push_back(source.tokens);
    return files;
  }

  bool operator==(const DataSection&) const = default;
};

/// [train]
struct TrainSection {
  Count steps = 1000;
  Count micro_batch = 8;              // samples of one forward and backward on one rank
  Count global_batch = 0;             // samples of one optimizer step over all ranks; 0 = micro_batch x dp x accumulation
  Count accumulation = 0;             // micro-batches of one step and rank; 0 = global_batch / (micro_batch x dp)
  double clip_norm = 1.0;             // largest global gradient norm; 0 = no clipping
  std::string on_nonfinite = "stop";  // stop | skip: what to do when loss or gradient are not finite
  Count max_skips = 10;               // skip: steps in a row that may be skipped
  Count validate_every = 100;         // steps; 0 = only at the end
  Count validation_samples = 0;       // of one validation, over all ranks; 0 = the whole validation split
  bool validate_at_start = false;     // once more, before the first step of a run
  std::string validation_choices;     // multiple-choice questions (JSONL), which are part of each validation; "" = none
  Count validation_questions = 0;     // of them, from the first on; 0 = all

  bool operator==(const TrainSection&) const = default;
};

/// [[optimizer.groups]]: what is said of some of the parameters alone (config/optimizer_groups.hpp)
struct OptimizerGroup {
  std::vector<std::string> match;          // patterns of names; a parameter belongs to the first group that has one of its name
  std::map<std::string, KeyValue> values;  // of the keys that the group sets, by name: in place of those of [optimizer]
  std::string origin;                      // where it was set, for messages; not compared

  bool operator==(const OptimizerGroup& other) const { return match == other.match && values == other.values; }
};

/// [optimizer]: what optimizers share; which of it each takes is said in its folder, src/optim/KIND
struct OptimizerSection {
  std::string kind = "adamw";
  double learning_rate = 1e-3;
  std::string rate_scaling = "none";  // none | linear | sqrt: of learning_rate by the global batch (config/rate_scaling.hpp)
  Count rate_batch = 0;               // global batch that learning_rate is for
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // of matrices; norms and biases do not decay
  std::map<std::string, KeyValue> own = own_optimizer_keys_at_defaults();
  std::vector<OptimizerGroup> groups;
  double learning_rate_factor = 1.0;  // of a group: multiplies the learning rate

  bool operator==(const OptimizerSection&) const = default;
};

/// [schedule]
struct ScheduleSection {
  std::string kind = "cosine";  // cosine | linear | constant
  Count warmup_steps = 0;
  Count decay_steps = 0;        // step at which the final rate is reached; 0 = train.steps
  double final_fraction = 0.1;  // final rate / peak rate

  bool operator==(const ScheduleSection&) const = default;
};

/// [parallel]
struct ParallelSection {
  std::string data = "bucketed";  // monolith | manual | naive | hooks | bucketed | zero1 | zero2 | zero3
  Count dp = 0;                   // 0 = world / (pp cp tp)
  Count pp = 1;
  Count cp = 1;
  Count tp = 1;
  bool sequence = false;          // tp: norms, dropout and the residual stream are divided too, by rows
  bool tensor_overlap = false;    // sequence: rows are gathered and summed in blocks, while products of other blocks run
  std::string schedule = "1f1b";  // pp: gpipe | 1f1b | interleaved
  Count chunks = 1;               // pp, interleaved: parts of the model on each rank
  double bucket_mib = 0.0;        // bucketed: MiB of gradients of one all-reduce; 0 = 4 on CPUs, 128 on GPUs
  std::string wrap = "block";     // zero: parameters that are gathered together: model | block | layer
  Count shard_ranks = 0;          // zero: ranks among which one copy of the state is divided; 0 = all of dp and cp
  std::string offload = "none";   // zero: none | optimizer | parameters: what lies on the host instead of the device
  std::string offload_directory;  // offload: folder of a file of the optimizer's moments; "" = in memory of the host

  bool operator==(const ParallelSection&) const = default;
};

/// [checkpoint]
struct CheckpointSection {
  Count every = 0;  // steps; 0 = only at the end
  bool at_end = true;
  std::string form = "consolidated";   // one file of whole tensors; or "per_rank"
  bool async = false;                  // write in the background
  std::string weights = "fp32";        // type of /model; "bf16" and "fp16": with fp32 copies in /optim/master
  Count keep = 0;                      // newest checkpoints kept; 0 = all
  Count keep_every = 0;                // besides those of a multiple of so many steps; 0 = none
  bool keep_best = false;              // besides the one with the lowest validation loss
  bool verify = false;                 // read each checkpoint back before it counts
  std::string fallback = "refuse";     // previous: a damaged newest checkpoint is passed over on resume
  std::string on_commit = "";          // command when one is complete
  std::string export_format = "none";  // hf, safetensors: the weights of each checkpoint in export/step_NNNNNNNN

  std::string site = "local";  // the file system: defaults of what follows (storage_of)
  std::string write = "site";  // who writes a consolidated file: "gathered" rank 0, "collective" all
  Count chunk = 0;             // bytes; 0 = contiguous
  Count compression = 0;       // gzip level
  Count alignment = -1;        // bytes; -1 = the site's
  Count stripe_count = -1;     // -1 = the site's
  Count stripe_size = -1;      // bytes; -1 = the site's
  bool locking = false;

  bool operator==(const CheckpointSection&) const = default;
};

/// [log]
struct LogSection {
  Count every = 10;            // steps between progress lines on the console (metrics.jsonl has every step)
  std::string level = "info";  // of the rank logs: debug | info | warning

  bool operator==(const LogSection&) const = default;
};

/// [observe]: what is recorded beside the metrics of each step
struct ObserveSection {
  Count layers_every = 100;  // steps between records of weights, gradients and activations by layer (layers.jsonl); 0 = never
  bool tensorboard = false;  // all of it as event files of TensorBoard, too

  bool operator==(const ObserveSection&) const = default;
};

/// [sample]: text generated at the end of training (token models only)
struct SampleSection {
  Count tokens = 200;        // 0 = none
  std::string prompt = "";   // "" = start of the validation split
  double temperature = 0.8;  // 0 = the likeliest token
  Count top_k = 0;           // 0 = all

  bool operator==(const SampleSection&) const = default;
};

/// [device]
struct DeviceSection {
  std::string kind = "cpu";           // cpu | cuda
  std::string kernels = "tuned";      // tuned | portable
  Count threads = 1;                  // cpu: threads of one rank
  bool share = false;                 // cuda: ranks may share a GPU
  double collective_timeout = 600.0;  // cuda: seconds
  std::string gemm_tuning;            // cuda: file of tuned matrix products; "" = what the library chooses

  bool operator==(const DeviceSection&) const = default;
};

/// [watch]: what ends a job that hangs
struct WatchSection {
  double timeout = 60.0;           // seconds; 0 = never
  bool check_collectives = false;  // ranks compare their calls before each collective

  bool operator==(const WatchSection&) const = default;
};

/// [precision]: which types the parts of a step have; the table is in train/precision.hpp.
struct PrecisionSection {
  std::string policy = "fp32";       // fp32 | tf32 | bf16 | fp16 | fp8
  std::string reduction = "fp32";    // fp32 | compute: type in which gradients are summed over ranks
  double loss_scale = 65536.0;       // fp16: first factor of the loss
  Count loss_scale_interval = 2000;  // fp16: steps without overflow after which the factor doubles
  double min_loss_scale = 1.0;       // fp16: below it the run stops
  bool operator==(const PrecisionSection&) const = default;
};

/// [fault]: something that goes wrong on purpose, to see what becomes of the job (config/fault.hpp).
struct FaultSection {
  std::string kind = "none";    // none | exit | abort | kill | stop | segv | throw | hang | slow | nan | disk | device
  Count rank = 0;               // of the world
  Count step = 1;               // 1 is the first
  std::string phase = "start";  // of the step: start | forward | backward | communication | optimizer | save
  bool once = true;             // not again after a resume
  Count code = 1;               // exit: the exit code
  double seconds = 1.0;         // slow: added to each step from `step` on

  bool operator==(const FaultSection&) const = default;
};

struct RunConfig {
  RunSection run;
  ModelSection model;
  DataSection data;
  TrainSection train;
  OptimizerSection optimizer;
  ScheduleSection schedule;
  ParallelSection parallel;
  CheckpointSection checkpoint;
  LogSection log;
  ObserveSection observe;
  SampleSection sample;
  DeviceSection device;
  PrecisionSection precision;
  WatchSection watch;
  FaultSection fault;

  /// Where each key that was set comes from: "model.width" -> "run.toml:7" or "--set model.width=96". For messages, and to refuse
  /// keys that were set and would be ignored. Not part of the configuration: comparison leaves it out.
  std::map<std::string, std::string> origins;

  /// Equal values; where they were set does not matter.
  bool operator==(const RunConfig& other) const {
    return run == other.run && model == other.model && data == other.data && train == other.train &&
           optimizer == other.optimizer && schedule == other.schedule && parallel == other.parallel &&
           checkpoint == other.checkpoint && log == other.log && observe == other.observe && sample == other.sample &&
           device == other.device && precision == other.precision && watch == other.watch && fault == other.fault;
  }
};

}  // namespace cohort
