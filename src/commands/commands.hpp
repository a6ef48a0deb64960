// The subcommands: one file each. An add_*_command() declares the command's options on the CLI11 app and, when the command was
// chosen, sets `action` to what it does; main runs the action and turns its result, or a cohort::Error, into the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace cohort {

using Action = std::function<int()>;

void add_train_command(CLI::App& app, Action& action);
void add_eval_command(CLI::App& app, Action& action);
void add_generate_command(CLI::App& app, Action& action);
void add_chat_command(CLI::App& app, Action& action);
void add_data_command(CLI::App& app, Action& action);
void add_tokenizer_command(CLI::App& app, Action& action);
void add_ckpt_command(CLI::App& app, Action& action);
void add_comm_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_prove_command(CLI::App& app, Action& action);
void add_plan_command(CLI::App& app, Action& action);
void add_doctor_command(CLI::App& app, Action& action);
void add_logs_command(CLI::App& app, Action& action);
void add_watch_command(CLI::App& app, Action& action);
void add_report_command(CLI::App& app, Action& action);
void add_compare_command(CLI::App& app, Action& action);
void add_graph_command(CLI::App& app, Action& action);
void add_preflight_command(CLI::App& app, Action& action);
void add_trace_command(CLI::App& app, Action& action);
void add_topo_command(CLI::App& app, Action& action);
void add_job_command(CLI::App& app, Action& action);
void add_info_command(CLI::App& app, Action& action);
/// To be added last: it describes all commands of `app`, which must outlive the action.
void add_reference_command(CLI::App& app, Action& action);

// Below `ckpt`. They start neither MPI nor Kokkos, so they work on a login node while the run continues; under a launcher rank 0
// alone acts and prints.
void add_ckpt_ls(CLI::App& ckpt, Action& action);
void add_ckpt_show(CLI::App& ckpt, Action& action);
void add_ckpt_verify(CLI::App& ckpt, Action& action);
void add_ckpt_diff(CLI::App& ckpt, Action& action);
void add_ckpt_prune(CLI::App& ckpt, Action& action);
void add_ckpt_consolidate(CLI::App& ckpt, Action& action);
void add_ckpt_reshard(CLI::App& ckpt, Action& action);
void add_ckpt_export(CLI::App& ckpt, Action& action);
void add_ckpt_import(CLI::App& ckpt, Action& action);
void add_ckpt_merge(CLI::App& ckpt, Action& action);

}  // namespace cohort
