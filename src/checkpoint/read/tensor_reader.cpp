#include "checkpoint/read/tensor_reader.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/file.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {
namespace {

// A checkpoint of thousands of ranks has as many files, and a process may open a thousand or so.
constexpr std::size_t kOpenFiles = 32;
constexpr std::size_t kKeptBytes = std::size_t{32} << 20;  // of blocks

// The HDF5 layer takes names relative to the root group.
std::string relative(const std::string& dataset) { return dataset.starts_with('/') ? dataset.substr(1) : dataset; }

template <class T>
void copy_as_float(std::span<const std::byte> from, Count at, std::span<float> to) {
  if constexpr (std::is_same_v<T, float>) {
    std::memcpy(to.data(), from.data() + static_cast<std::size_t>(at) * sizeof(T), to.size_bytes());
  } else {
    for (std::size_t i = 0; i < to.size(); ++i) {
      T value;
      std::memcpy(&value, from.data() + (static_cast<std::size_t>(at) + i) * sizeof(T), sizeof(T));
      to[i] = static_cast<float>(to_float(value));
    }
  }
}

// Elements [at, at + |to|) of a block as fp32.
void copy_as_float(std::span<const std::byte> from, DType dtype, Count at, std::span<float> to) {
  switch (dtype) {
    case DType::f32:
      return copy_as_float<float>(from, at, to);
    case DType::bf16:
      return copy_as_float<bf16>(from, at, to);
    case DType::f16:
      return copy_as_float<f16>(from, at, to);
    default:
      COHORT_CHECK(false, "a {} tensor read as fp32", name_of(dtype));
  }
}

}  // namespace

bool can_be_read_as_fp32(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

TensorReader::TensorReader(std::filesystem::path folder, Manifest manifest)
    : folder_(std::move(folder)), manifest_(std::move(manifest)) {}

std::string TensorReader::file_name(std::size_t index) const { return (folder_ / manifest_.files.at(index).name).string(); }

const hdf5::File& TensorReader::file(std::size_t index) const {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const OpenFile& open) { return open.index == index; });
  if (found != open_.end()) {
    open_.splice(open_.begin(), open_, found);
    return open_.front().file;
  }
  check_size(index);
  check_content(index);
  if (open_.size() == kOpenFiles) open_.pop_back();
  open_.push_front({index, hdf5::File::open(file_name(index), ExitCode::checkpoint)});
  return open_.front().file;
}

void TensorReader::check_size(std::size_t index) const {
  const std::string path = file_name(index);
  const Bytes wanted = manifest_.files[index].bytes;
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error)
    fail(ExitCode::checkpoint, "{}: {}, but the manifest lists it: was the checkpoint copied without it, or is it being deleted?",
         path, error.message());
  if (static_cast<Bytes>(bytes) != wanted) {
    fail(ExitCode::checkpoint, "{}: {} bytes long, but {} were written: truncated or replaced; use another checkpoint", path,
         bytes, wanted);
  }
}

void TensorReader::check_content(std::size_t index) const {
  const std::optional<std::uint32_t> written = manifest_.files[index].crc32;
  if (!written) return;
  const std::string path = file_name(index);
  const std::string content = read_file(path, "checkpoint");
  const std::uint32_t crc = crc32_of(content.data(), static_cast<Bytes>(content.size()));
  if (crc == *written) return;
  fail(ExitCode::checkpoint, "{}: damaged, or from another checkpoint: checksum {:08x}, expected {:08x}; use another checkpoint",
       path, crc, *written);
}

hdf5::Dataset TensorReader::open(const ManifestTensor& tensor, const ManifestPart& part) const {
  hdf5::Dataset dataset = file(part.file).open_dataset(relative(part.dataset));
  const std::vector<Count> flat{part.part.elements()};
  const bool shaped = dataset.shape() == flat || (part.part.holds_whole_box() && dataset.shape() == part.part.box().count);
  if (!shaped || dataset.element() != hdf5::element_of(tensor.dtype)) {
    fail(ExitCode::checkpoint,
         "{}: {} is {} of shape [{}], but the manifest says {} of {} elements: damaged or edited; use another checkpoint",
         file_name(part.file), part.dataset, hdf5::name_of(dataset.element()), fmt::join(dataset.shape(), ", "),
         name_of(tensor.dtype), part.part.elements());
  }
  dataset.check_stored();
  return dataset;
}

void TensorReader::read_block(const hdf5::Dataset& dataset, const ManifestPart& part, Count block,
                              std::span<std::byte> into) const {
  FlightRecorder::of_process().beat();
  const Count begin = block * part.block;
  const Count elements = std::min(part.block, part.part.elements() - begin);
  dataset.read_range(begin, elements, into.data(), dataset.element());
  const std::uint32_t crc = crc32_of(into.data(), static_cast<Bytes>(into.size()));
  const std::uint32_t written = part.crc32[static_cast<std::size_t>(block)];
  if (crc == written) return;
  fail(ExitCode::checkpoint, "{}: {} is damaged: elements {} to {} have checksum {:08x}, expected {:08x}; use another checkpoint",
       file_name(part.file), part.dataset, begin, begin + elements, crc, written);
}

