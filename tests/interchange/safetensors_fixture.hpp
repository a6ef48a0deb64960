// Tensors in memory as a source, and files made by hand.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "interchange/safetensors.hpp"
#include "interchange/tensor_source.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort::test {

class MemorySource : public TensorSource {
 public:
  void add(std::string name, const Shape& shape, std::vector<float> values) {
    tensors_.push_back({std::move(name), shape});
    values_.push_back(std::move(values));
  }
  /// 0, 1, 2, ... plus a hundred for each tensor before.
  void add(std::string name, const Shape& shape) {
    std::vector<float> values(static_cast<std::size_t>(shape.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(100 * tensors_.size() + i);
    add(std::move(name), shape, std::move(values));
  }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  void read(std::size_t index, std::vector<float>& into) const override { into = values_.at(index); }

  std::vector<TensorInfo> tensors_;
  std::vector<std::vector<float>> values_;
};

inline std::vector<float> read_by_name(const TensorSource& source, const std::string& name) {
  std::vector<float> values;
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    if (source.tensors()[i].name == name) source.read(i, values);
  }
  return values;
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string length_prefix(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xffu);
  return bytes;
}

/// A file with this header and so many bytes of data.
inline std::string file_bytes(const std::string& header, std::size_t data) {
  return length_prefix(header.size()) + header + std::string(data, '\1');
}

/// Opens a file and reads every byte of it.
inline void read_everything(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::vector<float> values;
  for (const SafetensorsEntry& entry : file.entries()) file.read(entry, values);
}

}  // namespace cohort::test
