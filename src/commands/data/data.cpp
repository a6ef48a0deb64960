// `cohort data`: a group of commands for training data.
#include "commands/data/data.hpp"

namespace cohort {

void add_data_command(CLI::App& app, Action& action) {
  auto* data = app.add_subcommand("data", "Make, prepare, inspect, import and export training data");
  data->require_subcommand(1);
  data->footer(
      "Examples:\n"
      "  cohort data synth stories --out stories.txt --bytes 2MiB\n"
      "  cohort data prepare --input stories.txt --out stories.h5 --tokenizer bpe --vocabulary 1024\n"
      "  cohort data inspect stories.h5 --samples 3\n"
      "  cohort data samples runs/demo --step 100\n"
      "  cohort data export stories.h5 --format nanogpt --out exported");
  add_data_synth(*data, action);
  add_data_prepare(*data, action);
  add_data_inspect(*data, action);
  add_data_samples(*data, action);
  add_data_import(*data, action);
  add_data_export(*data, action);
}

}  // namespace cohort
