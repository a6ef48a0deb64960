#include "checkpoint/write/rewrite.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "base/error.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/load/stored_model.hpp"
#include "comm/self_communicator.hpp"

namespace cohort {
namespace {

bool is_value(std::string_view tensor) { return tensor.starts_with(kModelGroup); }
bool is_master(std::string_view tensor) { return tensor.starts_with(kMasterGroup); }
std::string master_of(std::string_view value) {
  return std::string(kMasterGroup) + std::string(value.substr(kModelGroup.size()));
}
bool has_optimizer_state(const Manifest& manifest) {
  return std::any_of(manifest.tensors().begin(), manifest.tensors().end(),
                     [](const ManifestTensor& tensor) { return !is_value(tensor.name); });
}

/// Reads stored elements for those who write them, and counts what is done.
class Stream {
 public:
  Stream(const CheckpointReader& source, const RewriteProgress& progress) : source_(source), progress_(progress) {}

  /// Part `part` of `from`, to be written as part of `tensor`.
  WriteItem part(const ManifestTensor& from, std::string tensor, int order, DType dtype, const TensorPart& part) {
    all_ += part.elements();
    return {std::move(tensor), order, dtype, part,
            [this, &from, part](Count begin, Count elements) { return read(from, part.slice(begin, elements)); }};
  }

 private:
  Tensor read(const ManifestTensor& from, const TensorPart& part) {
    buffer_.resize(static_cast<std::size_t>(part.elements() * size_of(from.dtype)));
    source_.read_stored(from, part, buffer_);
    done_ += part.elements();
    if (progress_) progress_(static_cast<double>(done_) / static_cast<double>(all_));
    return Tensor::wrap(buffer_.data(), {part.elements()}, from.dtype);
  }

  const CheckpointReader& source_;
  const RewriteProgress& progress_;
  std::vector<std::byte> buffer_;
  Count done_ = 0, all_ = 0;
};

/// Where each tensor's parameter comes in the model: values are listed in its order.
class ModelOrder {
 public:
  explicit ModelOrder(const Manifest& manifest) {
    for (const ManifestTensor& tensor : manifest.tensors()) {
      if (is_value(tensor.name)) places_.emplace(tensor.name.substr(kModelGroup.size()), static_cast<int>(places_.size()));
    }
  }
  /// "/model/PARAMETER" or "/optim/SLOT/PARAMETER". State of no parameter comes last.
  int of(const std::string& tensor) const {
    const std::size_t slot = is_value(tensor) ? 0 : tensor.find('/', 1);
    const std::size_t parameter = slot == std::string::npos ? slot : tensor.find('/', slot + 1);
    const auto found = parameter == std::string::npos ? places_.end() : places_.find(tensor.substr(parameter + 1));
    return found == places_.end() ? static_cast<int>(places_.size()) : found->second;
  }

 private:
  std::map<std::string, int> places_;
};

std::vector<WriteItem> whole_tensors(const Manifest& manifest, const ConsolidateOptions& options, Stream& stream) {
  std::vector<WriteItem> parts;
  const ModelOrder order(manifest);
  const bool keeps_state = !options.weights_only && has_optimizer_state(manifest);
  const auto add = [&](const ManifestTensor& from, const std::string& name, DType dtype) {
    parts.push_back(stream.part(from, name, order.of(name), dtype, TensorPart(from.shape)));
  };
  for (const ManifestTensor& tensor : manifest.tensors()) {
    if (!is_value(tensor.name)) {
      const bool made_anew = is_master(tensor.name) && options.model_dtype;  // beside its value, below
      if (keeps_state && !made_anew) add(tensor, tensor.name, tensor.dtype);
      continue;
    }
    if (!options.model_dtype) {
      add(tensor, tensor.name, tensor.dtype);
      continue;
    }
    const ManifestTensor& exact = *source_of(manifest, tensor.name);
    if (!can_be_read_as_fp32(exact.dtype)) {
      fail(ExitCode::config, "{} holds {} elements: only fp32, bf16 and fp16 weights can be converted", exact.name,
           name_of(exact.dtype));
    }
    add(exact, tensor.name, *options.model_dtype);
    const bool loses = size_of(*options.model_dtype) < size_of(DType::f32) && exact.dtype != *options.model_dtype;
    if (keeps_state && loses) add(exact, master_of(tensor.name), exact.dtype);
  }
  return parts;
}

// What the shards of the layout are made of: all that the checkpoint has, or an error.
std::vector<std::vector<WriteItem>> parts_of_ranks(const CheckpointReader& source, const FileLayout& layout, Stream& stream) {
  const Manifest& manifest = source.manifest();
  const bool has_state = has_optimizer_state(manifest);
  std::vector<std::uint8_t> wanted(manifest.tensors().size(), 0);
  std::vector<StateShard> one_of_each;
  std::vector<std::vector<WriteItem>> ranks(static_cast<std::size_t>(layout.ranks));
  std::set<std::string> known;
  for (int rank = 0; rank < layout.ranks; ++rank) {
    for (const StateShard& shard : layout.shards(rank)) {
      if (!shard.writes_share || (!has_state && !is_value(shard.tensor))) continue;
      if (known.insert(shard.tensor).second) one_of_each.push_back(shard);
      const auto add = [&](const std::string& name) {
        const ManifestTensor* tensor = manifest.find(name);
        if (tensor == nullptr || tensor->shape != shard.part.shape()) return;  // check_model tells
        wanted[static_cast<std::size_t>(tensor - manifest.tensors().data())] = 1;
        ranks[static_cast<std::size_t>(rank)].push_back(stream.part(*tensor, name, shard.order, tensor->dtype, shard.part));
      };
      add(shard.tensor);
      if (is_value(shard.tensor)) add(master_of(shard.tensor));
    }
  }
  check_model(source, source.state(), layout.model, one_of_each, wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] != 0) continue;
    fail(ExitCode::checkpoint,
         "{}: {} belongs to no optimizer known to this version of Cohort, so no rank of the layout would hold it",
         source.model_file(), manifest.tensors()[i].name);
  }
  return ranks;
}

}  // namespace

Saved consolidate_checkpoint(const CheckpointReader& source, const std::filesystem::path& run_folder,
                             const ConsolidateOptions& options, const RewriteProgress& progress) {
  Stream stream(source, progress);
  const std::unique_ptr<Communicator> self = make_self_communicator("checkpoint");
  return save_parts(*self, run_folder, whole_tensors(source.manifest(), options, stream), source.state(),
                    {.alone = false, .form = CheckpointForm::consolidated, .storage = options.storage});
}

Saved reshard_checkpoint(const CheckpointReader& source, const std::filesystem::path& run_folder, const FileLayout& layout,
                         const StorageOptions& storage, const RewriteProgress& progress) {
  Stream stream(source, progress);
  return save_parts_of_ranks(run_folder, parts_of_ranks(source, layout, stream), source.state(),
                             {.alone = false, .form = CheckpointForm::per_rank, .storage = storage});
}

}  // namespace cohort
