// The texts that a user names: files, folders and patterns become one list of files, in an order that depends on their names
// alone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"

namespace cohort {

enum class Compression : std::uint8_t { none, gzip, zstd };

struct InputFile {
  std::string path;
  Bytes size = 0;             // of the file as it is stored
  std::int64_t modified = 0;  // nanoseconds
  Compression compression = Compression::none;
  bool json_lines = false;  // a document for each line
  bool named = false;       // by its own path, not found in a folder or by a pattern
};

struct InputList {
  std::vector<InputFile> files;
  std::vector<std::string> notes;  // what was left out

  Bytes bytes() const;  // of all files as they are stored
  /// As text for other ranks, and back.
  std::string pack() const;
  static InputList unpack(std::string_view packed);
};

/// Each of `inputs` is a file; a folder, with all files in it and in its folders but hidden ones; or a pattern with *, ? or [].
/// What a folder or pattern gives is sorted by the bytes of its path; the inputs keep their order. Compression is told by the
/// first bytes of a file. Lines of JSON are told by its name: .jsonl or .ndjson, also before .gz or .zst. Of a folder or pattern,
/// files are left out with a note that are empty, hold a zero byte in their first 8,000 (images, archives, token files), for
/// which `skip` is true, or are X.json beside X, which says something about that text. Throws Error(io): missing, unreadable;
/// Error(data): an empty file that was named, a folder without texts; Error(usage): no inputs.
InputList list_inputs(const std::vector<std::string>& inputs, const std::function<bool(const std::string&)>& skip);

}  // namespace cohort
