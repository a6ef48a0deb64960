#include "checkpoint/format/manifest.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.hpp"
#include "base/file.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/format/part_json.hpp"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kChecksumKey = "\"manifest_crc32\": \"";
constexpr std::size_t kChecksumDigits = 8;
constexpr std::string_view kNoChecksum = "00000000";
constexpr Bytes kBestPacking = 1032;  // gzip's, of zeros

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

// The checksums of a part are one string, eight digits a block.
std::string hex(const std::vector<std::uint32_t>& checksums) {
  std::string text;
  for (const std::uint32_t crc : checksums) text += hex(crc);
  return text;
}

std::vector<std::uint32_t> checksums_from(const std::string& text) {
  if (text.size() % kChecksumDigits != 0) throw std::invalid_argument("checksums of " + std::to_string(text.size()) + " digits");
  std::vector<std::uint32_t> checksums;
  for (std::size_t at = 0; at < text.size(); at += kChecksumDigits) {
    checksums.push_back(static_cast<std::uint32_t>(std::stoul(text.substr(at, kChecksumDigits), nullptr, 16)));
  }
  return checksums;
}

std::uint32_t checksum_from(const Json& json) { return checksums_from(json.get<std::string>()).at(0); }

Shape shape_from(const Json& json) {
  Count elements = 1;
  const auto dims = json.get<std::vector<Count>>();
  if (dims.size() > Shape::kMaxDims) throw std::invalid_argument(fmt::format("a tensor of {} dims", dims.size()));
  for (const Count size : dims) {
    // So that products of sizes and bytes cannot overflow, whatever was put into the file.
    if (size < 0 || __builtin_mul_overflow(elements, std::max<Count>(size, 1), &elements) ||
        elements > std::numeric_limits<Count>::max() / 16) {
      throw std::invalid_argument(fmt::format("a tensor of impossible size {}", size));
    }
  }
  return Shape(dims);
}

Json to_json(const ManifestPart& part) {
  Json json{{"file", part.file}, {"dataset", part.dataset}};
  add_part(json, part.part);
  json["block"] = part.block;
  json["crc32"] = hex(part.crc32);
  return json;
}

ManifestPart stored_part_from(const Json& json, const Manifest& manifest, const Shape& shape, Count version) {
  ManifestPart part{json.at("file").get<std::size_t>(), json.at("dataset").get<std::string>(),
                    version <= 3 ? part_from_range(json, shape) : part_from(json, shape), json.at("block").get<Count>(),
                    checksums_from(json.at("crc32").get<std::string>())};
  if (part.file >= manifest.files.size()) throw std::invalid_argument(fmt::format("a part in file number {}", part.file));
  if (part.block <= 0 || static_cast<std::size_t>(part.blocks()) != part.crc32.size()) {
    throw std::invalid_argument(fmt::format("{} checksums for a part of {} elements in blocks of {}", part.crc32.size(),
                                            part.part.elements(), part.block));
  }
  return part;
}

// A name that is a path could lead out of the checkpoint.
std::string file_name_from(const Json& json) {
  auto name = json.get<std::string>();
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
    throw std::invalid_argument("the file name '" + name + "'");
  }
  return name;
}

CheckpointForm form_from(const std::string& name) {
  for (const CheckpointForm form : {CheckpointForm::consolidated, CheckpointForm::per_rank}) {
    if (name_of(form) == name) return form;
  }
  throw std::invalid_argument("the form '" + name + "'");
}

Manifest from_json(const Json& json, Count version) {
  Manifest manifest;
  manifest.form = form_from(json.at("form").get<std::string>());
  Bytes all = 0;
  for (const Json& file : json.at("files")) {
    manifest.files.push_back({file_name_from(file.at("name")), file.at("bytes").get<Bytes>()});
    if (file.contains("crc32")) manifest.files.back().crc32 = checksum_from(file.at("crc32"));
    const Bytes bytes = manifest.files.back().bytes;
    if (bytes < 0 || __builtin_add_overflow(all, bytes, &all))
      throw std::invalid_argument(fmt::format("a file of {} bytes", bytes));
  }
  if (version == 2) {
    manifest.texts[std::string(kRunFileDataset)] = checksum_from(json.at("run_file_crc32"));
  } else {
    for (const Json& text : json.at("texts"))
      manifest.texts[text.at("name").get<std::string>()] = checksum_from(text.at("crc32"));
  }
  for (const Json& item : json.at("tensors")) {
    ManifestTensor tensor{item.at("name").get<std::string>(),
                          dtype_from_name(item.at("dtype").get<std::string>()),
                          shape_from(item.at("shape")),
                          {}};
    if (tensor.bytes() / kBestPacking > all) throw std::invalid_argument(tensor.name + " is larger than its files");
    for (const Json& part : item.at("parts")) tensor.parts.push_back(stored_part_from(part, manifest, tensor.shape, version));
    std::vector<const TensorPart*> parts;
    for (const ManifestPart& part : tensor.parts) parts.push_back(&part.part);
    check_coverage(tensor.name, tensor.shape, std::move(parts));
    manifest.add(std::move(tensor));
  }
  return manifest;
}

