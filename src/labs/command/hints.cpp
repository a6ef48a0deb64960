#include "labs/command/hints.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace cohort::labs {

std::vector<std::string> hints_of(const Lab& lab, std::size_t exercise) {
  const std::filesystem::path file = labs_folder() / lab.folder / "hints.md";
  std::vector<std::string> hints;
  bool here = false;
  for (const std::string& line : split(read_file(file, "hints"), '\n')) {
    if (line.starts_with("## ")) here = line.starts_with("## " + lab.number_of(exercise) + " ");
    if (!here || line.starts_with('#')) continue;
    const std::size_t digits = line.find_first_not_of("0123456789");
    if (digits != std::string::npos && digits > 0 && line.substr(digits).starts_with(". ")) {
      hints.push_back(line.substr(digits + 2));
    } else if (const std::size_t text = line.find_first_not_of(' '); text != std::string::npos && !hints.empty()) {
      hints.back() += " " + line.substr(text);  // a hint's next line
    }
  }
  COHORT_CHECK(!hints.empty(), "{} has no hints for exercise {}", file.string(), lab.number_of(exercise));
  return hints;
}

}  // namespace cohort::labs
