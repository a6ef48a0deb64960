// The step that count_step() counts (train/counted_step.hpp), without its two short ways: each micro-batch is run, by all blocks.
#pragma once

#include "train/counted_step.hpp"

namespace cohort::test {

/// Of the first rank of pipeline stage `stage` of a decoder. `config` is validated and its vocabulary known.
CountedStep count_whole_step(const RunConfig& config, int stage);

}  // namespace cohort::test
