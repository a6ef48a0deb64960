// manifest.json: what model.h5 must contain, byte for byte (see format.hpp). Its presence is what makes a folder a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/checksum.hpp"
#include "base/units.hpp"

namespace cohort {

struct ManifestEntry {
  std::string name;          // of the dataset: "/model/..."
  std::string dtype;         // "fp32", ..., or "text"
  std::vector<Count> shape;  // {} for text
  std::uint32_t crc32 = 0;   // of the elements as stored
};

struct Manifest {
  Count step = 0;
  std::string file;
  Bytes file_bytes = 0;
  std::vector<ManifestEntry> datasets;

  /// Null if there is none of that name.
  const ManifestEntry* find(const std::string& dataset) const;
};

/// The text of manifest.json, its own checksum included.
std::string to_json_text(const Manifest& manifest);

/// Reads and checks FOLDER/manifest.json. Errors (checkpoint): not there, damaged, not a Cohort checkpoint, a version newer than
/// known.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace cohort
