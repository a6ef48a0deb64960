#include "labs/command/check_exercises.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/console.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "labs/grading/judge.hpp"

namespace cohort::labs {
namespace {

namespace fs = std::filesystem;

struct Graded {
  const Lab* lab = nullptr;
  std::size_t exercise = 0;
  Verdict verdict;
};

// Grades one lab's exercises, or the chosen one, and hands on each verdict when it is there.
void grade(const Workplace& workplace, const Selection& selection, bool sanitize, double limit,
           const std::function<void(const Graded&)>& take) {
  const Lab& lab = *selection.lab;
  const Judging how{.limit = limit, .preloaded = sanitize ? sanitizer_library() : ""};
  const fs::path library = workplace.compile(lab, sanitize);
  for (std::size_t i = 0; i < lab.exercises.size(); ++i) {
    if (!selection.exercise || *selection.exercise == i) take({&lab, i, judge(lab, i, library, how)});
  }
}

std::vector<Selection> selections(const CheckOptions& options, const Workplace& workplace) {
  if (!options.all) return {selected(options.lab)};
  std::vector<Selection> all;
  for (const Lab* lab : all_labs()) {
    if (workplace.has_started(*lab)) all.push_back({lab, std::nullopt});
  }
  if (all.empty()) fail(ExitCode::usage, "no lab has been started in {}: `cohort lab start 3`", workplace.root().string());
  return all;
}

nlohmann::ordered_json as_json(const Graded& one) {
  return {{"exercise", one.lab->number_of(one.exercise)},
          {"name", one.lab->exercises[one.exercise].name},
          {"result", name_of(one.verdict.result)},
          {"message", one.verdict.message}};
}

void print(const Graded& one) {
  fmt::print("{:<5} {:<24} {}\n", one.lab->number_of(one.exercise), one.lab->exercises[one.exercise].name,
             name_of(one.verdict.result));
  for (const std::string& line : wrapped(one.verdict.message, 94)) {
    if (!line.empty()) fmt::print("      {}\n", line);
  }
  std::fflush(stdout);
}

// One cell of CSV (RFC 4180).
std::string cell(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return quoted + "\"";
}

struct Row {
  std::string result, message;
};

// One for each exercise. A learner's file that does not compile, or cannot be read, costs the class no table.
std::vector<Row> rows_of(const Workplace& workplace, const Lab& lab, double limit) {
  const auto all = [&](const char* result, const std::exception& error) {
    return std::vector<Row>(lab.exercises.size(), {result, split(error.what(), '\n').front()});
  };
  try {
    std::vector<Row> rows;
    grade(workplace, {&lab, std::nullopt}, /*sanitize=*/false, limit, [&](const Graded& one) {
      rows.push_back({std::string(name_of(one.verdict.result)), one.verdict.message});
    });
    return rows;
  } catch (const Error& error) {
    return all(error.code() == ExitCode::usage ? "does not compile" : "not graded", error);
  } catch (const std::exception& error) {
    return all("not graded", error);
  }
}

// "passed_first,hints", empty where the progress is damaged: then the message says so.
std::string progress_cells(const Workplace& workplace, const Lab& lab, std::size_t exercise, std::string& message) {
  try {
    const Progress progress = workplace.progress_of(lab, exercise);
    return fmt::format("{},{}", cell(progress.passed), progress.hints);
  } catch (const std::exception& error) {
    message += fmt::format("{}{}", message.empty() ? "" : "; ", error.what());
    return ",";
  }
}

void collect_lab(const Workplace& workplace, const std::string& learner, const Lab& lab, double limit) {
  std::vector<Row> rows = rows_of(workplace, lab, limit);
  for (std::size_t i = 0; i < lab.exercises.size(); ++i) {
    const std::string progress = progress_cells(workplace, lab, i, rows[i].message);
    fmt::print("{},{},{},{},{},{}\n", cell(learner), lab.number_of(i), lab.exercises[i].name, cell(rows[i].result), progress,
               cell(rows[i].message));
  }
}

struct Share {
  std::size_t number = 1, of = 1;
};

Share share_of(const std::string& words) {
  if (words.empty()) return {};
  Share share;
  char slash = '\0';
  std::istringstream text(words);
  text >> share.number >> slash >> share.of;
  const bool read = text && text.eof() && slash == '/' && words.find_first_not_of("0123456789/") == std::string::npos;
  if (!read || share.number < 1 || share.number > share.of)
    fail(ExitCode::usage, "--share {}: which one of how many, as 1/8 to 8/8", words);
  return share;
}

}  // namespace

Selection selected(const std::string& words) {
  const std::size_t dot = words.find('.');
  const Lab& lab = lab_numbered(words.substr(0, dot));
  if (dot == std::string::npos) return {&lab, std::nullopt};
  for (std::size_t i = 0; i < lab.exercises.size(); ++i) {
    if (words == lab.number_of(i)) return {&lab, i};
  }
  fail(ExitCode::usage, "there is no exercise {}: lab {} has {} to {}", words, lab.number, lab.number_of(0),
       lab.number_of(lab.exercises.size() - 1));
}

int check(const CheckOptions& options) {
  const Workplace workplace(options.folder);
  std::vector<Graded> all;
  for (const Selection& selection : selections(options, workplace)) {
    workplace.require_started(*selection.lab);
    grade(workplace, selection, options.sanitize, options.limit, [&](const Graded& one) {
      if (one.verdict.result == Verdict::Result::passed) workplace.passed(*one.lab, one.exercise);
      if (!options.json) print(one);
      all.push_back(one);
    });
  }
  if (options.json) {
    auto list = nlohmann::ordered_json::array();
    for (const Graded& one : all) list.push_back(as_json(one));
    fmt::print("{}\n", list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }
  const bool right =
      std::all_of(all.begin(), all.end(), [](const Graded& one) { return one.verdict.result == Verdict::Result::passed; });
  return right ? 0 : static_cast<int>(ExitCode::unequal);
}

int collect(const CollectOptions& options) {
  const Share share = share_of(options.share);
  std::vector<fs::path> learners;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(options.folder, error)) {
    if (entry.is_directory()) learners.push_back(entry.path());
  }
  if (error) fail(ExitCode::io, "{}: {}", options.folder, error.message());
  std::sort(learners.begin(), learners.end());
  fmt::print("learner,exercise,name,result,passed_first,hints,message\n");
  for (std::size_t i = share.number - 1; i < learners.size(); i += share.of) {
    const Workplace workplace(learners[i].string());
    for (const Lab* lab : all_labs()) {
      if (workplace.has_started(*lab)) collect_lab(workplace, learners[i].filename().string(), *lab, options.limit);
    }
  }
  return 0;
}

}  // namespace cohort::labs
