#include "checkpoint/write/rank_files.hpp"

#include <future>
#include <map>
#include <nlohmann/json.hpp>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/format/root_rank.hpp"
#include "checkpoint/write/model_file.hpp"
#include "comm/consensus.hpp"
#include "hdf5/hdf5.hpp"

namespace cohort {
namespace {

// The attribute `note` of model.h5.
constexpr std::string_view kIndexNote =
    "The tensors of this file are virtual: their elements lie in the files rank_NNNNN.h5 beside it. Keep all files of the folder "
    "together: where one is missing, HDF5 shows the fill value (NaN; of integers the least, of unsigned ones the largest) "
    "without an error. `cohort ckpt verify FOLDER` says what is missing.";

// A rank may have several parts of a tensor.
std::string part_dataset(const std::string& tensor, int number) { return fmt::format("{}/{}", tensor, number); }

// What h5dump and h5py show beside the elements, so that a file explains itself without the manifest.
void describe(hdf5::Dataset& dataset, const std::string& tensor, const TensorPart& part) {
  dataset.set_attribute("tensor", tensor);
  dataset.set_attribute("global_shape", part.shape().vector());
  dataset.set_attribute("box_start", part.box().start);
  dataset.set_attribute("box_shape", part.box().count);
  dataset.set_attribute("begin", part.begin());
}

// What rank 0 does not know of a rank's file: its size, and the datasets and checksums of its parts.
std::string to_text(const RankFile& written) {
  nlohmann::json json{written.file.name, written.file.bytes, nlohmann::json::array()};
  for (const ManifestPart& part : written.parts) json[2].push_back({part.dataset, part.crc32});
  return json.dump();
}

// All but the parts' places in their tensors, which rank 0 knows.
RankFile file_from_text(const std::string& text, const std::vector<TensorPart>& parts) {
  const nlohmann::json json = nlohmann::json::parse(text);
  RankFile file{{json[0], json[1]}, {}};
  for (std::size_t i = 0; i < parts.size(); ++i)
    file.parts.push_back({0, json[2].at(i)[0], parts[i], kBlockElements, json[2][i][1]});
  return file;
}

// The manifest of what all ranks' files hold.
Manifest manifest_of(const std::vector<PlannedTensor>& tensors, std::vector<RankFile> files) {
  Manifest manifest;
  manifest.form = CheckpointForm::per_rank;
  std::vector<std::size_t> file_of_rank;
  for (const RankFile& file : files) {
    if (!file.parts.empty()) manifest.files.push_back(file.file);
    file_of_rank.push_back(manifest.files.size());
  }
  std::vector<std::size_t> next(files.size(), 0);  // each rank's parts came in the order in which they are listed
  for (const PlannedTensor& write_plan : tensors) {
    ManifestTensor tensor{write_plan.name, write_plan.dtype, write_plan.shape, {}};
    for (const PlannedTensor::Given& given : write_plan.parts) {
      const auto rank = static_cast<std::size_t>(given.rank);
      ManifestPart& part = tensor.parts.emplace_back(std::move(files[rank].parts.at(next[rank]++)));
      part.file = file_of_rank[rank];
    }
    manifest.add(std::move(tensor));
  }
  return manifest;
}

}  // namespace

std::string rank_file_name(int rank) { return fmt::format("rank_{:05}.h5", rank); }

RankFile write_rank_file(const std::filesystem::path& folder, int rank, const std::vector<WriteItem>& parts,
                         const StorageOptions& storage) {
  RankFile written;
  if (parts.empty()) return written;
  const std::string name = rank_file_name(rank);
  hdf5::File file = hdf5::File::create((folder / name).string(), ExitCode::io, file_options(storage));
  file.set_attribute("format", std::string(kFormatName));
  file.set_attribute("version", std::int64_t{kFormatVersion});
  file.set_attribute("rank", std::int64_t{rank});
  std::map<std::string, int> numbers;
  for (const WriteItem& p : parts) {
    StoredElements elements(p);
    const hdf5::Element element = hdf5::element_of(p.dtype);
    const std::string dataset_name = part_dataset(p.tensor, numbers[p.tensor]++);
    const bool shaped = p.part.holds_whole_box() && p.part.shape().dims() > 0;
    const std::vector<Count> shape = shaped ? p.part.box().count : std::vector<Count>{p.part.elements()};
    hdf5::Dataset dataset = file.create_dataset(dataset_name.substr(1), element, shape, dataset_layout(storage));
    describe(dataset, p.tensor, p.part);
    ManifestPart part{0, dataset_name, p.part, kBlockElements, {}};
    for (Count begin = 0; begin < p.part.elements(); begin += kBlockElements) {
      const Count n = std::min(kBlockElements, p.part.elements() - begin);
      const std::byte* const data = elements.read(begin, n);
      // Summed up while it is written: with zlib the one takes as long as the other.
      auto sums = std::async(std::launch::async, [&] { return block_sums(data, n, p.dtype); });
      dataset.write_range(begin, n, data, element);
      for (const std::uint32_t sum : sums.get()) part.crc32.push_back(sum);
    }
    written.parts.push_back(std::move(part));
  }
  file.close();
  written.file = finished_file(folder, name);
  return written;
}

void write_index(const std::filesystem::path& folder, Manifest& manifest, const TrainingState& state) {
  const std::string name(kModelFile);
  hdf5::File file = hdf5::File::create((folder / name).string(), ExitCode::io, {.virtual_datasets = true});
  for (const ManifestTensor& tensor : manifest.tensors()) {
    const hdf5::Element element = hdf5::element_of(tensor.dtype);
    std::vector<Count> shape = tensor.shape.vector();
    std::vector<hdf5::VirtualPart> parts;
    for (const ManifestPart& part : tensor.parts) {
      parts.push_back({part.part, manifest.files[part.file - 1].name, part.dataset, !part.part.holds_whole_box()});
    }
    if (shape.empty()) {  // HDF5 has no virtual scalars: vectors of one element stand for them
      shape = {1};
      parts.front().part = TensorPart(Shape{1});
    }
    file.create_virtual_dataset(tensor.name.substr(1), element, shape, parts);
  }
  write_state(file, state);
  file.set_attribute("note", std::string(kIndexNote));
  file.close();
  ManifestFile index = finished_file(folder, name);
  const std::string content = read_file(folder / name, "index of the checkpoint");
  index.crc32 = crc32_of(content.data(), static_cast<Bytes>(content.size()));
  manifest.files.insert(manifest.files.begin(), std::move(index));
}

Manifest write_rank_files(Communicator& comm, const std::filesystem::path& folder, const std::vector<WriteItem>& own,
                          const TrainingState& state, const StorageOptions& storage) {
  const std::vector<PlannedTensor> tensors = exchange_write_plan(comm, own);
  RankFile written;
  fail_together(comm, "saving the checkpoint", [&] { written = write_rank_file(folder, comm.rank(), own, storage); });
  const std::vector<std::string> texts = gather_texts(comm, to_text(written), kRoot);
  Manifest manifest;
  fail_together(comm, "saving the checkpoint", [&] {
    if (comm.rank() != kRoot) return;
    std::vector<std::vector<TensorPart>> parts(texts.size());
    for (const PlannedTensor& tensor : tensors) {
      for (const PlannedTensor::Given& given : tensor.parts) parts[static_cast<std::size_t>(given.rank)].push_back(given.part);
    }
    std::vector<RankFile> files;
    for (std::size_t rank = 0; rank < texts.size(); ++rank) files.push_back(file_from_text(texts[rank], parts[rank]));
    manifest = manifest_of(tensors, std::move(files));
    write_index(folder, manifest, state);
  });
  return manifest;
}

Manifest write_files_of_ranks(const std::filesystem::path& folder, const std::vector<std::vector<WriteItem>>& ranks,
                              const StorageOptions& storage) {
  const std::vector<PlannedTensor> tensors = write_plan_of_ranks(ranks);
  std::vector<RankFile> files;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    files.push_back(write_rank_file(folder, static_cast<int>(rank), ranks[rank], storage));
  return manifest_of(tensors, std::move(files));
}

}  // namespace cohort
