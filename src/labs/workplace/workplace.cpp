#include "labs/workplace/workplace.hpp"

#include <fmt/chrono.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/strict_json.hpp"

namespace cohort::labs {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kDepth = 8;

fs::path progress_file(const fs::path& root) { return root / "progress.json"; }

// {"3": {"gave_up": "TIME", "answered": {"3.q1": "TIME"}, "exercises": {"ring_all_reduce": {"passed": "TIME", "hints": 2}}}}
bool is_progress_of_exercise(const Json& exercise) {
  return exercise.is_object() && exercise.value("passed", Json("")).is_string() &&
         exercise.value("hints", Json(0)).is_number_integer();
}

bool is_progress_of_lab(const Json& entry) {
  if (!entry.is_object() || !entry.value("answered", Json::object()).is_object()) return false;
  const Json exercises = entry.value("exercises", Json::object());
  return exercises.is_object() && std::all_of(exercises.begin(), exercises.end(), is_progress_of_exercise);
}

Json read_progress(const fs::path& root) {
  const fs::path file = progress_file(root);
  if (!fs::exists(file)) return Json::object();
  Json json = parse_strict_json(read_file(file, "progress"), file.string(), kDepth, ExitCode::data);
  if (!json.is_object() || !std::all_of(json.begin(), json.end(), is_progress_of_lab))
    fail(ExitCode::data, "{}: is not the progress of labs; move it away to begin a new one", file.string());
  return json;
}

void change_progress(const fs::path& root, const Lab& lab, const std::function<void(Json&)>& change) {
  Json json = read_progress(root);
  change(json[std::to_string(lab.number)]);
  write_file_atomically(progress_file(root), json.dump(2) + "\n");
}

Json entry_of(const fs::path& root, const Lab& lab) {
  return read_progress(root).value(std::to_string(lab.number), Json::object());
}

Json& exercise_in(Json& entry, const Lab& lab, std::size_t exercise) {
  return entry["exercises"][std::string(lab.exercises[exercise].name)];
}

std::string time_now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

void copy_new(const fs::path& from, const fs::path& to) { write_file_atomically(to, read_file(from, "lab's file")); }

}  // namespace

Workplace::Workplace(const std::string& given) : root_(given) {
  const char* variable = std::getenv("COHORT_LABS");
  if (given.empty()) root_ = variable != nullptr && *variable != '\0' ? variable : "labs";
}

bool Workplace::has_started(const Lab& lab) const {
  std::error_code error;
  return fs::exists(exercise_of(lab), error);
}

void Workplace::require_started(const Lab& lab) const {
  if (!has_started(lab))
    fail(ExitCode::usage, "lab {} has not been started in {}: `cohort lab start {}` (--dir names another folder)", lab.number,
         root_.string(), lab.number);
}

void Workplace::start(const Lab& lab) const {
  if (has_started(lab))
    fail(ExitCode::usage, "{} is there already: go on with it, or begin again with `cohort lab reset {}`",
         exercise_of(lab).string(), lab.number);
  make_folders(folder_of(lab));
  write_file_atomically(folder_of(lab) / "handout.md", handout_of(lab));
  for (const auto& entry : fs::directory_iterator(labs_folder() / lab.folder)) {
    if (entry.path().extension() == ".svg") copy_new(entry.path(), folder_of(lab) / entry.path().filename());
  }
  copy_new(labs_folder() / lab.folder / "exercise.cpp", exercise_of(lab));
}

fs::path Workplace::reset(const Lab& lab) const {
  fs::path kept;
  for (int number = 1; kept.empty() || fs::exists(kept); ++number) kept = folder_of(lab) / fmt::format("exercise.{}.cpp", number);
  fs::rename(exercise_of(lab), kept);
  copy_new(labs_folder() / lab.folder / "exercise.cpp", exercise_of(lab));
  return kept;
}

fs::path Workplace::compile(const Lab& lab, bool sanitized) const {
  return compile_exercise(exercise_of(lab),
                          {.headers = labs_folder() / "include", .built_in = folder_of(lab) / "build", .sanitized = sanitized});
}

Progress Workplace::progress_of(const Lab& lab, std::size_t exercise) const {
  Json entry = entry_of(root_, lab);
  const Json known = exercise_in(entry, lab, exercise);
  if (!known.is_object()) return {};
  return {.passed = known.value("passed", ""), .hints = known.value("hints", 0)};
}

bool Workplace::has_given_up(const Lab& lab) const { return entry_of(root_, lab).contains("gave_up"); }

void Workplace::passed(const Lab& lab, std::size_t exercise) const {
  if (!progress_of(lab, exercise).passed.empty()) return;
  change_progress(root_, lab, [&](Json& entry) { exercise_in(entry, lab, exercise)["passed"] = time_now(); });
}

void Workplace::read_hint(const Lab& lab, std::size_t exercise, int number) const {
  if (progress_of(lab, exercise).hints >= number) return;
  change_progress(root_, lab, [&](Json& entry) { exercise_in(entry, lab, exercise)["hints"] = number; });
}

void Workplace::gave_up(const Lab& lab) const {
  if (has_given_up(lab)) return;
  change_progress(root_, lab, [&](Json& entry) { entry["gave_up"] = time_now(); });
}

bool Workplace::has_answered(const Lab& lab, const std::string& question) const {
  const Json entry = entry_of(root_, lab);
  return entry.contains("answered") && entry["answered"].contains(question);
}

void Workplace::answered(const Lab& lab, const std::string& question) const {
  if (has_answered(lab, question)) return;
  change_progress(root_, lab, [&](Json& entry) { entry["answered"][question] = time_now(); });
}

}  // namespace cohort::labs
