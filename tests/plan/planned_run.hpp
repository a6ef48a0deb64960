// A run file for the tests of the planner: a small gpt2, or what the overrides make of it.
#pragma once

#include <string>
#include <vector>

#include "config/run_file.hpp"
#include "config/validate.hpp"

namespace cohort::test {

/// Validated for `ranks` ranks, with a vocabulary of 96.
inline RunConfig planned_run(Count ranks, const std::vector<std::string>& overrides = {}) {
  RunConfig config = parse_run_file(
      "[model]\nkind = 'gpt2'\nlayers = 4\nwidth = 64\nheads = 4\ncontext = 64\nvocabulary = 96\n"
      "[data]\ntokens = 'none.h5'\n[train]\nmicro_batch = 4\nglobal_batch = 48\n",
      "plan.toml", overrides);
  validate(config, ranks, {.cuda = true});
  return config;
}

}  // namespace cohort::test
