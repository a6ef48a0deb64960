#include "data/texts/input_files.hpp"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/texts/byte_stream.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLooked = 8000;  // bytes of a text; git, too, calls a file binary if there is a zero byte in so many

bool is_json_lines(fs::path path) {
  if (path.extension() == ".gz" || path.extension() == ".zst") path.replace_extension();
  return path.extension() == ".jsonl" || path.extension() == ".ndjson";
}

InputFile look_at(const std::string& path) {
  FlightRecorder::of_process().beat();  // there may be very many
  InputFile file{.path = path, .json_lines = is_json_lines(path)};
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    const int error = errno;
    fail(ExitCode::io, "cannot read the text '{}': {}{}", path, std::strerror(error),
         error == ENOENT ? "; check the path and the working directory" : "");
  }
  file.size = status.st_size;
  file.modified = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  file.compression = compression_of(path);
  return file;
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// What was left out, by its reason.
class LeftOut {
 public:
  enum Reason { empty, binary, about_another, link };
  void add(const std::string& path, Reason reason) { paths_[reason].push_back(path); }
  void tell(std::vector<std::string>& notes) const {
    constexpr std::array kReasons{"empty", "not text, by a zero byte in its first 8,000", "about the text beside it",
                                  "a link to a folder, or to nothing"};
    for (std::size_t i = 0; i < kReasons.size(); ++i) {
      if (!paths_[i].empty()) notes.push_back(fmt::format("left out, since {}: {}", kReasons[i], first_few(paths_[i])));
    }
  }

 private:
  std::array<std::vector<std::string>, 4> paths_;
};

std::vector<std::string> files_below(const std::string& folder, LeftOut& left_out) {
  std::vector<std::string> found;
  std::error_code error;
  fs::recursive_directory_iterator entries(folder, error), end;
  for (; !error && entries != end; entries.increment(error)) {
    if (is_hidden(entries->path())) {
      entries.disable_recursion_pending();
    } else if (std::error_code ignored; entries->is_regular_file(ignored)) {
      found.push_back(entries->path().string());
    } else if (entries->is_symlink(ignored)) {
      left_out.add(entries->path().string(), LeftOut::link);
    }
  }
  if (error) fail(ExitCode::io, "cannot list the folder '{}': {}", folder, error.message());
  return found;
}

// Files that a pattern stands for; those of folders that it stands for, too.
std::vector<std::string> files_of_pattern(const std::string& pattern, LeftOut& left_out) {
  glob_t matches{};
  const int outcome = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &matches);
  if (outcome == GLOB_ABORTED)
    fail(ExitCode::io, "cannot list the folders of the pattern '{}': {}", pattern, std::strerror(errno));
  std::vector<std::string> found;
  for (std::size_t i = 0; outcome == 0 && i < matches.gl_pathc; ++i) {
    const std::string path = matches.gl_pathv[i];
    if (fs::is_directory(path)) {
      for (std::string& file : files_below(path, left_out)) found.push_back(std::move(file));
    } else {
      found.push_back(path);
    }
  }
  ::globfree(&matches);
  return found;
}

bool is_binary(const InputFile& file) {
  std::array<char, kLooked> start;
  const std::unique_ptr<ByteStream> stream = open_byte_stream(file);
  std::size_t got = 0;
  while (got < start.size()) {
    const std::size_t more = stream->read(std::span(start).subspan(got));
    if (more == 0) break;
    got += more;
  }
  return std::find(start.begin(), start.begin() + static_cast<std::ptrdiff_t>(got), '\0') !=
         start.begin() + static_cast<std::ptrdiff_t>(got);
}

void add_found(std::vector<std::string> paths, const std::function<bool(const std::string&)>& skip, LeftOut& left_out,
               InputList& list) {
  std::sort(paths.begin(), paths.end());
  const std::set<std::string> names(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    if (skip && skip(path)) continue;
    const InputFile file = look_at(path);
    if (file.size == 0) {
      left_out.add(path, LeftOut::empty);
    } else if (is_binary(file)) {
      left_out.add(path, LeftOut::binary);
    } else if (path.ends_with(".json") && names.contains(path.substr(0, path.size() - 5))) {
      left_out.add(path, LeftOut::about_another);
    } else {
      list.files.push_back(file);
    }
  }
}

void add_named(const std::string& path, InputList& list) {
  list.files.push_back(look_at(path));
  list.files.back().named = true;
  if (list.files.back().size == 0)
    fail(ExitCode::data, "the text '{}' is empty; leave it out, or check what should have written it", path);
}

}  // namespace

InputList list_inputs(const std::vector<std::string>& inputs, const std::function<bool(const std::string&)>& skip) {
  if (inputs.empty()) fail(ExitCode::usage, "no text files were given; name at least one with --input");
  InputList list;
  LeftOut left_out;
  for (const std::string& input : inputs) {
    const bool pattern = !fs::exists(input) && input.find_first_of("*?[") != std::string::npos;
    if (!pattern && !fs::is_directory(input)) {
      add_named(input, list);
      continue;
    }
    const std::size_t before = list.files.size();
    add_found(pattern ? files_of_pattern(input, left_out) : files_below(input, left_out), skip, left_out, list);
    if (list.files.size() == before) {
      fail(ExitCode::data, "the {} '{}' gives no texts: {}", pattern ? "pattern" : "directory", input,
           pattern ? "check it, and quote it so that the shell leaves it alone" : "check what should be in it");
    }
  }
  left_out.tell(list.notes);
  return list;
}

Bytes InputList::bytes() const {
  Bytes sum = 0;
  for (const InputFile& file : files) sum += file.size;
  return sum;
}

// Fields that end with a zero byte, which no path has.
std::string InputList::pack() const {
  std::string packed;
  for (const InputFile& file : files) {
    for (const std::int64_t number : {file.size, file.modified, static_cast<std::int64_t>(file.compression),
                                      std::int64_t{file.json_lines}, std::int64_t{file.named}})
      packed += fmt::format("{}", number) + '\0';
    packed += file.path + '\0';
  }
  return packed;
}

InputList InputList::unpack(std::string_view packed) {
  InputList list;
  const std::vector<std::string> fields = split(packed, '\0');
  const auto number = [&](std::size_t i) {
    std::int64_t value = 0;
    std::from_chars(fields[i].data(), fields[i].data() + fields[i].size(), value);
    return value;
  };
  COHORT_CHECK(fields.size() % 6 == 0, "{} fields of a list of inputs", fields.size());
  for (std::size_t i = 0; i < fields.size(); i += 6) {
    list.files.push_back({fields[i + 5], number(i), number(i + 1), static_cast<Compression>(number(i + 2)), number(i + 3) != 0,
                          number(i + 4) != 0});
  }
  return list;
}

}  // namespace cohort
