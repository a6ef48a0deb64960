#include "labs/command/lab_command.hpp"

#include <memory>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "labs/command/check_exercises.hpp"
#include "labs/command/hints.hpp"
#include "labs/command/questions.hpp"
#include "labs/command/run.hpp"
#include "labs/grading/judge.hpp"
#include "labs/labs.hpp"
#include "labs/workplace/workplace.hpp"
#include "runtime/failure_exit.hpp"

namespace cohort::labs {
namespace {

struct LabOptions {
  std::string lab;  // also "3.2"
  std::string folder;
  bool header = false;
  bool give_up = false;
  bool again = false;             // hints from the first on
  std::vector<std::string> more;  // words for the training
};

int list(const LabOptions& options) {
  const Workplace workplace(options.folder);
  Table table({"lab", "title", "minutes", "exercises", "passed"});
  for (const Lab* lab : all_labs()) {
    Count passed = 0;
    for (std::size_t i = 0; i < lab->exercises.size(); ++i) passed += workplace.progress_of(*lab, i).passed.empty() ? 0 : 1;
    table.add({std::to_string(lab->number), std::string(lab->title), std::to_string(lab->minutes),
               std::to_string(lab->exercises.size()), workplace.has_started(*lab) ? std::to_string(passed) : "not started"});
  }
  fmt::print("{}", table.str(2));
  return 0;
}

int show(const LabOptions& options) {
  const Lab& lab = lab_numbered(options.lab);
  fmt::print("{}", options.header ? read_file(labs_folder() / "include/cohort" / lab.header(), "header") : handout_of(lab));
  return 0;
}

int start(const LabOptions& options) {
  const Lab& lab = lab_numbered(options.lab);
  const Workplace workplace(options.folder);
  workplace.start(lab);
  fmt::print("Lab {}: {}. Edit {}\n", lab.number, lab.title, workplace.exercise_of(lab).string());
  for (std::size_t i = 0; i < lab.exercises.size(); ++i)
    fmt::print("  {}  {:<24} {}\n", lab.number_of(i), lab.exercises[i].name, lab.exercises[i].task);
  fmt::print("then: cohort lab check {}; the handout: cohort lab show {}\n", lab.number, lab.number);
  return 0;
}

int reset(const LabOptions& options) {
  const Lab& lab = lab_numbered(options.lab);
  const Workplace workplace(options.folder);
  workplace.require_started(lab);
  const std::filesystem::path kept = workplace.reset(lab);
  fmt::print("{} begins again; what you had is in {}\n", workplace.exercise_of(lab).string(), kept.string());
  return 0;
}

int hint(const LabOptions& options) {
  const Selection selection = selected(options.lab);
  const Lab& lab = *selection.lab;
  if (!selection.exercise) fail(ExitCode::usage, "name an exercise, as in `cohort lab hint {}`", lab.number_of(0));
  const Workplace workplace(options.folder);
  const std::vector<std::string> hints = hints_of(lab, *selection.exercise);
  const int read = options.again ? 0 : workplace.progress_of(lab, *selection.exercise).hints;
  const int shown = std::min(read + 1, static_cast<int>(hints.size()));
  fmt::print("Hint {} of {}: {}\n", shown, hints.size(), hints[static_cast<std::size_t>(shown - 1)]);
  if (workplace.has_started(lab)) workplace.read_hint(lab, *selection.exercise, shown);
  return 0;
}

int run_training(const LabOptions& options) {
  const Lab& lab = lab_numbered(options.lab);
  const Workplace workplace(options.folder);
  workplace.require_started(lab);
  return run(lab, workplace.folder_of(lab).string(), options.more);
}

int solution(const LabOptions& options) {
  const Lab& lab = lab_numbered(options.lab);
  const Workplace workplace(options.folder);
  std::vector<std::string> open;
  for (std::size_t i = 0; i < lab.exercises.size(); ++i) {
    if (workplace.progress_of(lab, i).passed.empty()) open.push_back(lab.number_of(i));
  }
  if (!open.empty() && !options.give_up && !workplace.has_given_up(lab))
    fail(ExitCode::usage,
         "{} {} not passed yet. `cohort lab hint {}` helps; with --give-up the solution is shown, and that is kept in {}",
         join(open), open.size() == 1 ? "has" : "have", open.front(), (workplace.root() / "progress.json").string());
  if (!open.empty()) {
    workplace.require_started(lab);
    workplace.gave_up(lab);
  }
  fmt::print("{}", read_file(labs_folder() / lab.folder / "solution.cpp", "solution"));
  return 0;
}

// Commands of a person: under a launcher rank 0 alone acts.
template <class Run>
CLI::App* add(CLI::App& parent, Action& action, const char* name, const char* help, Run run,
              const std::shared_ptr<LabOptions>& options) {
  auto* command = parent.add_subcommand(name, help);
  command->add_option("--dir", options->folder, "The learner's folder; without it $COHORT_LABS, or labs")->type_name("FOLDER");
  command->callback([&action, options, run] { action = [options, run] { return is_printing_rank() ? run(*options) : 0; }; });
  return command;
}

template <class Run>
CLI::App* add_for_lab(CLI::App& parent, Action& action, const char* name, const char* help, Run run,
                      const char* what = "Number of the lab") {
  const auto options = std::make_shared<LabOptions>();
  auto* command = add(parent, action, name, help, run, options);
  command->add_option("lab", options->lab, what)->required();
  if (std::string_view(name) == "show")
    command->add_flag("--header", options->header, "The header with the exercises' contracts instead");
  if (std::string_view(name) == "run")
    command->add_option("words", options->more, "Further words for `cohort train`, behind --, as -- --set train.steps=20");
  if (std::string_view(name) == "solution")
    command->add_flag("--give-up", options->give_up, "Show it although exercises are open");
  if (std::string_view(name) == "hint") command->add_flag("--again", options->again, "From the first hint on");
  return command;
}

void add_check(CLI::App& parent, Action& action) {
  const auto options = std::make_shared<CheckOptions>();
  auto* command = parent.add_subcommand("check", "Compile your code and say what is right and what is not");
  command->footer(
      "Exit code 0 if all is right, else 11.\nExamples, after `cohort lab start 3`:\n"
      "  cohort lab check 3 || true              all exercises of lab 3\n"
      "  cohort lab check 3.2 || true            one of them\n"
      "  cohort lab check --all --json || true   of all labs that were started, for programs");
  auto* lab = command->add_option("lab", options->lab, "A lab, as 3, or an exercise, as 3.2");
  auto* all = command->add_flag("--all", options->all, "All labs that were started")->excludes(lab);
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--sanitize", options->sanitize,
                    "Compile with the address and undefined-behaviour sanitizers: they show the line of a crash");
  command->add_option("--limit", options->limit, "Seconds that an exercise may take")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_option("--dir", options->folder, "The learner's folder; without it $COHORT_LABS, or labs")->type_name("FOLDER");
  command->callback([&action, options, lab, all] {
    if (lab->count() + all->count() == 0) throw CLI::RequiredError("a lab, or --all");
    action = [options] { return is_printing_rank() ? check(*options) : 0; };
  });
}

void add_ask(CLI::App& parent, Action& action) {
  const auto options = std::make_shared<AskOptions>();
  auto* command = parent.add_subcommand("ask", "The lab's questions; is your answer right?");
  command->footer(
      "Exit code 11 if a number is not right.\nExamples:\n"
      "  cohort lab ask 3                        the questions of lab 3\n"
      "  cohort lab ask 3.q1 871                 is it 871?\n"
      "  cohort lab ask 3.q3 --answer            what is there to say");
  command->add_option("question", options->question, "A lab, as 3, or a question, as 3.q1")->required();
  command->add_option("value", options->value, "Your answer, a number in the unit that the question names");
  command->add_flag("--answer", options->answer, "Print the answers, too");
  command->add_flag("--json", options->json, "Print JSON, with the answers");
  command->add_option("--dir", options->folder, "The learner's folder; without it $COHORT_LABS, or labs")->type_name("FOLDER");
  command->callback([&action, options] { action = [options] { return is_printing_rank() ? ask(*options) : 0; }; });
}

void add_collect(CLI::App& parent, Action& action) {
  const auto options = std::make_shared<CollectOptions>();
  auto* command = parent.add_subcommand("collect", "Grade a class: a table (CSV) of all learners' folders in a folder");
  command->footer("A large class on a cluster: jobs/lab_collect.sbatch, a job array whose tasks grade a share each.");
  command->add_option("folder", options->folder, "A folder that has a learner's folder for each learner")->required();
  command->add_option("--limit", options->limit, "Seconds that an exercise may take")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_option("--share", options->share, "Grade a share of the learners: 2/8 is the second of eight")->type_name("I/N");
  command->callback([&action, options] { action = [options] { return is_printing_rank() ? collect(*options) : 0; }; });
}

// What `check` starts.
void add_grade(CLI::App& parent, Action& action) {
  struct Words {
    std::string lab, exercise, library;
  };
  const auto words = std::make_shared<Words>();
  auto* command = parent.add_subcommand("grade", "Grade one exercise, for `cohort lab check`")->group("");
  command->add_option("lab", words->lab)->required();
  command->add_option("exercise", words->exercise)->required();
  command->add_option("library", words->library)->required();
  command->callback([&action, words] {
    action = [words] {
      const Lab& lab = lab_numbered(words->lab);
      for (std::size_t i = 0; i < lab.exercises.size(); ++i) {
        if (lab.exercises[i].name == words->exercise) return grade_for_judge(lab, i, words->library);
      }
      fail(ExitCode::usage, "lab {} has no exercise {}", words->lab, words->exercise);
    };
  });
}

}  // namespace

