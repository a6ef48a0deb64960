// Several files as one input: each after its length in four bytes, in an order that the target knows. An empty one is not there.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace cohort::fuzz {

inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A file's bytes; none if it is not there.
inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void append_file(std::string& input, const std::string& bytes) {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  input.append(reinterpret_cast<const char*>(&length), sizeof(length));
  input += bytes;
}

/// Takes the first file from the front of the input, cut off where the input ends.
inline std::string take_file(std::string_view& input) {
  std::uint32_t length = 0;
  if (input.size() < sizeof(length)) return {};
  std::memcpy(&length, input.data(), sizeof(length));
  input.remove_prefix(sizeof(length));
  const std::string taken(input.substr(0, length));
  input.remove_prefix(taken.size());
  return taken;
}

}  // namespace cohort::fuzz
