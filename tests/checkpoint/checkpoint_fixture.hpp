// A small model with optimizer state, a folder of its own for each test, and helpers to compare and to damage.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>

#include "base/checksum.hpp"
#include "base/file.hpp"
#include "base/random.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/load/shards.hpp"
#include "checkpoint/write/save.hpp"
#include "comm/self_communicator.hpp"

namespace cohort::test {

namespace fs = std::filesystem;

inline const std::vector<std::string> kSlots{"m", "v"};
inline const std::string kModel = "test layers=1 width=4";

inline void fill(const Tensor& tensor, std::uint64_t seed) {
  const CounterRandom random(seed, RandomPurpose::test);
  for (Count i = 0; i < tensor.elements(); ++i)
    tensor.f32()[i] = static_cast<float>(random.uniform(static_cast<std::uint64_t>(i)) - 0.5);
}

/// A matrix, a vector, a scalar and a tensor without elements; `scale` makes the matrix larger.
inline std::unique_ptr<ParameterRegistry> make_model(Count scale = 1) {
  auto registry = std::make_unique<ParameterRegistry>();
  registry->declare("embedding.weight", {7 * scale, 4}, {});
  registry->declare("blocks.0.attention.qkv.weight", {4, 12}, {});
  registry->declare("blocks.0.attention.qkv.bias", {12}, {});
  registry->declare("temperature", {}, {});
  registry->declare("nothing", {0, 4}, {});
  registry->allocate(1);
  return registry;
}

/// Allocates the optimizer state that is not there yet.
inline void allocate_optimizer_state(const ParameterRegistry& registry, const std::vector<std::string>& slots) {
  for (const auto& parameter : registry.all()) {
    for (const std::string& slot : slots) {
      Tensor& tensor = parameter->optimizer_state[slot];
      if (!tensor.defined()) tensor = Tensor::zeros("optimizer." + slot, parameter->global_shape);
    }
  }
}

/// Values and optimizer state that follow from `seed`.
inline void set_values(const ParameterRegistry& registry, std::uint64_t seed) {
  allocate_optimizer_state(registry, kSlots);
  for (const auto& parameter : registry.all()) {
    const auto key = seed * 1000 + static_cast<std::uint64_t>(parameter->id) * 3;
    fill(parameter->value, key);
    fill(parameter->optimizer_state.at("m"), key + 1);
    fill(parameter->optimizer_state.at("v"), key + 2);
  }
}

/// Everything in the registry, as one rank of many that each hold it whole has it; one of them writes. Of the optimizer state
/// only `slots`.
inline std::vector<StateShard> whole_shards(const ParameterRegistry& registry, bool writes,
                                            const std::vector<std::string>& slots = kSlots) {
  std::vector<StateShard> shards;
  for (const auto& parameter : registry.all()) {
    const auto add = [&](const std::string& dataset, const Tensor& tensor) {
      shards.push_back({dataset, parameter->id, TensorPart(tensor.shape()), tensor.reshaped({tensor.elements()}), writes});
    };
    add(value_dataset(parameter->name), parameter->value);
    for (const std::string& slot : slots) add(state_dataset(slot, parameter->name), parameter->optimizer_state.at(slot));
  }
  return shards;
}

/// Saves all values and all optimizer state that there is, of whatever type.
inline fs::path save_checkpoint(const fs::path& run, const ParameterRegistry& registry, const TrainingState& state,
                                const SaveOptions& options = {}) {
  std::vector<StoredTensor> tensors;
  const auto add = [&](std::string dataset, const Tensor& tensor) {
    tensors.push_back({std::move(dataset), tensor.shape(), tensor.dtype(), [tensor] { return tensor; }});
  };
  for (const auto& parameter : registry.all()) add(value_dataset(parameter->name), parameter->value);
  for (const auto& parameter : registry.all()) {
    for (const auto& [slot, tensor] : parameter->optimizer_state) add(state_dataset(slot, parameter->name), tensor);
  }
  return cohort::save_checkpoint(run, tensors, state, options);
}

/// Loads as the one rank of a run does: values, and the optimizer state of `slots`.
inline TrainingState load_checkpoint(const fs::path& folder, const ParameterRegistry& registry, const std::string& model,
                                     const std::vector<std::string>& slots) {
  allocate_optimizer_state(registry, slots);
  const auto self = make_self_communicator("self");
  return load_shards(*self, folder, whole_shards(registry, true, slots), model);
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), static_cast<std::size_t>(a.bytes())) == 0;
}

