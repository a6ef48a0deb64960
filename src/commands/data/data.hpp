// The commands of `cohort data`.
#pragma once

#include <CLI/CLI.hpp>

#include "commands/commands.hpp"

namespace cohort {

void add_data_synth(CLI::App& data, Action& action);
void add_data_prepare(CLI::App& data, Action& action);
void add_data_inspect(CLI::App& data, Action& action);
void add_data_samples(CLI::App& data, Action& action);
void add_data_import(CLI::App& data, Action& action);
void add_data_export(CLI::App& data, Action& action);

}  // namespace cohort
