#include "interchange/exchange.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/file.hpp"
#include "config/run_file.hpp"
#include "data/bpe/bpe_model.hpp"
#include "data/tokenizer_kind.hpp"
#include "interchange/adapters.hpp"
#include "interchange/checkpoint_weights.hpp"
#include "interchange/hf_config.hpp"
#include "interchange/hf_layout.hpp"
#include "interchange/safetensors.hpp"
#include "interchange/safetensors_header.hpp"
#include "interchange/safetensors_writer.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigFile = "config.json";
constexpr const char* kRunFile = "run.toml";
constexpr const char* kTokenizerFile = "cohort_tokenizer.json";
constexpr const char* kHfTokenizerFile = "tokenizer.json";
constexpr const char* kSentencePieceFile = "tokenizer.model";
constexpr const char* kWriterKey = "written_by";  // in the metadata of each file of weights
constexpr const char* kWriter = "cohort";

bool is_export_file(const std::string& name) {
  return name == kConfigFile || name == kRunFile || name == kTokenizerFile || name == kHfTokenizerFile || name == kSingleFile ||
         name == kIndexFile || name == kPeftConfigFile || name == kPeftWeightsFile ||
         (name.starts_with("model-") && name.ends_with(".safetensors"));
}

bool is_weights_file(const std::string& name) { return name.ends_with(".safetensors"); }

// By what write_safetensors() leaves in the metadata of each of its files.
bool was_exported_here(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::array<unsigned char, 8> prefix{};
  stream.read(reinterpret_cast<char*>(prefix.data()), prefix.size());
  Bytes length = 0;
  for (std::size_t i = prefix.size(); i-- > 0;) length = length << 8 | prefix[i];
  const auto size = static_cast<Bytes>(fs::file_size(file));
  if (!stream || length < 0 || length > std::min<Bytes>(kMaxSafetensorsHeader, size - 8)) return false;
  std::string json(static_cast<std::size_t>(length), ' ');
  stream.read(json.data(), length);
  try {
    const SafetensorsHeader header = parse_safetensors_header(json, size - 8 - length, file.string());
    const auto writer = header.metadata.find(kWriterKey);
    return writer != header.metadata.end() && writer->second == kWriter;
  } catch (const Error&) {
    return false;
  }
}

// Before anything is replaced: what has a name of an export's files was exported by Cohort. config.json and the like say nothing
// of that themselves; they come with weights.
void require_own_export(const fs::path& folder) {
  const auto refuse = [&](const fs::path& file) {
    fail(ExitCode::usage,
         "{} was not exported by Cohort, and --overwrite replaces only exports: choose another --out, or move it away",
         file.string());
  };
  std::optional<fs::path> description;
  bool has_own_weights = false;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!is_export_file(name)) continue;
    if (!is_weights_file(name)) {
      description = entry->path();
    } else if (was_exported_here(entry->path())) {
      has_own_weights = true;
    } else {
      refuse(entry->path());
    }
  }
  if (description && !has_own_weights) refuse(*description);
}

// Leftovers of an export that had other files must not be taken for parts of the new one. What names the model goes first: the
// folder counts as unfinished from then on.
void delete_export(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {kConfigFile, kRunFile, kIndexFile, kTokenizerFile, kHfTokenizerFile, kPeftConfigFile})
    fs::remove(folder / name, error);
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (is_export_file(entry.path().filename().string())) files.push_back(entry.path());
  }
  for (const fs::path& file : files) {
    if (!error) fs::remove(file, error);
  }
  if (error) fail(ExitCode::io, "cannot delete the contents of '{}': {}", folder.string(), error.message());
}

// The parameters themselves, in their order, of a source that has them in any.
class InOrder : public TensorSource {
 public:
  InOrder(const TensorSource& source, const ModelSection& model) : source_(source), tensors_(parameters_of(model)) {
    for (std::size_t i = 0; i < source.tensors().size(); ++i) positions_[source.tensors()[i].name] = i;
  }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  void read(std::size_t index, std::vector<float>& into) const override {
    source_.read(positions_.at(tensors_.at(index).name), into);
  }

 private:
  const TensorSource& source_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::size_t> positions_;
};

// The files of a checkpoint's tokenizer, the one to tell of last.
std::vector<std::string> write_tokenizer(const fs::path& folder, const std::string& serialised, bool hf,
                                         const std::string& where) {
  if (serialised.empty()) return {};
  std::vector<std::string> files{kTokenizerFile};
  write_file_atomically(folder / kTokenizerFile, serialised + '\n');
  const BpeModel* bpe = nullptr;
  const auto tokenizer = read_tokenizer(serialised, where);
  if (hf) bpe = tokenizer->bpe();
  if (bpe == nullptr) return files;
  write_file_atomically(folder / kHfTokenizerFile, to_tokenizer_json(*bpe));
  files.emplace_back(kHfTokenizerFile);
  return files;
}

// What an export in a format holds beside the tokenizer.
struct Contents {
  std::string description_file;
  std::string description;
  std::unique_ptr<TensorSource> folded;  // what weights is a view of, if not of the checkpoint
  std::unique_ptr<TensorSource> weights;
};

std::unique_ptr<TensorSource> in_order(const TensorSource& source, const ModelSection& model, const std::string& where) {
  require_tensors(where, parameters_of(model), source.tensors());
  return std::make_unique<InOrder>(source, model);
}

