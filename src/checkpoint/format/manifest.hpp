// manifest.json: what the files of a checkpoint must contain, byte for byte (see format.hpp). Its presence is what makes a folder
// a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/box.hpp"
#include "base/checksum.hpp"
#include "base/dtype.hpp"
#include "base/units.hpp"

namespace cohort {

/// Who wrote the elements: one file of whole tensors, or each rank a file of what it held.
enum class CheckpointForm { consolidated, per_rank };
std::string_view name_of(CheckpointForm form);  // "consolidated", "per_rank"

struct ManifestFile {
  std::string name;  // within the checkpoint's folder
  Bytes bytes = 0;   // its exact size
  // Of all its bytes; only of the index of "per_rank", whose mappings HDF5 keeps without a checksum. Compared before HDF5 opens
  // the file: on damaged mappings HDF5 itself may crash.
  std::optional<std::uint32_t> crc32{};
};

/// Elements of a tensor that lie in one dataset of one file.
struct ManifestPart {
  std::size_t file = 0;  // index into Manifest::files
  std::string dataset;   // in that file
  TensorPart part;
  Count block = 0;                   // elements that a checksum covers; the last block may have fewer
  std::vector<std::uint32_t> crc32;  // of each block of the elements as stored

  Count blocks() const { return block_count(part.elements(), block); }
  static Count block_count(Count elements, Count block) { return elements / block + (elements % block != 0 ? 1 : 0); }
};

/// A logical tensor, and where its elements are.
struct ManifestTensor {
  std::string name;  // "/model/...", "/optim/m/..."
  DType dtype = DType::f32;
  Shape shape;
  std::vector<ManifestPart> parts;

  Count elements() const { return shape.elements(); }
  Bytes bytes() const { return elements() * size_of(dtype); }
};

class Manifest {
 public:
  Count version = 0;
  CheckpointForm form = CheckpointForm::consolidated;
  Count step = 0;
  std::vector<ManifestFile> files;                          // the first is model.h5
  std::map<std::string, std::uint32_t, std::less<>> texts;  // the checksum of each text dataset in it: "/run_file", ...

  /// In the order of the model: values, then optimizer states.
  const std::vector<ManifestTensor>& tensors() const { return tensors_; }
  void add(ManifestTensor tensor);
  /// Null if there is none of that name.
  const ManifestTensor* find(std::string_view name) const;
  /// The size of all files.
  Bytes bytes() const;
  /// Elements below /model.
  Count parameters() const;

 private:
  std::vector<ManifestTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

/// Throws Error(internal) unless the parts cover the tensor once (cover_once()).
void check_coverage(const std::string& name, const Shape& shape, std::vector<const TensorPart*> parts);

/// The text of manifest.json, its own checksum included.
std::string to_json_text(const Manifest& manifest);

/// The inverse; `path` is for messages. Errors (checkpoint): damaged, not a Cohort checkpoint, a version newer than known, parts
/// that do not cover their tensors once.
Manifest manifest_from_text(const std::string& text, const std::string& path);

/// Reads and checks FOLDER/manifest.json. Error (checkpoint) also if there is none.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace cohort
