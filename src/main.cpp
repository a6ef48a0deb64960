// The program: reads the command line, runs one command, and turns what comes of it into an exit code. The only catch of the
// program that ends it; see runtime/failure_exit.hpp for who prints and how the other ranks are ended.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/console.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/common/help_format.hpp"
#include "commands/common/learners_code.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/version.hpp"
#include "labs/command/lab_command.hpp"
#include "labs/use/learner_run.hpp"
#include "runtime/failure_exit.hpp"

namespace {

constexpr const char* kIntroduction =
    "Cohort trains transformer language models on MPI ranks: the same program, run file and results on a laptop and on a Slurm "
    "cluster.";

constexpr const char* kFooter =
    "Start here:\n"
    "  cohort info                                   what was built in\n"
    "  mpirun -np 4 cohort topo                      four ranks on this machine: where are they?\n"
    "  mpirun --oversubscribe --bind-to none -np 4 cohort topo\n"
    "                                                ... if it has fewer than four cores; as root add --allow-run-as-root\n"
    "  srun --mpi=pmix cohort topo                   the same in a Slurm job; `srun --mpi=list` shows what srun offers\n"
    "\n"
    "Every command has its own help: cohort topo --help\n"
    "\n"
    "Exit codes:\n";

std::string footer() {
  std::string text = kFooter;
  for (int code = 0; code <= cohort::kLastExitCode; ++code)
    text += fmt::format("{}  {:<2}  {}", code == 0 ? "" : "\n", code, cohort::meaning_of(static_cast<cohort::ExitCode>(code)));
  return text;
}

void add_commands(CLI::App& app, cohort::Action& action) {
  cohort::add_train_command(app, action);
  cohort::add_eval_command(app, action);
  cohort::add_generate_command(app, action);
  cohort::add_chat_command(app, action);
  cohort::add_data_command(app, action);
  cohort::add_tokenizer_command(app, action);
  cohort::add_ckpt_command(app, action);
  cohort::add_comm_command(app, action);
  cohort::add_bench_command(app, action);
  cohort::add_prove_command(app, action);
  cohort::add_plan_command(app, action);
  cohort::add_graph_command(app, action);
  cohort::add_doctor_command(app, action);
  cohort::add_logs_command(app, action);
  cohort::add_watch_command(app, action);
  cohort::add_report_command(app, action);
  cohort::add_trace_command(app, action);
  cohort::add_compare_command(app, action);
  cohort::add_preflight_command(app, action);
  cohort::add_topo_command(app, action);
  cohort::add_job_command(app, action);
  cohort::add_info_command(app, action);
  cohort::labs::add_lab_command(app, action);
  cohort::add_reference_command(app, action);
}

// The command that the words of the command line lead to.
const CLI::App* chosen(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

// The option or command that was meant by a word that nobody expected; "" if none is near.
std::string nearest_to(const std::string& word, const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(command->get_name());
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return cohort::nearest_name(word.substr(0, word.find('=')), names);
}

// Of the words that were left over: an option, else the first; its value, left over as well, is not the mistake.
std::string first_unknown(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  const auto option = std::find_if(words.begin(), words.end(), [](const std::string& word) { return word.starts_with('-'); });
  if (option != words.end()) return *option;
  return words.empty() ? "" : words.front();
}

// The exit code of a command that returned `code`, whose output must have reached its reader. A code that says more than success
// stays as it is: a job script goes by it.
int end_with(int code) {
  try {
    cohort::flush_console();
  } catch (const cohort::Error& error) {
    if (code == 0) return cohort::end_with_error(error);
    cohort::print_error_line(error.what());
  }
  return code;
}

// By way of a text: of a long one, a stream would lose why it could not be written.
int print_answer(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream answer;
  const int code = app.exit(error, answer);
  cohort::print_to_console(answer.str());
  return code;
}

// Help and the version are answers, printed once for all ranks. All else is a usage error.
int end_parse(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
    return cohort::is_printing_rank() ? end_with(print_answer(app, error)) : 0;
  const CLI::App* command = chosen(&app);
  std::string message = error.what();
  const bool unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr || command == &app;
  if (const std::string word = first_unknown(app); unknown && !word.empty()) {
    message = fmt::format("unknown argument '{}'", word);
    if (const std::string meant = nearest_to(word, *command); !meant.empty()) message += fmt::format(": did you mean {}?", meant);
  }
  const std::string name = command == &app ? "cohort" : "cohort " + command->get_name();
  return cohort::end_with_error(cohort::Error(cohort::ExitCode::usage, fmt::format("{} (see `{} --help`)", message, name)));
}

}  // namespace

int main(int argc, char** argv) {
  // 1. The command line. Nothing is started yet, so that --help and mistakes are answered at once, launched or not. Options must
  // not be checked against files here: a file can be missing on one node only, and its rank would not be the one that speaks.
  CLI::App app(kIntroduction, "cohort");
  app.set_version_flag("--version", "cohort " + cohort::cohort_version(), "Print the version; `cohort info` says more");
  app.formatter(std::make_shared<cohort::HelpFormat>());  // before the commands, which inherit it
  app.require_subcommand(1);
  cohort::Action action;
  add_commands(app, action);
  app.footer(footer());  // after the commands, which would inherit it
  cohort::set_learners_code(cohort::labs::use_learners_code);
  cohort::set_command_line(argc, argv);
  if (argc == 1) {
    if (cohort::is_printing_rank()) fmt::print("{}", app.help());
    return end_with(0);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return end_parse(app, error);
  }

  // 2. The command; those that run on all ranks keep a cohort::Runtime.
  try {
    return end_with(action());
  } catch (const cohort::Error& error) {
    return cohort::end_with_error(error);
  } catch (const std::exception& error) {
    return cohort::end_with_exception(error);
  }
}
