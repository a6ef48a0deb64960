// Reading safetensors: one file, or the folder of a model, which may be divided among several. Files may come from strangers: a
// file is checked when it is opened (safetensors_header.hpp), and no size in it is trusted before that, so any file is either
// read or refused with Error(checkpoint). SafetensorsFile(path) and then read() of each entry touch every byte: what a fuzzer
// needs.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "interchange/safetensors_header.hpp"
#include "interchange/tensor_source.hpp"

namespace cohort {

class SafetensorsFile {
 public:
  /// Reads and checks the header. Errors: io if the file cannot be read, checkpoint if its content is not as it should be.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::string& name() const { return name_; }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  /// The elements as fp32: F16 and BF16 exactly, F64 rounded to nearest. Error (checkpoint): another type, or the file became
  /// shorter.
  void read(const SafetensorsEntry& entry, std::vector<float>& into) const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void read_bytes(Bytes offset, void* to, std::size_t bytes, const std::string& what) const;

  std::string name_;
  std::unique_ptr<std::FILE, Close> file_;
  Bytes data_begin_ = 0;
  SafetensorsHeader header_;
};

inline constexpr const char* kSingleFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

/// The weights of a folder as Hugging Face's libraries write it: model.safetensors.index.json and the files that it names, or,
/// where there is no index, model.safetensors.
class SafetensorsFolder : public TensorSource {
 public:
  /// Opens and checks all files. Errors (checkpoint) name the file: none of the two; an index that is not JSON, names a file that
  /// is missing or outside of the folder, or does not agree with the files about which tensor is where.
  explicit SafetensorsFolder(const std::filesystem::path& folder);

  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  void read(std::size_t index, std::vector<float>& into) const override;
  /// A sentence for each safetensors file of the folder that is not read.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void open_shards(const std::filesystem::path& folder);
  void look_for_strangers(const std::filesystem::path& folder, bool has_index);
  void add(const std::filesystem::path& file);

  struct Place {
    std::size_t file, entry;
  };
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<TensorInfo> tensors_;
  std::vector<Place> places_;
  std::vector<std::string> notes_;
};

}  // namespace cohort
