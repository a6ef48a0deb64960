#include "interchange/safetensors_writer.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "interchange/safetensors.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWriteBlock = std::size_t{1} << 18;  // elements that are converted at once

using Shard = std::vector<std::size_t>;  // tensors of one file

Bytes bytes_of(const TensorInfo& tensor, DType dtype) { return tensor.shape.elements() * size_of(dtype); }

std::vector<Shard> divide(const std::vector<TensorInfo>& tensors, const SafetensorsOptions& options) {
  std::vector<Shard> shards(1);
  Bytes used = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Bytes bytes = bytes_of(tensors[i], options.dtype);
    if (!shards.back().empty() && used + bytes > options.shard_bytes) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(i);
    used += bytes;
  }
  return shards;
}

// A file under a temporary name, until it is complete.
class Output {
 public:
  explicit Output(const fs::path& path) : path_(path), temporary_(path) {
    temporary_ += ".tmp";
    file_ = std::fopen(temporary_.c_str(), "wb");
    if (file_ == nullptr) fail_with("cannot write");
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() {
    if (file_ != nullptr) std::fclose(file_);
    std::error_code ignored;
    if (!committed_) fs::remove(temporary_, ignored);
  }
  void write(const void* from, std::size_t bytes) {
    if (std::fwrite(from, 1, bytes, file_) != bytes) fail_with("cannot write");
  }
  void commit() {
    if (std::fclose(std::exchange(file_, nullptr)) != 0) fail_with("cannot write");
    commit_file(temporary_, path_);
    committed_ = true;
  }

 private:
  [[noreturn]] void fail_with(const char* what) const {
    fail(ExitCode::io, "{} '{}': {}", what, temporary_.string(), std::generic_category().message(errno));
  }
  fs::path path_, temporary_;
  std::FILE* file_ = nullptr;
  bool committed_ = false;
};

template <class T>
void write_as(Output& output, const std::vector<float>& values, const std::string& name) {
  std::vector<T> block(std::min(kWriteBlock, values.size()));
  for (std::size_t i = 0; i < values.size(); i += kWriteBlock) {
    const std::size_t n = std::min(kWriteBlock, values.size() - i);
    for (std::size_t k = 0; k < n; ++k) {
      block[k] = from_float<T>(values[i + k]);
      if (std::isinf(to_float(block[k])) && std::isfinite(values[i + k])) {
        fail(ExitCode::checkpoint, "{}: the weight {} is too large for {}; choose another --dtype", name, values[i + k],
             name_of(dtype_of<T>));
      }
    }
    output.write(block.data(), n * sizeof(T));
  }
}

void write_file(const fs::path& path, const TensorSource& source, const Shard& shard, const SafetensorsOptions& options) {
  SafetensorsHeader header;
  header.metadata = options.metadata;
  Bytes end = 0;
  for (const std::size_t index : shard) {
    const TensorInfo& tensor = source.tensors()[index];
    const Bytes begin = end;
    end += bytes_of(tensor, options.dtype);
    header.entries.push_back({tensor.name, std::string(safetensors_name_of(options.dtype)), tensor.shape, begin, end});
  }
  Output output(path);
  const std::string head = format_safetensors_header(header);
  output.write(head.data(), head.size());
  std::vector<float> values;
  for (const std::size_t index : shard) {
    const TensorInfo& tensor = source.tensors()[index];
    source.read(index, values);
    COHORT_CHECK(static_cast<Count>(values.size()) == tensor.shape.elements(), "{}: {} elements of {}", tensor.name,
                 values.size(), tensor.shape.str());
    if (options.dtype == DType::f32) output.write(values.data(), values.size() * sizeof(float));
    if (options.dtype == DType::bf16) write_as<bf16>(output, values, tensor.name);
    if (options.dtype == DType::f16) write_as<f16>(output, values, tensor.name);
  }
  output.commit();
}

}  // namespace

Bytes parse_shard_size(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, Bytes>, 3> kDecimal{
      {{"KB", 1'000}, {"MB", 1'000'000}, {"GB", 1'000'000'000}}};
  constexpr Bytes kMost = Bytes{1} << 62;
  Bytes unit = 1;
  std::string_view number = text;
  for (const auto& [name, bytes] : kDecimal) {
    if (!text.ends_with(name)) continue;
    unit = bytes;
    number = text.substr(0, text.size() - name.size());
  }
  const bool plain = unit == 1 || (!number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos);
  const Bytes count = plain ? parse_bytes(number) : 0;
  if (count < 1 || count > kMost / unit) fail(ExitCode::usage, "'{}' is not a shard size: give one such as 5GB or 512MiB", text);
  return count * unit;
}

std::vector<std::string> write_safetensors(const fs::path& folder, const TensorSource& source,
                                           const SafetensorsOptions& options) {
  const std::vector<Shard> shards = divide(source.tensors(), options);
  if (shards.size() == 1) {
    write_file(folder / kSingleFile, source, shards[0], options);
    return {kSingleFile};
  }
  std::vector<std::string> files;
  std::map<std::string, std::string> weight_map;
  Bytes total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    files.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size()));
    write_file(folder / files.back(), source, shards[i], options);
    for (const std::size_t tensor : shards[i]) {
      weight_map[source.tensors()[tensor].name] = files.back();
      total += bytes_of(source.tensors()[tensor], options.dtype);
    }
  }
  const nlohmann::ordered_json index{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  write_file_atomically(folder / kIndexFile, index.dump(2) + "\n");
  files.emplace_back(kIndexFile);
  return files;
}

}  // namespace cohort
