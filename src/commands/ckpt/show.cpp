// `cohort ckpt show`: what a checkpoint holds.
#include "commands/ckpt/show.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/format/part_json.hpp"
#include "checkpoint/read/reader.hpp"
#include "checkpoint/store/missing_files.hpp"
#include "checkpoint/store/store.hpp"
#include "commands/ckpt/output.hpp"
#include "commands/commands.hpp"
#include "commands/common/output_file.hpp"
#include "commands/common/step_option.hpp"
#include "runtime/failure_exit.hpp"
#include "train/data_record.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

struct CkptShowOptions {
  std::string path;
  std::string tensor;
  std::string svg;
  bool overwrite = false;
  std::optional<Count> step;
  bool all = false;
  bool shards = false;
  bool fast = false;
  bool json = false;
  bool run_file = false;
  bool tokenizer = false;
};

/// A whole name, or its end from a slash on; * and ? stand for any letters. Dots count as slashes, as in a parameter's name.
bool matches(const std::string& pattern, const std::string& name) {
  std::string slashes = pattern;
  std::replace(slashes.begin(), slashes.end(), '.', '/');
  return fnmatch(slashes.c_str(), name.c_str(), 0) == 0 || fnmatch(("*/" + slashes).c_str(), name.c_str(), 0) == 0;
}

std::vector<ShownTensor> chosen_tensors(const TensorReader& reader, const std::string& pattern) {
  std::vector<ShownTensor> tensors;
  std::vector<std::string> names;
  for (const ManifestTensor& stored : reader.manifest().tensors()) {
    names.push_back(stored.name);
    if (pattern.empty() || matches(pattern, stored.name)) tensors.push_back({&stored, std::nullopt});
  }
  if (tensors.empty() && !pattern.empty()) {
    const std::string nearest = nearest_name(pattern, names);
    fail(ExitCode::usage, "--tensor {}: matches none of the {} tensors in {}{}", pattern, names.size(), reader.folder().string(),
         nearest.empty() ? "; `cohort ckpt show` lists them" : "; the nearest is " + nearest);
  }
  return tensors;
}

// Reads every tensor once, which also compares its checksums.
void read_statistics(const TensorReader& reader, std::vector<ShownTensor>& tensors) {
  ReadingLine line("reading " + reader.folder().filename().string());
  Bytes all = 0;
  for (const ShownTensor& tensor : tensors) all += tensor.stored->bytes();
  Bytes done = 0;
  for (ShownTensor& tensor : tensors) {
    tensor.statistics = statistics_of(reader, *tensor.stored);
    done += tensor.stored->bytes();
    line.update(done, all);
  }
}

void add_statistics(const TensorStatistics& statistics, nlohmann::ordered_json& json) {
  json["norm"] = statistics.norm;
  json["mean"] = statistics.mean;
  json["std"] = statistics.deviation;
  json["min"] = statistics.min;
  json["max"] = statistics.max;
  json["zeros"] = statistics.zeros;
  json["nans"] = statistics.nans;
  json["infinities"] = statistics.infinities;
}

nlohmann::ordered_json as_json(const ManifestPart& part, const Manifest& manifest) {
  nlohmann::ordered_json json{{"file", manifest.files[part.file].name}, {"dataset", part.dataset}};
  add_part(json, part.part);
  return json;
}

nlohmann::ordered_json as_json(const CheckpointReader& reader, const std::vector<ShownTensor>& tensors,
                               const std::vector<std::string>& missing) {
  const Manifest& manifest = reader.manifest();
  nlohmann::ordered_json json;
  json["file"] = reader.model_file();
  json["form"] = name_of(manifest.form);
  json["bytes"] = manifest.bytes();
  json["lacking"] = missing;
  json["parameters"] = manifest.parameters();
  for_each_field(reader.state(), [&](const char* name, const auto& field) { json[name] = field; });
  json["run_file"] = reader.state().run_file;
  json["tokenizer"] = tokenizer_of(reader.state());
  json["tensors"] = nlohmann::ordered_json::array();
  for (const ShownTensor& tensor : tensors) {
    nlohmann::ordered_json item{
        {"name", tensor.stored->name}, {"dtype", name_of(tensor.stored->dtype)}, {"shape", tensor.stored->shape.vector()}};
    if (tensor.statistics) add_statistics(*tensor.statistics, item);
    item["parts"] = nlohmann::ordered_json::array();
    for (const ManifestPart& part : tensor.stored->parts) item["parts"].push_back(as_json(part, manifest));
    json["tensors"].push_back(std::move(item));
  }
  return json;
}

constexpr std::size_t kFactColumns = 77;  // beside the names, on a terminal of 100

void print_facts(const CheckpointReader& reader) {
  const Manifest& manifest = reader.manifest();
  Table facts({"folder", reader.folder().string()});
  facts.add({"form", fmt::format("{}, format version {}", name_of(manifest.form), manifest.version)});
  facts.add({"size",
             fmt::format("{} in {}", human_bytes(manifest.bytes()), counted(static_cast<Count>(manifest.files.size()), "file"))});
  for_each_field(reader.state(), [&](const char* name, const auto& field) {
    const std::string text = join(split(fmt::format("{}", field), '\n'), "; ");  // the history has lines
    std::string heading = name;
    for (const std::string& line : wrapped(text, kFactColumns)) facts.add({std::exchange(heading, ""), line});
  });
  const std::string& tokenizer = reader.state().tokenizer;
  const std::string size = tokenizer.empty() ? "not in the checkpoint" : human_bytes(static_cast<Bytes>(tokenizer.size()));
  if (const std::string words = tokenizer_of(reader.state()); !words.empty())
    facts.add({"tokenizer", fmt::format("{} ({})", words, size)});
  fmt::print("{}\n", facts.str(2));
}

