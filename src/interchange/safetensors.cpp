#include "interchange/safetensors.hpp"

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/strict_json.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kLengthBytes = 8;
constexpr std::size_t kReadBlock = std::size_t{1} << 18;  // elements that are converted at once

std::string reason(int error) { return std::generic_category().message(error); }

template <class T>
float as_float(T value) {
  if constexpr (std::is_same_v<T, double>) {
    return static_cast<float>(value);
  } else {
    return to_float(value);
  }
}

Bytes size_of_file(const fs::path& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);  // an error for folders and pipes, too
  if (error) fail(ExitCode::io, "cannot read '{}': {}", path.string(), error.message());
  return static_cast<Bytes>(bytes);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const fs::path& path) : name_(path.string()) {
  const Bytes file_bytes = size_of_file(path);
  file_.reset(std::fopen(path.c_str(), "rb"));
  if (!file_) fail(ExitCode::io, "cannot read '{}': {}", name_, reason(errno));
  if (file_bytes < kLengthBytes) {
    fail(ExitCode::checkpoint, "{}: not a safetensors file: {} long, too short for a header", name_, counted(file_bytes, "byte"));
  }
  std::array<unsigned char, kLengthBytes> raw{};
  read_bytes(0, raw.data(), raw.size(), "the length of the header");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < raw.size(); ++i) length |= std::uint64_t{raw[i]} << (8 * i);
  if (length > static_cast<std::uint64_t>(kMaxSafetensorsHeader)) {
    fail(ExitCode::checkpoint, "{}: not a safetensors file, or damaged: its header claims {} bytes, more than {}", name_, length,
         kMaxSafetensorsHeader);
  }
  if (static_cast<Bytes>(length) > file_bytes - kLengthBytes) {
    fail(ExitCode::checkpoint, "{}: its header has {} bytes, but the file ends {} bytes after the length: truncated or damaged",
         name_, length, file_bytes - kLengthBytes);
  }
  std::string json(length, '\0');
  read_bytes(kLengthBytes, json.data(), json.size(), "the header");
  data_begin_ = kLengthBytes + static_cast<Bytes>(length);
  header_ = parse_safetensors_header(json, file_bytes - data_begin_, name_);
}

void SafetensorsFile::read_bytes(Bytes offset, void* to, std::size_t bytes, const std::string& what) const {
  errno = 0;
  if (::fseeko(file_.get(), static_cast<off_t>(offset), SEEK_SET) != 0 || std::fread(to, 1, bytes, file_.get()) != bytes) {
    fail(ExitCode::checkpoint, "{}: cannot read {}: {}", name_, what,
         std::ferror(file_.get()) != 0 ? reason(errno) : "the file was truncated");
  }
}

void SafetensorsFile::read(const SafetensorsEntry& entry, std::vector<float>& into) const {
  const std::string what = fmt::format("tensor '{}'", entry.name);
  const std::optional<DType> dtype = dtype_of_safetensors(entry.dtype);
  if (!dtype) fail(ExitCode::checkpoint, "{}: {} is {}: weights are F32, F16, BF16 or F64", name_, what, entry.dtype);
  into.resize(static_cast<std::size_t>(entry.shape.elements()));
  const Bytes begin = data_begin_ + entry.begin;
  if (dtype == DType::f32) return read_bytes(begin, into.data(), into.size() * sizeof(float), what);
  const auto convert = [&]<class T>(T) {
    std::vector<T> block(std::min(kReadBlock, into.size()));
    for (std::size_t i = 0; i < into.size(); i += kReadBlock) {
      const std::size_t n = std::min(kReadBlock, into.size() - i);
      read_bytes(begin + static_cast<Bytes>(i * sizeof(T)), block.data(), n * sizeof(T), what);
      std::transform(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(n), into.begin() + static_cast<std::ptrdiff_t>(i),
                     as_float<T>);
    }
  };
  if (dtype == DType::bf16) convert(bf16{});
  if (dtype == DType::f16) convert(f16{});
  if (dtype == DType::f64) convert(double{});
}

