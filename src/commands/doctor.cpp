// `cohort doctor`: why a job stood still, and who is to blame.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "commands/commands.hpp"
#include "runtime/failure_exit.hpp"
#include "watch/doctor.hpp"

namespace cohort {

void add_doctor_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("doctor", "Explain why a job hung, from what it left in its run folder");
  command->footer(
      "A job with a rank that is lost (killed, stopped, its node down) or stuck (an endless loop, a collective that the others\n"
      "did not enter) is ended after watch.timeout seconds with exit code 12 and a message. Each rank then leaves a dump of\n"
      "its last operations in RUN/flight, and rank 0 its verdict; this command shows them on one page, with the errors in the\n"
      "ranks' logs and the step that a killed rank was in.\n"
      "\n"
      "Example:\n"
      "  cohort doctor runs/demo");
  auto run = std::make_shared<std::string>();
  command->add_option("run", *run, "the run's folder")->required();
  command->callback([&action, run] {
    action = [run] {
      const std::string page = examine(*run);
      if (is_printing_rank()) fmt::print("{}", page);
      return 0;
    };
  });
}

}  // namespace cohort
