// `cohort reference`: the pages of docs/reference, written from the program itself (`make docs`).
#include <memory>

#include "base/error.hpp"
#include "commands/commands.hpp"
#include "commands/common/open_world.hpp"
#include "config/describe.hpp"
#include "runtime/failure_exit.hpp"

namespace cohort {
namespace {

std::string head_of(const std::string& title, const std::string& page, const std::string& what) {
  return fmt::format(
      "# {}\n\n<!-- Written by `make docs` from `cohort reference {}`. Do not edit: change the program. -->\n\n{}\n\n", title,
      page, what);
}

std::string run_file_page() {
  return head_of(
             "Run file keys", "run-file",
             "Every section and key of a run file, with its type, its default and the values that it takes. A note in brackets "
             "says in which\nruns a key has an effect; elsewhere setting it is an error. `cohort train --help-keys` prints the "
             "same. How run files\nwork: [First run](../first-run.md). Commands: [commands.md](commands.md).") +
         keys_as_markdown();
}

std::string exit_codes_page() {
  std::string text =
      head_of("Exit codes", "exit-codes",
              "What `cohort` returns to the shell and to SLURM. Scripts may rely on the numbers. What to do about them: "
              "[Failures](../failures.md).") +
      "| code | meaning |\n|---|---|\n";
  for (int code = 0; code <= kLastExitCode; ++code)
    text += fmt::format("| {} | {} |\n", code, meaning_of(static_cast<ExitCode>(code)));
  return text;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// Its help, and that of the commands below it. `name`: "cohort ckpt show".
std::string help_of(const CLI::App& command, const std::string& name) {
  std::string text = fmt::format("## {}\n\n```text\n{}```\n", name,
                                 command.get_formatter()->make_help(&command, name, CLI::AppFormatMode::Normal));
  for (const CLI::App* below : commands_of(command)) text += "\n" + help_of(*below, name + " " + below->get_name());
  return text;
}

std::string commands_page(const CLI::App& app) {
  std::string text = head_of("Commands", "commands",
                             "The help of every command, as `cohort COMMAND --help` prints it. "
                             "Keys of a run file: [run-file.md](run-file.md); exit\ncodes: [exit-codes.md](exit-codes.md).");
  return text + help_of(app, app.get_name());
}

}  // namespace

void add_reference_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("reference", "Print a page of the reference as Markdown: run-file, commands or exit-codes");
  command->footer(
      "`make docs` writes these pages into docs/reference.\n"
      "\n"
      "Example:\n"
      "  cohort reference run-file > run-file.md");
  const auto page = std::make_shared<std::string>();
  command->add_option("page", *page, "Which page")->required()->check(CLI::IsMember({"run-file", "commands", "exit-codes"}));
  command->callback([&app, &action, page] {
    action = [&app, page] {
      if (!is_printing_rank()) return 0;
      fmt::print("{}", *page == "run-file" ? run_file_page() : *page == "commands" ? commands_page(app) : exit_codes_page());
      return 0;
    };
  });
}

}  // namespace cohort