// Version 1: one file of whole tensors, one checksum each; the run file was listed among them, with the type "text".
Manifest from_version_1(const Json& json) {
  Manifest manifest;
  manifest.files.push_back({file_name_from(json.at("file")), json.at("file_bytes").get<Bytes>()});
  for (const Json& item : json.at("datasets")) {
    const auto name = item.at("name").get<std::string>();
    const std::vector<std::uint32_t> crc32 = checksums_from(item.at("crc32").get<std::string>());
    if (name == kRunFileDataset) {
      manifest.texts[name] = crc32.at(0);
      continue;
    }
    const Shape shape = shape_from(item.at("shape"));
    ManifestTensor tensor{name, dtype_from_name(item.at("dtype").get<std::string>()), shape, {}};
    if (shape.elements() > 0) tensor.parts.push_back({0, name, TensorPart(shape), shape.elements(), crc32});
    manifest.add(std::move(tensor));
  }
  return manifest;
}

}  // namespace

std::string_view name_of(CheckpointForm form) { return form == CheckpointForm::consolidated ? "consolidated" : "per_rank"; }

void Manifest::add(ManifestTensor tensor) {
  if (!by_name_.emplace(tensor.name, tensors_.size()).second) throw std::invalid_argument(tensor.name + " is listed twice");
  tensors_.push_back(std::move(tensor));
}

const ManifestTensor* Manifest::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

Bytes Manifest::bytes() const {
  Bytes sum = 0;
  for (const ManifestFile& file : files) sum += file.bytes;
  return sum;
}

Count Manifest::parameters() const {
  Count sum = 0;
  for (const ManifestTensor& tensor : tensors_) {
    if (tensor.name.starts_with(kModelGroup)) sum += tensor.elements();
  }
  return sum;
}

void check_coverage(const std::string& name, const Shape& shape, std::vector<const TensorPart*> parts) {
  if (cover_once(shape, std::move(parts))) return;
  fail(ExitCode::internal, "the parts of {} do not cover its shape {} exactly once", name, shape.str());
}

std::string to_json_text(const Manifest& manifest) {
  Json json{{"format", kFormatName},  {"version", kFormatVersion}, {"form", name_of(manifest.form)}, {"step", manifest.step},
            {"texts", Json::array()}, {"files", Json::array()},    {"tensors", Json::array()}};
  for (const auto& [name, crc] : manifest.texts) json["texts"].push_back({{"name", name}, {"crc32", hex(crc)}});
  for (const ManifestFile& file : manifest.files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
    if (file.crc32) json["files"].back()["crc32"] = hex(*file.crc32);
  }
  for (const ManifestTensor& tensor : manifest.tensors()) {
    Json item{
        {"name", tensor.name}, {"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape.vector()}, {"parts", Json::array()}};
    for (const ManifestPart& part : tensor.parts) item["parts"].push_back(to_json(part));
    json["tensors"].push_back(std::move(item));
  }
  json["manifest_crc32"] = kNoChecksum;
  std::string text = json.dump(1) + "\n";
  COHORT_CHECK(seal(text), "the manifest has no checksum field");
  return text;
}

Manifest manifest_from_text(const std::string& text, const std::string& path) {
  std::string sealed = text;
  if (!seal(sealed) || sealed != text) {
    fail(ExitCode::checkpoint, "{}: damaged or edited: its checksum does not match; use another checkpoint", path);
  }
  Count version = 0;
  try {
    const Json json = Json::parse(text);
    if (json.at("format").get<std::string>() != kFormatName) throw std::invalid_argument("of another program");
    version = json.at("version").get<Count>();
    if (version <= kFormatVersion) {
      Manifest manifest = version == 1 ? from_version_1(json) : from_json(json, version);
      if (manifest.files.empty()) throw std::invalid_argument("no files");
      manifest.version = version;
      manifest.step = json.at("step").get<Count>();
      return manifest;
    }
  } catch (const std::exception& error) {  // of the JSON library, or what a number or name is wrong for
    fail(ExitCode::checkpoint, "{}: not a checkpoint manifest: {}", path, error.what());
  }
  fail(ExitCode::checkpoint, "{}: format version {}, but this version of Cohort reads up to {}: use a newer one", path, version,
       kFormatVersion);
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifestFile;
  std::error_code unreadable;
  if (!std::filesystem::exists(path, unreadable) && !unreadable) {
    fail(ExitCode::checkpoint, "{}: not found, so this folder is not a checkpoint; an interrupted save leaves no manifest",
         path.string());
  }
  return manifest_from_text(read_file(path, "manifest"), path.string());
}

}  // namespace cohort
