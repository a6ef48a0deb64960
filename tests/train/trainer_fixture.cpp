#include "trainer_fixture.hpp"

#include <fstream>
#include <sstream>

#include "base/random.hpp"
#include "checkpoint/read/reader.hpp"
#include "checkpoint/store/store.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "data/prepare.hpp"
#include "support/test_device.hpp"

namespace cohort::test {
namespace {

constexpr const char* kGpt2 = R"(
[model]
kind = "gpt2"
layers = 2
width = 16
heads = 2
context = 8
dropout = 0.1
[sample]
tokens = 0
)";
constexpr const char* kLlama = R"(
[model]
kind = "llama"
layers = 2
width = 16
heads = 4
kv_heads = 2
context = 8
tied_head = false
[sample]
tokens = 0
)";
constexpr const char* kMlp = R"(
[model]
kind = "mlp"
layers = 3
width = 8
inputs = 4
[data]
kind = "two_moons"
samples = 38
)";
constexpr const char* kTraining = R"(
[train]
steps = 10
global_batch = 24
validate_every = 4
[optimizer]
learning_rate = 1e-2
[schedule]
warmup_steps = 2
decay_steps = 10
[checkpoint]
every = 5
[log]
every = 100
level = "debug"
)";
constexpr Count kTokens = 340;  // a tenth is for validation: 306 and 34, in windows of 8: 38 and 4 samples

std::vector<nlohmann::json> read_metrics(const fs::path& path) {
  std::vector<nlohmann::json> metrics;
  std::istringstream lines(text_of(path));
  for (std::string line; std::getline(lines, line);) {
    metrics.push_back(nlohmann::json::parse(line));
    for (const char* measured : {"time", "seconds", "tokens_per_second", "mfu", "mfu_causal", "gpu", "own_work",
                                 "exposed_communication", "slowest_rank", "memory", "run"})
      metrics.back().erase(measured);
  }
  return metrics;
}

// "step 3 loss ... samples 1 2 3", without the time at the beginning of the line.
std::vector<std::string> read_steps(const fs::path& path) {
  std::vector<std::string> steps;
  std::istringstream lines(text_of(path));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(": step ");
    if (at != std::string::npos && line.find(" samples ") != std::string::npos) steps.push_back(line.substr(at + 2));
  }
  return steps;
}

}  // namespace

std::vector<double> Remains::series(const std::string& key) const {
  std::vector<double> values;
  for (const nlohmann::json& line : metrics) {
    if (line.contains(key)) values.push_back(line.at(key).get<double>());
  }
  return values;
}

TrainerTest::TrainerTest() {
  if (root()) write_tokens("tokens.h5", 1);
  world_->barrier();
}

void TrainerTest::write_tokens(const std::string& file, std::uint64_t seed, const std::string& letters) const {
  const CounterRandom random(seed, RandomPurpose::test);
  std::string text = letters;  // each letter once, so that the vocabulary has them all
  for (std::uint64_t i = 0; text.size() < kTokens; ++i) text += letters[random.u32(i) % letters.size()];
  std::vector<std::string> inputs;  // documents of 1 to 12 letters
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t length = 1 + random.u32(1000 + begin) % 12;
    inputs.push_back((folder_ / fmt::format("{}.{:04}.txt", file, begin)).string());
    std::ofstream(inputs.back()) << text.substr(begin, length);
    begin += length;
  }
  prepare_tokens({.inputs = inputs, .output = (folder_ / file).string(), .tokenizer = "char"});
}

RunConfig TrainerTest::config(const Overrides& overrides, int ranks) const {
  return finish(kGpt2, with_tokens(overrides), ranks == 0 ? world_->size() : ranks);
}

RunConfig TrainerTest::llama_config(const Overrides& overrides) const {
  Overrides all = with_tokens(overrides);
  // In 16 bits a GPU takes heads whose size is a multiple of 8.
  if (test_device() == DeviceKind::gpu) all.insert(all.end(), {"model.heads=2", "model.kv_heads=1"});
  return finish(kLlama, all, world_->size());
}

RunConfig TrainerTest::mlp_config(const Overrides& overrides) const { return finish(kMlp, overrides, world_->size()); }

TrainerTest::Overrides TrainerTest::with_tokens(const Overrides& overrides) const {
  Overrides all{"data.tokens=" + (folder_ / "tokens.h5").string()};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return all;
}

RunConfig TrainerTest::finish(const std::string& model, const Overrides& overrides, int ranks) const {
  Overrides all{fmt::format("train.micro_batch={}", 12 / ranks)};
  all.insert(all.end(), overrides.begin(), overrides.end());
  RunConfig config = parse_run_file(model + kTraining, "test.toml", all);
  config.device.kind = test::test_device_key();
  config.device.share = ranks_share_devices(ranks);
  if (config.run.directory.empty()) config.run.directory = (folder_ / config.run.name).string();
  validate(config, ranks, {.cuda = gpu::built()});
  return config;
}

ExitCode TrainerTest::train(const RunConfig& wanted, Communicator& comm, ExistingRun existing, bool allow_changes,
                            const std::string& from) const {
  RunConfig config = wanted;
  const RunData data = open_data(comm, config, DataUse::training);
  TrainerOptions options;
  options.resume_from = prepare_run_directory(comm, config.run.directory, existing,
                                              {.from = from, .falls_back = config.checkpoint.fallback == "previous"});
  options.allow_changes = allow_changes;
  return Trainer(config, data, comm, options).run();
}

Remains TrainerTest::remains(const std::string& name, int rank) const {
  Remains remains;
  const fs::path run = folder_ / name;
  world_->barrier();  // rank 0 writes the last of it
  const CheckpointReader reader(resolve_checkpoint(run));
  for (const ManifestTensor& tensor : reader.manifest().tensors()) remains.tensors[tensor.name] = reader.read(tensor).memory;
  remains.metrics = read_metrics(run / "metrics.jsonl");
  remains.steps = read_steps(run / "logs" / fmt::format("rank_{}", rank < 0 ? world_->rank() : rank) / "train.log");
  world_->barrier();  // nobody changes it while another still reads
  return remains;
}

std::vector<Count> TrainerTest::checkpoints(const std::string& name) const {
  world_->barrier();
  std::vector<Count> steps;
  for (const StoredCheckpoint& checkpoint : list_checkpoints(folder_ / name)) steps.push_back(checkpoint.step);
  world_->barrier();
  return steps;
}

}  // namespace cohort::test