void print(const CheckpointReader& reader, const std::vector<ShownTensor>& tensors, const CkptShowOptions& options) {
  if (options.shards) {
    fmt::print("{}", file_contents(reader, tensors));
  } else if (!options.tensor.empty()) {
    for (const ShownTensor& tensor : tensors) fmt::print("{}\n", tensor_details(reader, tensor));
  } else {
    print_facts(reader);
    fmt::print("{}\n{} parameters; {}\n", tensor_tree(reader, tensors, !options.all),
               human_count(static_cast<double>(reader.manifest().parameters())),
               options.fast ? "elements not read" : "all checksums match");
  }
}

// Of a checkpoint that was found in its run's folder: those before it. One that was named alone is drawn alone.
std::vector<fs::path> earlier_checkpoints(const fs::path& named, const fs::path& folder, Count step) {
  std::vector<fs::path> earlier;
  if (named == folder) return earlier;
  for (const StoredCheckpoint& stored : list_checkpoints(named)) {
    if (stored.step < step) earlier.push_back(stored.folder);
  }
  return earlier;
}

int show(CkptShowOptions options) {
  if (!is_printing_rank()) return 0;
  const fs::path picture = options.svg.empty() ? fs::path() : output_file("--svg", options.svg, options.overwrite);
  const fs::path folder = resolve_checkpoint(options.path, options.step);
  const Manifest manifest = read_manifest(folder);
  const std::vector<std::string> missing = missing_files(folder, manifest);
  const std::string not_whole =
      missing.empty() ? "" : fmt::format("{}: {}", folder.string(), missing_files_text(missing, manifest));
  std::error_code error;
  const bool nothing_to_show = !options.svg.empty() || !fs::exists(folder / kModelFile, error);
  if (!missing.empty() && nothing_to_show) fail(ExitCode::checkpoint, "{}", not_whole);
  const CheckpointReader reader(folder);
  if (options.run_file) {
    fmt::print("{}", reader.state().run_file);
    return 0;
  }
  if (options.tokenizer) {
    if (reader.state().tokenizer.empty()) fail(ExitCode::usage, "--tokenizer: {} has no tokenizer", folder.string());
    fmt::print("{}\n", reader.state().tokenizer);
    return 0;
  }
  // Of one with parts missing everything but the elements is shown.
  options.fast = options.fast || !missing.empty();
  std::vector<ShownTensor> tensors = chosen_tensors(reader, options.tensor);
  const bool reads = !options.fast && (!options.shards || !options.svg.empty());
  if (reads) read_statistics(reader, tensors);
  if (!options.svg.empty()) {
    const std::vector<fs::path> earlier = earlier_checkpoints(options.path, folder, reader.state().step);
    write_file_atomically(picture, draw_checkpoint(picture_of(reader, tensors, earlier)));
  }
  if (options.json) {
    print_json(as_json(reader, tensors, missing));
  } else {
    print(reader, tensors, options);
    if (!options.svg.empty()) fmt::print("Drawn in {}\n", options.svg);
  }
  if (!missing.empty()) fail(ExitCode::checkpoint, "{}", not_whole);
  return 0;
}

}  // namespace

void add_ckpt_show(CLI::App& ckpt, Action& action) {
  auto* command = ckpt.add_subcommand("show", "Show the training state of a checkpoint and its tensors as a tree");
  command->footer(
      "Norm, min and max cover finite elements only. \"0..11\" is equal blocks on one line, with the\n"
      "ranges of their figures. If files are missing, everything but the elements is shown, and the exit code is 6.\n"
      "Examples:\n"
      "  cohort ckpt show runs/demo                                   the newest checkpoint of a run\n"
      "  cohort ckpt show runs/demo/checkpoints/step_00000400         this one\n"
      "  cohort ckpt show runs/demo --tensor 'blocks.0.*.weight'      these tensors, with histograms\n"
      "  cohort ckpt show runs/demo --svg weights.svg                 how values are spread, and how they changed\n"
      "  cohort ckpt show runs/demo --run-file > again.toml           the run file that it was trained with\n"
      "  cohort ckpt show runs/demo --tokenizer                       its tokenizer, as in a token file");
  const auto options = std::make_shared<CkptShowOptions>();
  command->add_option("path", options->path, "A checkpoint's folder, or a run's: its newest checkpoint")->required();
  add_step_option(*command, options->step);
  command->add_option("--tensor", options->tensor, "Only tensors of this name, in detail; * matches any characters");
  auto* fast = command->add_flag("--fast", options->fast, "Read no elements: names, shapes and sizes only");
  command->add_flag("--all", options->all, "One line per tensor, even for equal blocks");
  command->add_flag("--shards", options->shards, "Show which file holds what");
  command
      ->add_option("--svg", options->svg,
                   "Draw a histogram of each tensor into this file; of a run's folder also their change over its checkpoints")
      ->type_name("FILE")
      ->excludes(fast);
  add_overwrite_option(*command, options->overwrite, "the file of --svg");
  auto* json = command->add_flag("--json", options->json, "Print JSON");
  auto* run_file = command->add_flag("--run-file", options->run_file, "Print only the run file inside")->excludes(json);
  command->add_flag("--tokenizer", options->tokenizer, "Print only the tokenizer inside (JSON)")
      ->excludes(json)
      ->excludes(run_file);
  command->callback([&action, options] { action = [options] { return show(*options); }; });
}

}  // namespace cohort
