#include "checkpoint/reader.hpp"

#include <algorithm>
#include <type_traits>

#include "base/error.hpp"
#include "checkpoint/format.hpp"

namespace cohort {
namespace {

// The HDF5 layer takes names relative to the root group.
std::string relative(const std::string& dataset) { return dataset.starts_with('/') ? dataset.substr(1) : dataset; }

hdf5::File open_model_file(const std::string& path, const Manifest& manifest) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) fail(ExitCode::checkpoint, "{}: {}; the manifest beside it says that it was written", path, error.message());
  if (static_cast<Bytes>(bytes) != manifest.file_bytes) {
    fail(ExitCode::checkpoint, "{}: {} bytes long, but {} were written: truncated or replaced; use another checkpoint", path,
         bytes, manifest.file_bytes);
  }
  return hdf5::File::open(path, ExitCode::checkpoint);
}

}  // namespace

CheckpointReader::CheckpointReader(const std::filesystem::path& folder)
    : file_name_((folder / kModelFile).string()),
      manifest_(read_manifest(folder)),
      file_(open_model_file(file_name_, manifest_)) {
  if (file_.string_attribute("format") != kFormatName) fail(ExitCode::checkpoint, "{}: not a Cohort checkpoint", file_name_);
  const Count version = file_.int_attribute("version");
  if (version > kFormatVersion) {
    fail(ExitCode::checkpoint, "{}: format version {}, but this Cohort knows versions up to {}: use a newer Cohort", file_name_,
         version, kFormatVersion);
  }
  read_state();
}

void CheckpointReader::read_state() {
  for_each_field(state_, [&](const char* name, auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, std::string>) {
      field = file_.string_attribute(name);
    } else {
      field = static_cast<Field>(file_.int_attribute(name));
    }
  });
  if (state_.step != manifest_.step) {
    fail(ExitCode::checkpoint, "{}: of step {}, but the manifest is of step {}: the files of two checkpoints were mixed",
         file_name_, state_.step, manifest_.step);
  }
  state_.run_file = file_.read_text(relative(std::string(kRunFileDataset)));
  const ManifestEntry* entry = manifest_.find(std::string(kRunFileDataset));
  if (entry == nullptr) fail(ExitCode::checkpoint, "{}: the manifest does not list {}", file_name_, kRunFileDataset);
  check_crc(*entry, crc32_of(state_.run_file.data(), static_cast<Bytes>(state_.run_file.size())));
}

std::vector<std::string> CheckpointReader::children(const std::string& group) const {
  if (!file_.has_group(relative(group))) return {};
  return file_.open_group(relative(group)).children();
}

void CheckpointReader::read(const ManifestEntry& entry, const Tensor& into) const {
  COHORT_CHECK(into.shape().vector() == entry.shape && name_of(into.dtype()) == entry.dtype,
               "{}: {} read into a {} tensor of shape {}", entry.name, entry.dtype, name_of(into.dtype()), into.shape().str());
  const hdf5::Dataset dataset = file_.open_dataset(relative(entry.name));
  if (dataset.shape() != entry.shape || dataset.element() != hdf5::element_of(into.dtype())) {
    fail(ExitCode::checkpoint,
         "{}: {} is {} of shape {}, but the manifest says {} of shape {}: damaged or edited; use another checkpoint", file_name_,
         entry.name, hdf5::name_of(dataset.element()), fmt::format("[{}]", fmt::join(dataset.shape(), ", ")), entry.dtype,
         fmt::format("[{}]", fmt::join(entry.shape, ", ")));
  }
  const Tensor host = into.on_host() ? into : Tensor::zeros("checkpoint", into.shape(), into.dtype());
  dataset.read_raw(host.raw(), host.elements(), dataset.element());
  check_crc(entry, crc32_of(host.raw(), host.bytes()));
  if (!into.on_host()) into.copy_from(host);
}

CheckpointReader::Loaded CheckpointReader::read(const ManifestEntry& entry) const {
  if (entry.shape.size() > Shape::kMaxDims) {
    fail(ExitCode::checkpoint, "{}: {} has {} dims, more than {}", file_name_, entry.name, entry.shape.size(), Shape::kMaxDims);
  }
  const Shape shape(entry.shape);
  const DType dtype = dtype_from_name(entry.dtype);
  Loaded loaded;
  loaded.memory.resize(static_cast<std::size_t>(std::max<Bytes>(1, shape.elements() * size_of(dtype))));
  loaded.tensor = Tensor::wrap(loaded.memory.data(), shape, dtype);
  read(entry, loaded.tensor);
  return loaded;
}

void CheckpointReader::verify() const {
  for (const ManifestEntry& entry : manifest_.datasets) {
    if (entry.dtype != kTextDType) read(entry);  // the text was checked when the file was opened
  }
}

void CheckpointReader::check_crc(const ManifestEntry& entry, std::uint32_t crc) const {
  if (crc == entry.crc32) return;
  fail(ExitCode::checkpoint, "{}: {} is damaged: its checksum is {:08x} where {:08x} was written; use another checkpoint",
       file_name_, entry.name, crc, entry.crc32);
}

}  // namespace cohort
