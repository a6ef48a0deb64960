// `cohort ckpt`: a group of commands for checkpoints.
#include "commands/commands.hpp"

namespace cohort {

void add_ckpt_command(CLI::App& app, Action& action) {
  auto* ckpt = app.add_subcommand("ckpt", "Inspect, verify, compare, prune and convert checkpoints");
  ckpt->require_subcommand(1);
  add_ckpt_ls(*ckpt, action);
  add_ckpt_show(*ckpt, action);
  add_ckpt_verify(*ckpt, action);
  add_ckpt_diff(*ckpt, action);
  add_ckpt_prune(*ckpt, action);
  add_ckpt_consolidate(*ckpt, action);
  add_ckpt_reshard(*ckpt, action);
  add_ckpt_export(*ckpt, action);
  add_ckpt_import(*ckpt, action);
  add_ckpt_merge(*ckpt, action);
}

}  // namespace cohort
