// `cohort ckpt show`: what a checkpoint holds. Starts neither MPI nor Kokkos, so it works on a login node while the run goes on;
// under a launcher rank 0 alone prints.
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint/store.hpp"
#include "commands/commands.hpp"
#include "runtime/ending.hpp"

namespace cohort {
namespace {

struct Options {
  std::string path;
  bool json = false;
  bool run_file = false;
};

struct TensorFacts {
  const ManifestTensor* stored;
  Count elements = 0;
  double norm = 0.0;  // L2
};

template <class T>
double as_double(T value) {
  if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>) {
    return to_float(value);
  } else {
    return static_cast<double>(value);
  }
}

template <class T>
double norm_of(const Tensor& tensor) {
  double sum = 0.0;
  for (const T value : tensor.span<T>()) sum += as_double(value) * as_double(value);
  return std::sqrt(sum);
}

double norm_of(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f32:
      return norm_of<float>(tensor);
    case DType::f64:
      return norm_of<double>(tensor);
    case DType::bf16:
      return norm_of<bf16>(tensor);
    case DType::f16:
      return norm_of<f16>(tensor);
    case DType::i32:
      return norm_of<std::int32_t>(tensor);
    case DType::i64:
      return norm_of<std::int64_t>(tensor);
    case DType::u8:
      return norm_of<std::uint8_t>(tensor);
  }
  return 0.0;
}

// Reads every tensor once, which also checks its checksum.
std::vector<TensorFacts> read_tensors(const CheckpointReader& reader) {
  std::vector<TensorFacts> tensors;
  for (const ManifestTensor& stored : reader.manifest().tensors()) {
    const CheckpointReader::Loaded loaded = reader.read(stored);
    tensors.push_back({&stored, loaded.tensor.elements(), norm_of(loaded.tensor)});
  }
  return tensors;
}

nlohmann::ordered_json as_json(const CheckpointReader& reader, const std::vector<TensorFacts>& tensors) {
  nlohmann::ordered_json json;
  json["file"] = reader.model_file();
  json["form"] = name_of(reader.manifest().form);
  json["bytes"] = reader.manifest().bytes();
  for_each_field(reader.state(), [&](const char* name, const auto& field) { json[name] = field; });
  json["run_file"] = reader.state().run_file;
  json["tensors"] = nlohmann::ordered_json::array();
  for (const TensorFacts& tensor : tensors) {
    // JSON has no infinity and no NaN: null.
    json["tensors"].push_back({{"name", tensor.stored->name},
                               {"dtype", name_of(tensor.stored->dtype)},
                               {"shape", tensor.stored->shape.vector()},
                               {"norm", tensor.norm}});
  }
  return json;
}

void print(const CheckpointReader& reader, const std::vector<TensorFacts>& tensors) {
  Table facts({"file", reader.model_file()});
  facts.add({"size", human_bytes(reader.manifest().bytes())});
  for_each_field(reader.state(), [&](const char* name, const auto& field) { facts.add({name, fmt::format("{}", field)}); });
  Table table({"tensor", "dtype", "shape", "elements", "norm"});
  Count parameters = 0;
  for (const TensorFacts& tensor : tensors) {
    if (tensor.stored->name.starts_with(kModelGroup)) parameters += tensor.elements;
    table.add({tensor.stored->name, std::string(name_of(tensor.stored->dtype)), tensor.stored->shape.str(),
               std::to_string(tensor.elements), fmt::format("{:.6g}", tensor.norm)});
  }
  fmt::print("{}\n{}\n{} parameters; every checksum is right\n", facts.str(2), table.str(3),
             human_count(static_cast<double>(parameters)));
}

int show(const Options& options) {
  if (!is_speaking_rank()) return 0;
  const CheckpointReader reader(resolve_checkpoint(options.path));
  if (options.run_file) {
    fmt::print("{}", reader.state().run_file);
    return 0;
  }
  const std::vector<TensorFacts> tensors = read_tensors(reader);
  if (options.json) {
    fmt::print("{}\n", as_json(reader, tensors).dump(2));
  } else {
    print(reader, tensors);
  }
  return 0;
}

}  // namespace

void add_ckpt_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("ckpt", "Look at checkpoints");
  command->require_subcommand(1);
  auto* show_command = command->add_subcommand("show", "List the tensors and the training state of a checkpoint");
  show_command->footer(
      "Examples:\n"
      "  cohort ckpt show runs/demo                                   the newest checkpoint of a run\n"
      "  cohort ckpt show runs/demo/checkpoints/step_00000100         this one\n"
      "  cohort ckpt show runs/demo --run-file > again.toml           the run file that it was trained with");
  const auto options = std::make_shared<Options>();
  show_command->add_option("path", options->path, "A checkpoint's folder, or a run's: its newest checkpoint")->required();
  auto* json = show_command->add_flag("--json", options->json, "Print JSON");
  show_command->add_flag("--run-file", options->run_file, "Print the run file inside, nothing else")->excludes(json);
  show_command->callback([&action, options] { action = [options] { return show(*options); }; });
  add_ckpt_export(*command, action);
  add_ckpt_import(*command, action);
}

}  // namespace cohort
