// What a rank takes and sends in a step, before there is memory or another rank: the step itself (train_step.hpp) is run by this
// thread, which counts (base/counting.hpp). So strategies, layers, schedules and optimizers have no second form for plans that
// could differ from what they do.
//
// What is counted is what the step's own code asks for. Not counted, since libraries and drivers ask for it: NCCL's buffers, the
// workspace of the ops (gpu::kWorkspaceBytes), the slot of a ring of GPUs (comm/peer_ring.hpp: a message), cuBLASLt, CUDA itself,
// HDF5; and what kernels of CPUs take to compute in 16 bits (ops/cpu/fp32_copies.hpp), which no GPU has. In a program built
// without CUDA the scratch memory that attention asks for on a GPU is not known either, and counts nothing.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/counting_listener.hpp"
#include "base/work_tape.hpp"
#include "comm/trace.hpp"
#include "config/run_config.hpp"
#include "mesh/mesh.hpp"
#include "parallel/pipeline/timeline.hpp"
#include "tensor/memory_kind.hpp"
#include "train/train_step.hpp"

namespace cohort {

/// What a step of so many micro-batches asks for, in order.
struct TapedStep {
  Count micro_batches = 0;
  WorkTape tape;
  std::vector<pipeline::Event> passes;  // of a pipeline: their places on the tape as times
};

struct CountedStep {
  int stage = 0;         // of the pipeline
  KindsOfMemory memory;  // where the model runs
  Bytes host = 0;        // of the same kinds, in memory of the host beside a GPU
  Bytes disk = 0;        // scratch files
  StepArenas arenas;
  CommTrace::Table traffic;  // of a step, by group and operation
  // Of the runs of count_step(), the one with the fewest micro-batches first: one run if all of them were run, else two, which
  // differ by what is repeated.
  std::vector<TapedStep> runs;
};

/// Of rank `rank` of pipeline stage `stage`, as ranks of the world are counted from its first on. That one is first along all
/// other axes, and enough: along dp and cp all hold and send the same, and along tp the first holds no less than any other; but
/// see ranks_to_count(). `config` is validated and its vocabulary known. Takes little memory and some milliseconds, however many
/// ranks there are and however large the model is.
///
/// The micro-batches in the middle of a step are alike, so not all are run: two steps are, with few and with one more (in a
/// pipeline, a round of its ranks more), and the traffic of that one is taken as often as it is due. Few are the first and the
/// last; in a pipeline as many as it takes to have as much under way as in the whole step. Of these a block runs one or two
/// (nn/counted_blocks.hpp).
CountedStep count_step(const RunConfig& config, int stage, int rank = 0);

/// `listener` hears the whole step of the stage's first rank, whose model is shown to it before.
void listen_to_step(const RunConfig& config, int stage, CountingListener& listener,
                    const std::function<void(const Model& model)>& show);

/// Pipeline stages among which are those that need and send most: of stages with as many layers, the same of them
/// checkpointed, and the same ends, the first.
std::vector<int> stages_to_count(const RunConfig& config);
/// Of each of them, the ranks of ranks_to_count(), counted.
std::vector<CountedStep> count_stages(const RunConfig& config);

/// Observes the groups that the step's tensors travel in, and those that strategies will split from them.
void attach(CommTrace& trace, const Mesh& mesh);

}  // namespace cohort