SafetensorsFolder::SafetensorsFolder(const fs::path& folder) {
  const bool has_index = fs::exists(folder / kIndexFile);
  if (has_index) {
    open_shards(folder);
  } else if (fs::exists(folder / kSingleFile)) {
    add(folder / kSingleFile);
  } else {
    fail(ExitCode::checkpoint,
         "{}: neither {} nor {} found; convert other formats (pytorch_model.bin) with transformers: "
         "model.save_pretrained(FOLDER, safe_serialization=True)",
         folder.string(), kSingleFile, kIndexFile);
  }
  look_for_strangers(folder, has_index);
}

void SafetensorsFolder::look_for_strangers(const fs::path& folder, bool has_index) {
  std::vector<std::string> strangers;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    const bool is_read = std::any_of(files_.begin(), files_.end(), [&](const auto& file) { return file->name() == path; });
    if (path.ends_with(".safetensors") && !is_read) strangers.push_back(entry.path().filename().string());
  }
  std::sort(strangers.begin(), strangers.end());
  for (const std::string& name : strangers) {
    notes_.push_back(fmt::format("{} is not read: {}", name,
                                 has_index ? fmt::format("{} does not list it", kIndexFile)
                                           : fmt::format("without {}, {} is the model", kIndexFile, kSingleFile)));
  }
}

void SafetensorsFolder::add(const fs::path& file) {
  files_.push_back(std::make_unique<SafetensorsFile>(file));
  const std::vector<SafetensorsEntry>& entries = files_.back()->entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    tensors_.push_back({entries[i].name, entries[i].shape});
    places_.push_back({files_.size() - 1, i});
  }
}

void SafetensorsFolder::open_shards(const fs::path& folder) {
  const fs::path path = folder / kIndexFile;
  if (size_of_file(path) > kMaxSafetensorsHeader) {
    fail(ExitCode::checkpoint, "{}: too large for a model index", path.string());
  }
  constexpr int kDepth = 16;  // two levels, and what a writer may add
  const nlohmann::json json = parse_strict_json(read_file(path, "index"), path.string(), kDepth);
  const bool has_map = json.is_object() && json.contains("weight_map") && json["weight_map"].is_object();
  if (!has_map) fail(ExitCode::checkpoint, "{}: not JSON with an object weight_map", path.string());
  std::map<std::string, std::string> listed;  // the file of each tensor
  std::set<std::string> shards;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name == "." || name == ".." || fs::path(name).filename() != name) {
      fail(ExitCode::checkpoint, "{}: the file of '{}' is {}, which is not a file name in this folder", path.string(), tensor,
           file.dump());
    }
    listed[tensor] = name;
    shards.insert(name);
  }
  for (const std::string& shard : shards) {
    if (!fs::exists(folder / shard)) {
      fail(ExitCode::checkpoint, "{}: lists {}, which is missing: download or copy it again", path.string(), shard);
    }
    add(folder / shard);
    for (const SafetensorsEntry& entry : files_.back()->entries()) {
      const auto found = listed.find(entry.name);
      if (found == listed.end() || found->second != shard) {
        fail(ExitCode::checkpoint, "{}: tensor '{}' is in {}, but the index {}: files of different models are mixed",
             path.string(), entry.name, shard, found == listed.end() ? "does not list it" : "says " + found->second);
      }
      listed.erase(found);
    }
  }
  if (!listed.empty()) {
    fail(ExitCode::checkpoint, "{}: tensor '{}' should be in {}, but is not", path.string(), listed.begin()->first,
         listed.begin()->second);
  }
}

void SafetensorsFolder::read(std::size_t index, std::vector<float>& into) const {
  const Place& place = places_.at(index);
  files_[place.file]->read(files_[place.file]->entries()[place.entry], into);
}

}  // namespace cohort