const std::vector<std::byte>& TensorReader::cached_block(const ManifestTensor& tensor, const ManifestPart& part,
                                                         Count number) const {
  const auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return block.number == number && block.file == part.file && block.dataset == part.dataset;
  });
  if (found != blocks_.end()) {
    blocks_.splice(blocks_.begin(), blocks_, found);
    return blocks_.front().elements;
  }
  const Count elements = std::min(part.block, part.part.elements() - number * part.block);
  const auto bytes = static_cast<std::size_t>(elements * size_of(tensor.dtype));
  std::size_t kept = bytes;
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    kept += block->elements.size();
    block = kept > kKeptBytes ? blocks_.erase(block) : std::next(block);
  }
  std::vector<std::byte> memory(bytes);
  read_block(open(tensor, part), part, number, memory);
  blocks_.push_front({part.file, part.dataset, number, std::move(memory)});
  return blocks_.front().elements;
}

// Reads whole blocks that lie in `into` as they are stored into their place at once: it has `into` for as many elements, or is
// empty. For the others calls use(block, i, at, n): elements [i, i + n) of the block are elements [at, at + n) of what is wanted.
template <class Use>
void TensorReader::for_each_piece(const ManifestTensor& tensor, const TensorPart& wanted, std::span<std::byte> into,
                                  const Use& use) const {
  const auto width = static_cast<std::size_t>(size_of(tensor.dtype));
  for (const ManifestPart& part : tensor.parts) {
    std::optional<hdf5::Dataset> dataset;
    const std::vector<std::byte>* block = nullptr;
    Count loaded = -1;
    for_each_overlap(part.part, wanted, [&](Count stored, Count at, Count n) {
      while (n > 0) {
        const Count number = stored / part.block, in_block = stored % part.block;
        const Count here = std::min(n, part.block - in_block);
        const bool whole = in_block == 0 && here == std::min(part.block, part.part.elements() - stored);
        if (whole && !into.empty()) {
          if (!dataset) dataset.emplace(open(tensor, part));
          read_block(*dataset, part, number,
                     into.subspan(static_cast<std::size_t>(at) * width, static_cast<std::size_t>(here) * width));
        } else {
          if (number != loaded) block = &cached_block(tensor, part, number);
          loaded = number;
          use(*block, in_block, at, here);
        }
        stored += here;
        at += here;
        n -= here;
      }
    });
  }
}

void TensorReader::read(const ManifestTensor& tensor, const TensorPart& wanted, std::span<float> into) const {
  COHORT_CHECK(wanted.shape() == tensor.shape && static_cast<Count>(into.size()) == wanted.elements(),
               "{}: a part of a tensor of shape {} read into {} elements", tensor.name, wanted.shape().str(), into.size());
  const std::span<std::byte> as_stored = tensor.dtype == DType::f32 ? std::as_writable_bytes(into) : std::span<std::byte>();
  for_each_piece(tensor, wanted, as_stored, [&](const std::vector<std::byte>& block, Count i, Count at, Count n) {
    copy_as_float(block, tensor.dtype, i, into.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(n)));
  });
}

void TensorReader::read_stored(const ManifestTensor& tensor, const TensorPart& wanted, std::span<std::byte> into) const {
  const Bytes width = size_of(tensor.dtype);
  COHORT_CHECK(wanted.shape() == tensor.shape && static_cast<Bytes>(into.size()) == wanted.elements() * width,
               "{}: a part of a tensor of shape {} read into {} bytes", tensor.name, wanted.shape().str(), into.size());
  for_each_piece(tensor, wanted, into, [&](const std::vector<std::byte>& block, Count i, Count at, Count n) {
    std::memcpy(into.data() + static_cast<std::size_t>(at * width), block.data() + static_cast<std::size_t>(i * width),
                static_cast<std::size_t>(n * width));
  });
}

TensorReader::Loaded TensorReader::read(const ManifestTensor& tensor) const {
  Loaded loaded;
  loaded.memory.resize(static_cast<std::size_t>(std::max<Bytes>(1, tensor.bytes())));
  loaded.tensor = Tensor::wrap(loaded.memory.data(), tensor.shape, tensor.dtype);
  const auto width = static_cast<std::size_t>(size_of(tensor.dtype));
  read_blocks(tensor, [&](const ManifestPart& part, Count begin, const Tensor& elements) {
    const auto* from = static_cast<const std::byte*>(elements.raw());
    for_each_run(part.part.slice(begin, elements.elements()), [&](Count i, Count at, Count n) {
      std::memcpy(loaded.memory.data() + static_cast<std::size_t>(at) * width, from + static_cast<std::size_t>(i) * width,
                  static_cast<std::size_t>(n) * width);
    });
  });
  return loaded;
}

void TensorReader::read_blocks(const ManifestTensor& tensor, const Take& take) const {
  const auto width = static_cast<std::size_t>(size_of(tensor.dtype));
  std::vector<std::byte> memory;
  for (const ManifestPart& part : tensor.parts) {
    const hdf5::Dataset dataset = open(tensor, part);
    for (Count block = 0; block < part.blocks(); ++block) {
      const Count begin = block * part.block;
      const Count elements = std::min(part.block, part.part.elements() - begin);
      memory.resize(static_cast<std::size_t>(elements) * width);
      read_block(dataset, part, block, memory);
      take(part, begin, Tensor::wrap(memory.data(), {elements}, tensor.dtype));
    }
  }
}

}  // namespace cohort
