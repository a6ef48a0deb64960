#include "checkpoint/read/verify.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

#include "base/error.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/read/reader.hpp"

namespace cohort {
namespace {

class Search {
 public:
  Search(const TensorReader& reader, const ReadingProgress& progress)
      : reader_(reader), manifest_(reader.manifest()), progress_(progress), usable_(manifest_.files.size(), 1) {
    for (const ManifestTensor& tensor : manifest_.tensors()) all_ += tensor.bytes();
  }

  std::vector<Damage> run() {
    look_for_strangers();
    for (std::size_t index = 0; index < usable_.size(); ++index) {
      usable_[index] = collect(reader_.file_name(index), "", [&] { reader_.file(index); });
    }
    for (const ManifestTensor& tensor : manifest_.tensors()) {
      for (const ManifestPart& part : tensor.parts) read(tensor, part);
      if (manifest_.form == CheckpointForm::per_rank && usable_[0] != 0) check_view(tensor);
    }
    return std::move(found_);
  }

 private:
  /// Whether `work` went well.
  template <class Work>
  bool collect(const std::string& file, const std::string& dataset, const Work& work) {
    try {
      work();
      return true;
    } catch (const Error& error) {
      found_.push_back({file, dataset, error.what()});
      return false;
    }
  }

  void read(const ManifestTensor& tensor, const ManifestPart& part) {
    const Bytes end = done_ + part.part.elements() * size_of(tensor.dtype);
    if (usable_[part.file] != 0) {
      // By itself, so that damage in one part does not hide damage in the next.
      const ManifestTensor alone{tensor.name, tensor.dtype, tensor.shape, {part}};
      collect(reader_.file_name(part.file), part.dataset, [&] {
        reader_.read_blocks(alone, [&](const ManifestPart&, Count, const Tensor& elements) {
          done_ += elements.bytes();
          if (progress_) progress_(done_, all_);
        });
      });
    }
    done_ = end;
  }

  void check_view(const ManifestTensor& tensor) {
    collect(reader_.file_name(0), tensor.name, [&] {
      const hdf5::Dataset view = reader_.file(0).open_dataset(tensor.name.substr(1));
      const std::vector<Count> shape = tensor.shape.dims() == 0 ? std::vector<Count>{1} : tensor.shape.vector();
      if (view.shape() == shape && view.element() == hdf5::element_of(tensor.dtype)) return;
      fail(ExitCode::checkpoint, "{}: {} is {} of shape [{}] where the ranks wrote {} {}", reader_.file_name(0), tensor.name,
           hdf5::name_of(view.element()), fmt::join(view.shape(), ", "), name_of(tensor.dtype), tensor.shape.str());
    });
  }

  // A file of a rank that this checkpoint did not have was put there by somebody; nothing reads it, and nobody should wonder.
  void look_for_strangers() {
    std::vector<std::string> strangers;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(reader_.folder(), error)) {
      const std::string name = entry.path().filename().string();
      const bool known = name == kManifestFile || std::any_of(manifest_.files.begin(), manifest_.files.end(),
                                                              [&](const ManifestFile& file) { return file.name == name; });
      if (!known && name.ends_with(".h5")) strangers.push_back(entry.path().string());
    }
    if (error) fail(ExitCode::io, "{}: cannot be listed: {}", reader_.folder().string(), error.message());
    std::sort(strangers.begin(), strangers.end());
    for (const std::string& path : strangers) {
      found_.push_back({path, "", path + ": not listed in the checkpoint's manifest: from another checkpoint? Remove it"});
    }
  }

  const TensorReader& reader_;
  const Manifest& manifest_;
  const ReadingProgress& progress_;
  std::vector<std::uint8_t> usable_;  // for each file: it opens
  std::vector<Damage> found_;
  Bytes done_ = 0;
  Bytes all_ = 0;
};

}  // namespace

std::vector<Damage> find_damage(const TensorReader& reader, const ReadingProgress& progress) {
  return Search(reader, progress).run();
}

std::vector<Damage> find_damage(const std::filesystem::path& folder, const ReadingProgress& progress) {
  Manifest manifest;
  try {
    manifest = read_manifest(folder);
  } catch (const Error& error) {
    return {Damage{(folder / kManifestFile).string(), "", error.what()}};
  }
  const TensorReader reader(folder, std::move(manifest));
  std::vector<Damage> found = find_damage(reader, progress);
  const std::string model_file = reader.file_name(0);
  const bool opens = std::none_of(found.begin(), found.end(),
                                  [&](const Damage& damage) { return damage.file == model_file && damage.dataset.empty(); });
  if (!opens) return found;  // that says it already
  try {
    const CheckpointReader state(folder);
  } catch (const Error& error) {
    found.push_back({model_file, "", error.what()});
  }
  return found;
}

}  // namespace cohort