inline bool same_bits(const ParameterRegistry& a, const ParameterRegistry& b) {
  if (a.all().size() != b.all().size()) return false;
  for (const auto& parameter : a.all()) {
    const Parameter* other = b.find(parameter->name);
    if (other == nullptr || !same_bits(parameter->value, other->value)) return false;
    for (const std::string& slot : kSlots) {
      if (!same_bits(parameter->optimizer_state.at(slot), other->optimizer_state.at(slot))) return false;
    }
  }
  return true;
}

inline TrainingState make_state(Count step) {
  TrainingState state;
  state.step = step;
  state.samples_seen = step * 12;
  state.tokens_seen = step * 12 * 64;
  state.seed = 0xFEDCBA9876543210u;  // above 2^63: stored as a negative number
  state.model = kModel;
  state.data = "stories.h5 crc32=12345678";
  state.run_file = "[run]\nname = \"test\"\n# Grüße\n";
  state.tokenizer = R"({"kind":"char","code_points":[10,32,97,98]})";
  state.cohort_version = "0.1.0";
  state.ranks = 3;
  state.layout = "dp=3 pp=1 cp=1 tp=1";
  return state;
}

inline std::string read_all(const fs::path& path) { return read_file(path); }

inline void write_all(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A manifest that was changed, with the checksum that it needs.
inline std::string sealed(std::string manifest) {
  const std::size_t digits = manifest.rfind("\"manifest_crc32\": \"") + 19;
  manifest.replace(digits, 8, "00000000");
  return manifest.replace(digits, 8, fmt::format("{:08x}", crc32_of(manifest.data(), static_cast<Bytes>(manifest.size()))));
}

/// A manifest as a program of the next version would write it, but for its checksum.
inline std::string of_next_version(std::string manifest) {
  const std::string version = fmt::format("\"version\": {}", kFormatVersion);
  return manifest.replace(manifest.find(version), version.size(), fmt::format("\"version\": {}", kFormatVersion + 1));
}

/// The manifest of a checkpoint from before tokenizers were in them, but for its checksum.
inline std::string without_tokenizer(std::string manifest) {
  const std::size_t name = manifest.find("\"/tokenizer\""), begin = manifest.rfind(',', name), end = manifest.find('}', name) + 1;
  return manifest.erase(begin, end - begin);
}

/// The message of the Error that `work` must throw, and a failure if it has another exit code.
inline std::string error_of(ExitCode code, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

inline void expect_mentions(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
}

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    run_ =
        fs::temp_directory_path() / fmt::format("cohort_checkpoint_{}_{}_{}", info->test_suite_name(), info->name(), ::getpid());
    fs::remove_all(run_);
    fs::create_directories(run_);
  }
  void TearDown() override { fs::remove_all(run_); }

  std::vector<Count> steps() const {
    std::vector<Count> steps;
    for (const StoredCheckpoint& checkpoint : list_checkpoints(run_)) steps.push_back(checkpoint.step);
    return steps;
  }
  /// Names in RUN/checkpoints, hidden ones included.
  std::size_t entries() const {
    const fs::directory_iterator begin(checkpoints_folder(run_));
    return static_cast<std::size_t>(std::distance(begin, fs::directory_iterator()));
  }

  fs::path run_;
};

}  // namespace cohort::test
