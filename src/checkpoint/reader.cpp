#include "checkpoint/reader.hpp"

#include <algorithm>
#include <type_traits>

#include "base/error.hpp"
#include "checkpoint/format.hpp"

namespace cohort {

CheckpointReader::CheckpointReader(const std::filesystem::path& folder) : TensorReader(folder, read_manifest(folder)) {
  if (file(0).string_attribute("format") != kFormatName) fail(ExitCode::checkpoint, "{}: not a Cohort checkpoint", model_file());
  const Count version = file(0).int_attribute("version");
  if (version != manifest().version) {
    fail(ExitCode::checkpoint,
         "{}: of format version {}, but the manifest is of version {}: the files of two checkpoints were mixed", model_file(),
         version, manifest().version);
  }
  read_state();
}

void CheckpointReader::read_state() {
  const hdf5::File& model = file(0);
  for_each_field(state_, [&](const char* name, auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if (manifest().version == 1 && !model.has_attribute(name)) return;  // added by version 2
    if constexpr (std::is_same_v<Field, std::string>) {
      field = model.string_attribute(name);
    } else {
      field = static_cast<Field>(model.int_attribute(name));
    }
  });
  if (state_.step != manifest().step) {
    fail(ExitCode::checkpoint, "{}: of step {}, but the manifest is of step {}: the files of two checkpoints were mixed",
         model_file(), state_.step, manifest().step);
  }
  state_.run_file = model.read_text(std::string(kRunFileDataset.substr(1)));
  const std::uint32_t crc = crc32_of(state_.run_file.data(), static_cast<Bytes>(state_.run_file.size()));
  if (crc != manifest().run_file_crc32) {
    fail(ExitCode::checkpoint, "{}: {} is damaged: its checksum is {:08x} where {:08x} was written; use another checkpoint",
         model_file(), kRunFileDataset, crc, manifest().run_file_crc32);
  }
}

void CheckpointReader::verify() const {
  check_no_strangers();
  check_files();
  for (const ManifestTensor& tensor : manifest().tensors()) {
    read_blocks(tensor, [](const ManifestPart&, Count, const Tensor&) {});
    if (manifest().form == CheckpointForm::consolidated) continue;
    const hdf5::Dataset view = file(0).open_dataset(tensor.name.substr(1));
    const std::vector<Count> shape = tensor.shape.dims() == 0 ? std::vector<Count>{1} : tensor.shape.vector();
    if (view.shape() != shape || view.element() != hdf5::element_of(tensor.dtype)) {
      fail(ExitCode::checkpoint, "{}: {} is {} of shape [{}] where the ranks wrote {} {}", model_file(), tensor.name,
           hdf5::name_of(view.element()), fmt::join(view.shape(), ", "), name_of(tensor.dtype), tensor.shape.str());
    }
  }
}

// A file of a rank that this checkpoint did not have was put there by somebody; nothing reads it, and nobody should wonder.
void CheckpointReader::check_no_strangers() const {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder(), error)) {
    const std::string name = entry.path().filename().string();
    const bool known = name == kManifestFile || std::any_of(manifest().files.begin(), manifest().files.end(),
                                                            [&](const ManifestFile& file) { return file.name == name; });
    if (!known && name.ends_with(".h5")) {
      fail(ExitCode::checkpoint, "{}: no part of this checkpoint, whose manifest does not list it: of another one? Remove it",
           entry.path().string());
    }
  }
  if (error) fail(ExitCode::io, "{}: cannot be listed: {}", folder().string(), error.message());
}

}  // namespace cohort
