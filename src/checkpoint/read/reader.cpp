#include "checkpoint/read/reader.hpp"

#include <type_traits>

#include "base/error.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/read/verify.hpp"

namespace cohort {

CheckpointReader::CheckpointReader(const std::filesystem::path& folder) : TensorReader(folder, read_manifest(folder)) {
  if (file(0).string_attribute("format") != kFormatName) fail(ExitCode::checkpoint, "{}: not a Cohort checkpoint", model_file());
  const Count version = file(0).int_attribute("version");
  if (version != manifest().version) {
    fail(ExitCode::checkpoint, "{}: format version {}, but the manifest has version {}: files of two checkpoints are mixed",
         model_file(), version, manifest().version);
  }
  read_state();
}

void CheckpointReader::read_state() {
  const hdf5::File& model = file(0);
  for_each_attribute(state_, [&](const char* name, auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if (manifest().version == 1 && !model.has_attribute(name)) return;  // added by version 2
    if constexpr (std::is_same_v<Field, std::string>) {
      field = model.string_attribute(name);
    } else {
      field = static_cast<Field>(model.int_attribute(name));
    }
  });
  if (state_.step != manifest().step) {
    fail(ExitCode::checkpoint, "{}: step {}, but the manifest is of step {}: files of two checkpoints are mixed", model_file(),
         state_.step, manifest().step);
  }
  for_each_text(state_, [&](const std::string& name, std::string& text) {
    // The manifest, which has a checksum of its own, says whether there is one: a lost tokenizer is not taken for an old format.
    if ("/" + name == kTokenizerDataset && !manifest().texts.contains(kTokenizerDataset)) return;
    if (manifest().version >= 3 || "/" + name == kRunFileDataset) {
      text = read_text(name);
    } else if (manifest().version == 2 || model.has_attribute(name)) {  // version 1 had no history
      text = model.string_attribute(name);
    }
  });
}

std::string CheckpointReader::read_text(const std::string& name) const {
  std::string text = file(0).read_text(name);
  const auto written = manifest().texts.find("/" + name);
  if (written == manifest().texts.end()) {
    fail(ExitCode::checkpoint, "{}: /{} has no checksum in the manifest: files of two checkpoints are mixed", model_file(), name);
  }
  const std::uint32_t crc = crc32_of(text.data(), static_cast<Bytes>(text.size()));
  if (crc != written->second) {
    fail(ExitCode::checkpoint, "{}: /{} is damaged: checksum {:08x}, expected {:08x}; use another checkpoint", model_file(), name,
         crc, written->second);
  }
  return text;
}

void CheckpointReader::verify() const {
  const std::vector<Damage> found = find_damage(*this);
  if (found.empty()) return;
  const std::string more = found.size() > 1 ? fmt::format(" (and {} more like it)", found.size() - 1) : "";
  fail(ExitCode::checkpoint, "{}{}", found.front().what, more);
}

TrainingState read_training_state(const std::filesystem::path& folder) { return CheckpointReader(folder).state(); }

}  // namespace cohort