Contents contents_of(const CheckpointWeights& ours, const RunConfig& config, const ExportOptions& options,
                     const std::string& where) {
  const ModelSection model = resolved_model(config.model, where);
  if (options.format == FolderFormat::safetensors)
    return {kRunFile, ours.state().run_file, nullptr, in_order(ours, model, where)};
  if (options.format == FolderFormat::peft) {
    if (model.lora.rank == 0)
      fail(ExitCode::usage, "{} has no adapters: it was not trained with [lora]; --format hf exports its weights", where);
    return {kPeftConfigFile, peft_config_json(model), nullptr, as_peft(ours, model, where)};
  }
  Contents contents{kConfigFile, hf_config_json(model, options.dtype), nullptr, nullptr};
  if (model.lora.rank == 0) {
    contents.weights = as_hugging_face(ours, model, where);
    return contents;
  }
  ModelSection base = model;
  base.lora = {};
  contents.folded = merged(ours, model, where);
  contents.weights = as_hugging_face(*contents.folded, base, where);
  return contents;
}

}  // namespace

void require_empty(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (!fs::exists(status)) return;
  if (fs::is_directory(status) && fs::is_empty(folder, error)) return;
  fail(ExitCode::usage, "{} exists and is not an empty folder: choose another --out, or replace its contents with --overwrite",
       folder.string());
}

void delete_exported(const fs::path& folder) {
  require_own_export(folder);
  delete_export(folder);
  std::error_code not_empty;
  fs::remove(folder, not_empty);
}

Exported export_checkpoint(const ExportOptions& options) {
  const CheckpointWeights ours(options.checkpoint);
  const std::string where = ours.folder().string();
  const RunConfig config = parse_saved_run_file(ours.state().run_file, where + ", its run file");
  const Contents contents = contents_of(ours, config, options, where);
  if (!options.overwrite) require_empty(options.folder);
  if (fs::exists(options.folder / "checkpoints")) {  // its run.toml is not ours to delete
    fail(ExitCode::usage, "{} is a run's folder: choose another --out", options.folder.string());
  }

  require_own_export(options.folder);
  make_folders(options.folder);
  delete_export(options.folder);
  Exported exported{ours.folder(), {}, config.model.kind, static_cast<Count>(contents.weights->tensors().size()), 0};
  // transformers wants to know for which library the tensors were laid out.
  const std::map<std::string, std::string> metadata{{"format", "pt"}, {kWriterKey, kWriter}};
  const bool peft = options.format == FolderFormat::peft;
  const Bytes shard_bytes = peft ? std::numeric_limits<Bytes>::max() : options.shard_bytes;  // one file
  exported.files = write_safetensors(options.folder, *contents.weights, {options.dtype, shard_bytes, metadata});
  if (peft) {
    fs::rename(options.folder / kSingleFile, options.folder / kPeftWeightsFile);
    exported.files = {kPeftWeightsFile};
  } else {
    for (std::string& file : write_tokenizer(options.folder, ours.state().tokenizer, options.format == FolderFormat::hf, where))
      exported.files.push_back(exported.tokenizer = std::move(file));
  }
  exported.files.push_back(contents.description_file);
  write_file_atomically(options.folder / exported.files.back(), contents.description);
  for (const TensorInfo& tensor : contents.weights->tensors()) exported.parameters += tensor.shape.elements();
  return exported;
}

ImportFolder::ImportFolder(const fs::path& folder) {
  const fs::path config_file = folder / kConfigFile;
  const fs::path run_file = folder / kRunFile;
  if (fs::exists(config_file)) {
    config_.model = read_hf_config(config_file);
    stored_ = std::make_unique<SafetensorsFolder>(folder);
    weights_ = as_cohort(*stored_, config_.model, folder.string());
  } else if (fs::exists(run_file)) {
    format_ = FolderFormat::safetensors;
    config_ = parse_saved_run_file(read_file(run_file, "run file"), run_file.string());
    config_.model = resolved_model(config_.model, run_file.string());
    stored_ = std::make_unique<SafetensorsFolder>(folder);
    weights_ = in_order(*stored_, config_.model, folder.string());
  } else {
    fail(ExitCode::checkpoint, "{}: contains neither {} (Hugging Face) nor {} (safetensors of Cohort)", folder.string(),
         kConfigFile, kRunFile);
  }
  notes_ = stored_->notes();
  find_tokenizer(folder);
}

// Models of SentencePiece often come as tokenizer.json, too, with steps that Cohort does not have.
static std::unique_ptr<Tokenizer> open_folder(const fs::path& folder) {
  try {
    return open_tokenizer(folder);
  } catch (const Error&) {
    if (!fs::exists(folder / kSentencePieceFile)) throw;
    return open_tokenizer(folder / kSentencePieceFile);
  }
}

// Weights are of use without one, so another's tokenizer that Cohort cannot have is no error.
void ImportFolder::find_tokenizer(const fs::path& folder) {
  const bool ours = fs::exists(folder / kTokenizerFile);
  const bool pair = fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt");
  const bool has_model = fs::exists(folder / kSentencePieceFile);
  if (!ours && !pair && !has_model && !fs::exists(folder / kHfTokenizerFile)) return;
  const fs::path file = ours ? folder / kTokenizerFile : folder;
  try {
    const auto tokenizer = ours ? read_tokenizer(read_file(file, "tokenizer"), file.string()) : open_folder(folder);
    if (tokenizer->vocabulary_size() > model().vocabulary) {
      fail(ExitCode::data, "{}: {} tokens, but the model has rows for {}", file.string(), tokenizer->vocabulary_size(),
           model().vocabulary);
    }
    tokenizer_ = tokenizer->serialise();
  } catch (const Error& error) {
    notes_.push_back(fmt::format("the tokenizer was not imported: {}", error.what()));
  }
}

}  // namespace cohort
