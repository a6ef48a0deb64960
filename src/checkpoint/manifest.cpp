#include "checkpoint/manifest.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "checkpoint/format.hpp"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kChecksumKey = "\"manifest_crc32\": \"";
constexpr std::size_t kChecksumDigits = 8;
constexpr std::string_view kNoChecksum = "00000000";

std::string hex(std::uint32_t crc) { return fmt::format("{:08x}", crc); }

/// Puts the checksum of `text`, in which it stands as zeros, in its place. Returns false if the text has no such place.
bool seal(std::string& text) {
  const std::size_t key = text.rfind(kChecksumKey);
  if (key == std::string::npos || key + kChecksumKey.size() + kChecksumDigits > text.size()) return false;
  text.replace(key + kChecksumKey.size(), kChecksumDigits, kNoChecksum);
  const std::uint32_t crc = crc32_of(text.data(), static_cast<Bytes>(text.size()));
  text.replace(key + kChecksumKey.size(), kChecksumDigits, hex(crc));
  return true;
}

Manifest from_json(const Json& json) {
  Manifest manifest;
  manifest.step = json.at("step").get<Count>();
  manifest.file = json.at("file").get<std::string>();
  manifest.file_bytes = json.at("file_bytes").get<Bytes>();
  for (const Json& dataset : json.at("datasets")) {
    ManifestEntry entry;
    entry.name = dataset.at("name").get<std::string>();
    entry.dtype = dataset.at("dtype").get<std::string>();
    entry.shape = dataset.at("shape").get<std::vector<Count>>();
    entry.crc32 = static_cast<std::uint32_t>(std::stoul(dataset.at("crc32").get<std::string>(), nullptr, 16));
    manifest.datasets.push_back(std::move(entry));
  }
  return manifest;
}

}  // namespace

const ManifestEntry* Manifest::find(const std::string& dataset) const {
  const auto found =
      std::find_if(datasets.begin(), datasets.end(), [&](const ManifestEntry& entry) { return entry.name == dataset; });
  return found == datasets.end() ? nullptr : &*found;
}

std::string to_json_text(const Manifest& manifest) {
  Json json;
  json["format"] = kFormatName;
  json["version"] = kFormatVersion;
  json["step"] = manifest.step;
  json["file"] = manifest.file;
  json["file_bytes"] = manifest.file_bytes;
  json["datasets"] = Json::array();
  for (const ManifestEntry& entry : manifest.datasets) {
    json["datasets"].push_back(
        {{"name", entry.name}, {"dtype", entry.dtype}, {"shape", entry.shape}, {"crc32", hex(entry.crc32)}});
  }
  json["manifest_crc32"] = kNoChecksum;
  std::string text = json.dump(1) + "\n";
  COHORT_CHECK(seal(text), "the manifest has no place for its checksum");
  return text;
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifestFile;
  std::error_code unreadable;
  if (!std::filesystem::exists(path, unreadable) && !unreadable) {
    fail(ExitCode::checkpoint, "{}: not there, so this folder is not a checkpoint; a save that was cut short leaves no manifest",
         path.string());
  }
  const std::string text = read_file(path, "manifest");
  std::string sealed = text;
  if (!seal(sealed) || sealed != text) {
    fail(ExitCode::checkpoint, "{}: damaged or edited: it does not match its own checksum; use another checkpoint",
         path.string());
  }
  try {
    const Json json = Json::parse(text);
    if (json.at("format").get<std::string>() != kFormatName)
      fail(ExitCode::checkpoint, "{}: not a Cohort checkpoint", path.string());
    const auto version = json.at("version").get<Count>();
    if (version > kFormatVersion) {
      fail(ExitCode::checkpoint, "{}: format version {}, but this Cohort knows versions up to {}: use a newer Cohort",
           path.string(), version, kFormatVersion);
    }
    return from_json(json);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // of the JSON library, or a number that is none
    fail(ExitCode::checkpoint, "{}: not a manifest of a checkpoint: {}", path.string(), error.what());
  }
}

}  // namespace cohort