void add_lab_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("lab", "The course: exercises that are checked, one file of C++ for each lab");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  cohort lab ls                           the labs, and how far you are\n"
      "  cohort lab start 3                      makes labs/03_collectives/exercise.cpp, for you to edit\n"
      "  cohort lab show 3                       its handout\n"
      "  cohort lab check 3 || true              is it right? If not: what is wrong (exit code 11)\n"
      "  cohort lab hint 3.1                     a hint for its first exercise; again: the next one\n"
      "  cohort lab ask 3                        its questions");
  add(*command, action, "ls", "List the labs, and what has passed", list, std::make_shared<LabOptions>());
  add_for_lab(*command, action, "show", "Print a lab's handout", show);
  add_for_lab(*command, action, "start", "Copy a lab's exercise into your folder", start);
  add_check(*command, action);
  add_for_lab(*command, action, "run", "Train the lab's run file with your code", run_training);
  add_for_lab(*command, action, "hint", "Print the next hint for an exercise", hint, "Number of the exercise, as 3.1");
  add_ask(*command, action);
  add_for_lab(*command, action, "reset", "Begin a lab again; what you had is kept beside it", reset);
  add_for_lab(*command, action, "solution", "Print a solution, when all exercises have passed", solution);
  add_collect(*command, action);
  add_grade(*command, action);
}

}  // namespace cohort::labs
