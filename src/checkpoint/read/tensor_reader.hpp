// The tensors of a stored checkpoint, read in parts: whatever a rank wants, from whichever files hold it. No element is handed
// out whose checksum was not compared. Checksums are of blocks, so a block is read whole; the last few are kept for the next
// call, which often wants another part of them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.hpp"
#include "hdf5/hdf5.hpp"
#include "tensor/tensor.hpp"

namespace cohort {

/// fp32, bf16, fp16.
bool can_be_read_as_fp32(DType dtype);

class TensorReader {
 public:
  /// Opens no file yet.
  TensorReader(std::filesystem::path folder, Manifest manifest);

  const std::filesystem::path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  /// Reads the elements of `tensor` that `wanted` names, as fp32, into `into`, of as many elements, in the order of the part.
  /// Reads only the blocks (manifest) that hold some of them. `tensor` is one of the manifest's, of a floating type. Errors
  /// (checkpoint) name file and dataset: missing, of another size than the manifest says, not HDF5, of another shape or type,
  /// damaged.
  void read(const ManifestTensor& tensor, const TensorPart& wanted, std::span<float> into) const;
  /// The same for elements of any type, as they are stored.
  void read_stored(const ManifestTensor& tensor, const TensorPart& wanted, std::span<std::byte> into) const;

  /// The whole tensor as it is stored, in memory of its own, which needs no running Kokkos.
  struct Loaded {
    std::vector<std::byte> memory;
    Tensor tensor;  // a view of it
  };
  Loaded read(const ManifestTensor& tensor) const;

  /// Reads all elements of one tensor once, in blocks, in the order in which they are stored; take(part, begin, elements) gets
  /// elements [begin, begin + |elements|) of a part as stored.
  using Take = std::function<void(const ManifestPart& part, Count begin, const Tensor& elements)>;
  void read_blocks(const ManifestTensor& tensor, const Take& take) const;

  /// Checks that a file is there and of its size, without opening it.
  void check_size(std::size_t index) const;

  /// One of the files, opened; for messages and the training state.
  const hdf5::File& file(std::size_t index) const;
  std::string file_name(std::size_t index) const;

 private:
  struct Block {
    std::size_t file;
    std::string dataset;
    Count number;
    std::vector<std::byte> elements;
  };

  void check_content(std::size_t index) const;
  hdf5::Dataset open(const ManifestTensor& tensor, const ManifestPart& part) const;
  void read_block(const hdf5::Dataset& dataset, const ManifestPart& part, Count block, std::span<std::byte> into) const;
  const std::vector<std::byte>& cached_block(const ManifestTensor& tensor, const ManifestPart& part, Count block) const;
  template <class Use>
  void for_each_piece(const ManifestTensor& tensor, const TensorPart& wanted, std::span<std::byte> into, const Use& use) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  struct OpenFile {
    std::size_t index;
    hdf5::File file;
  };
  mutable std::list<OpenFile> open_;  // the one used last comes first
  mutable std::list<Block> blocks_;   // likewise
};

}  // namespace cohort
