#include "labs/labs.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/process.hpp"
#include "base/shared_places.hpp"
#include "base/text.hpp"

namespace cohort::labs {

namespace fs = std::filesystem;

std::string Lab::number_of(std::size_t exercise) const { return fmt::format("{}.{}", number, exercise + 1); }

const Lab& lab_numbered(const std::string& number) {
  std::vector<std::string> known;
  for (const Lab* lab : all_labs()) {
    if (number == std::to_string(lab->number) || number == lab->folder) return *lab;
    known.push_back(std::to_string(lab->number));
  }
  fail(ExitCode::usage, "there is no lab '{}': the labs are {} (`cohort lab ls`)", number, join(known));
}

namespace {

fs::path folder_of_program(const char* installed, const char* in_tree) {
  const auto places = shared_places(program_file(), installed, in_tree);
  for (const fs::path& place : places) {
    std::error_code error;
    if (fs::is_directory(place, error)) return place;
  }
  fail(ExitCode::io,
       "the files of the course are neither in {} nor in {}: install Cohort with `make install`, or build it in its tree",
       places[0].string(), places[1].string());
}

}  // namespace

fs::path labs_folder() { return folder_of_program("labs", "src/labs"); }
fs::path inputs_folder() { return folder_of_program("inputs", "inputs"); }

std::string handout_of(const Lab& lab) {
  std::string text;
  for (const std::string& line : split(read_file(labs_folder() / lab.folder / "handout.md", "handout"), '\n')) {
    const bool mark = line.starts_with("<!-- ") && line.ends_with("-->");
    if (!mark) text += line + "\n";
  }
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace cohort::labs
