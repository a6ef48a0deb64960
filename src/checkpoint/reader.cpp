#include "checkpoint/reader.hpp"

#include <type_traits>

#include "base/error.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/verify.hpp"

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
  const std::vector<Damage> found = find_damage(*this);
  if (found.empty()) return;
  const std::string more = found.size() > 1 ? fmt::format(" (and {} more like it)", found.size() - 1) : "";
  fail(ExitCode::checkpoint, "{}{}", found.front().what, more);
}

}  // namespace cohort
