// Which layouts of a number of ranks fit into memory, how long a step would take in each, and what it would wait for.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "plan/profile.hpp"
#include "plan/step_time.hpp"
#include "train/proof.hpp"

namespace cohort {

/// What a plan is for.
struct PlannedMachine {
  MachineProfile profile;
  int ranks_per_node = 1;
  Bytes memory = 0;       // of a rank; 0 = no limit
  Bytes host_memory = 0;  // of a node, for all its ranks; 0 = not known, and no limit
};

struct Suggestion {
  Layout layout;
  Bytes memory = 0;   // of the rank that needs most
  Bytes host = 0;     // of the node that needs most, of all its ranks: what they offload to it, and on CPUs all that they have
  Bytes moved = 0;    // by the rank that sends most, in a step (traffic.hpp)
  StepTime time;      // of none that does not fit, and of none with parallel.offload
  std::string words;  // that suggest_layouts() made it of (layout_from_words())
  std::string lacks;  // memory that it needs and the machine has not: "93.1 GiB on a rank"; "" if it fits
};

struct Suggestions {
  std::vector<Suggestion> fitting;    // the fastest first
  std::vector<Suggestion> untimed;    // fit with parallel.offload, if none does without it; the smallest first
  std::vector<Suggestion> too_large;  // the smallest first
  std::vector<std::string> refused;   // reasons why others are none, each once
};

/// One layout: counted, and timed if it fits.
Suggestion weigh_layout(Layout layout, const PlannedMachine& machine);

/// All dp, pp, cp and tp of `ranks` ranks that may be worth it, for the global batch of the run. Without a pipeline: bucketed and
/// the three stages of ZeRO (the third also among the ranks of a node). With one: zero1, 1f1b and interleaved in two chunks.
/// Tensor parallelism with sequence parallelism, and inside a node; context parallelism as long as a rank keeps 1,024 tokens of a
/// sample.
///
/// Beyond those, on GPUs with model.activation_offload what does not fit without it; and with parallel.tensor_overlap what could
/// so be one of the fastest: it may save the time that the layout waits for tp. Of a run with activation checkpointing that does
/// not say of how many layers, the fastest checkpoint no more layers than they must to fit. A layout is told once, in its fastest
/// form. If none fits, ZeRO with parallel.offload, too, which is not timed (step_time.hpp). `config` is validated for any number
/// of ranks and its vocabulary known.
Suggestions suggest_layouts(const RunConfig& config, int ranks, const PlannedMachine& machine);

/// "81 % computing, 12 % waiting for dp, 7 % bubble": where a step's time goes, the largest part first, without what is less than
/// half a per cent.
std::string words_of_split(const StepSplit& split);

}  // namespace cohort
