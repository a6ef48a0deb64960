// Checkpoints to and from the folders of other tools:
//   hf            what Hugging Face's transformers loads: config.json and safetensors under its names (hf_layout.hpp)
//   peft          the adapters of a checkpoint that has some, as PEFT has them (adapters.hpp)
//   safetensors   the same files under Cohort's own names, and run.toml, the run file that says what model they are
// Weights and tokenizer, no optimizer state. The tokenizer of a checkpoint that has one goes into cohort_tokenizer.json, in
// Cohort's own form whatever its kind; in hf a BPE one goes into tokenizer.json as well, for transformers. Neither direction
// needs MPI, or memory for more than the largest tensor (and a copy of it where it is transposed).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "config/run_config.hpp"
#include "interchange/safetensors.hpp"
#include "interchange/tensor_source.hpp"

namespace cohort {

enum class FolderFormat { hf, safetensors, peft };

struct ExportOptions {
  std::filesystem::path checkpoint;  // or a run
  std::filesystem::path folder;
  FolderFormat format = FolderFormat::hf;
  DType dtype = DType::f32;
  Bytes shard_bytes = 5'000'000'000;
  bool overwrite = false;  // the folder may hold an earlier export of Cohort's, which is deleted
};

struct Exported {
  std::filesystem::path checkpoint;
  std::vector<std::string> files;  // in the folder
  std::string model_kind;
  Count tensors = 0;
  Count parameters = 0;
  std::string tokenizer = {};  // the file that transformers or Cohort reads it from; "" if the checkpoint has none
};

/// Writes the folder. The file that names the model (config.json, run.toml) comes last: a folder without it is unfinished.
/// Adapters go into hf folded into the weights. Refused before anything is written: an mlp as hf, a checkpoint without adapters
/// as peft, a checkpoint whose tensors are not those of its run file, a folder that is not empty, and, with `overwrite`, one that
/// holds such files of somebody else's. Errors: config, checkpoint, usage (the folder), io.
Exported export_checkpoint(const ExportOptions& options);

/// Deletes what an export wrote to the folder, and the folder if nothing is left. Error (usage) if such files of somebody else's
/// are in it, (io) if it cannot be done.
void delete_exported(const std::filesystem::path& folder);

/// A folder of either format, opened and checked against its configuration; weights are read as they are asked for.
class ImportFolder {
 public:
  /// Errors (checkpoint) name the file, and the key or the tensors: no configuration in it, a model that ours cannot be, missing
  /// or extra tensors, tensors of another shape or type.
  explicit ImportFolder(const std::filesystem::path& folder);

  FolderFormat format() const { return format_; }
  const ModelSection& model() const { return config_.model; }
  /// Of hf: the model and defaults; of safetensors: the run file that was exported with it.
  const RunConfig& config() const { return config_; }
  /// Under the names of the model's parameters, in its order.
  const TensorSource& weights() const { return *weights_; }
  /// Serialised (data/tokenizer.hpp); "" if the folder has none that Cohort knows.
  const std::string& tokenizer() const { return tokenizer_; }
  /// What a user should know of the folder's files.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void find_tokenizer(const std::filesystem::path& folder);

  FolderFormat format_ = FolderFormat::hf;
  RunConfig config_;
  std::unique_ptr<SafetensorsFolder> stored_;
  std::unique_ptr<TensorSource> weights_;  // a view of stored_
  std::string tokenizer_;
  std::vector<std::string> notes_;
};

/// Throws Error(usage), which tells of --overwrite, if `folder` exists and is not an empty folder.
void require_empty(const std::filesystem::path& folder);

}  // namespace cohort
