#include "labs/command/run.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/console.hpp"
#include "base/error.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace cohort::labs {

std::vector<std::string> run_command(const Lab& lab, const std::string& folder, const std::vector<std::string>& more) {
  std::vector<std::string> words;
  if (std::getenv("SLURM_JOB_ID") != nullptr) {
    words = {"srun", "--mpi=pmix", fmt::format("--ntasks={}", lab.ranks)};
  } else {
    words = {"mpirun", "--oversubscribe", "--bind-to", "none", "-np", std::to_string(lab.ranks)};
    if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  }
  words.insert(words.end(), {program_file().string(), "train", (inputs_folder() / lab.run_file).string(), "--with", folder});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

int run(const Lab& lab, const std::string& folder, const std::vector<std::string>& more) {
  if (lab.run_file.empty())
    fail(ExitCode::usage, "lab {} has no training of its own: `cohort lab show {}`", lab.number, lab.number);
  std::vector<std::string> words = run_command(lab, folder, more);
  fmt::print("{}\n", join(words, " "));
  flush_console();
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  fail(ExitCode::launch, "starting {}: {}", words.front(), std::strerror(errno));
}

}  // namespace cohort::labs
