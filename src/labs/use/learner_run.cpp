#include "labs/use/learner_run.hpp"

#include <filesystem>
#include <memory>
#include <vector>

#include "base/console.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "labs/labs.hpp"
#include "labs/workplace/workplace.hpp"

namespace cohort::labs {
namespace {

namespace fs = std::filesystem;

struct Wanted {
  fs::path folder;
  const Lab* lab = nullptr;
  std::vector<const Exercise*> used;
};

Wanted wanted_of(const std::string& words) {
  const std::size_t colon = words.rfind(':');
  fs::path folder = words.substr(0, colon);
  if (folder.filename().empty()) folder = folder.parent_path();  // a slash at the end
  Wanted wanted;
  wanted.folder = folder;
  for (const Lab* lab : all_labs()) {
    if (folder.filename() == lab->folder) wanted.lab = lab;
  }
  if (wanted.lab == nullptr || !fs::exists(folder / "exercise.cpp"))
    fail(ExitCode::usage, "--with {}: name the folder of a lab that you have started, as labs/03_collectives", words);
  std::vector<std::string> names;
  for (const Exercise& exercise : wanted.lab->exercises) {
    if (!exercise.use) continue;
    names.emplace_back(exercise.name);
    if (colon != std::string::npos && words.substr(colon + 1) != exercise.name) continue;
    std::erase_if(wanted.used,
                  [&](const Exercise* other) { return !other->purpose.empty() && other->purpose == exercise.purpose; });
    wanted.used.push_back(&exercise);
  }
  if (wanted.used.empty())
    fail(ExitCode::usage, "--with {}: of lab {} a run can use {}", words, wanted.lab->number,
         names.empty() ? "nothing" : join(names));
  return wanted;
}

}  // namespace

void use_learners_code(Communicator& world, const std::string& words) {
  Wanted wanted;
  fail_together(world, "looking for your code", [&] { wanted = wanted_of(words); });
  std::string file;
  fail_together(world, "compiling your code", [&] {
    if (world.rank() == 0)
      file = Workplace(fs::absolute(wanted.folder).parent_path().string()).compile(*wanted.lab, /*sanitized=*/false).string();
  });
  file = broadcast_text(world, file, 0);
  fail_together(world, "loading your code", [&] {
    const Library library(file);
    try {
      for (const Exercise* exercise : wanted.used) exercise->use(library);
    } catch (const Rejected& error) {
      fail(ExitCode::usage, "{}", error.what());
    }
  });
  if (world.rank() != 0) return;
  std::vector<std::string> names;
  for (const Exercise* exercise : wanted.used) names.emplace_back(exercise->name);
  print_to_console(fmt::format("with        {} of {}\n", join(names), (wanted.folder / "exercise.cpp").string()));
}

}  // namespace cohort::labs
