// The bytes that a rank sends in an optimizer step, by group of ranks and operation: those of a step that was counted
// (train/counted_step.hpp) and, to hold them against, those of the papers.
//
// What is counted ("given"): what a rank hands to the call. All-reduce and broadcast: the tensor. Reduce-scatter and all-gather:
// the whole of N blocks, not the rank's own. Send: the message; its receive is the same data once more and counts nothing.
// What moves ("moved"): what a rank then sends over its link with the ring algorithms that MPI and NCCL use for long messages
// (Thakur et al. 2005, "Optimization of Collective Communication Operations in MPICH", sections 4.1, 4.4, 4.5): of the bytes
// given to N ranks 2 (N-1)/N in an all-reduce, (N-1)/N in a reduce-scatter or an all-gather, all of them in a send.
#pragma once

#include <string>
#include <vector>

#include "base/units.hpp"
#include "config/run_config.hpp"
#include "train/counted_step.hpp"

namespace cohort {

/// The traffic of one rank and step in one group of ranks, by one operation.
struct Traffic {
  std::string group;      // as the trace names it: "dp", "dp_cp.shards", "tp", "pp", ...
  std::string operation;  // "all_reduce", "reduce_scatter", "all_gather", "send"
  std::string purpose;    // for people: "gradients"
  int ranks = 1;          // of the group
  Count calls = 0;
  Bytes bytes = 0;  // given

  Bytes moved() const;
};

/// Traffic::purpose: what goes through a group by an operation, in words.
std::string purpose_of(const std::string& group, const std::string& operation);

/// See above. `operation` as in Traffic.
Bytes moved_bytes(const std::string& operation, int ranks, Bytes given);

/// A group and operation that has no more than this a step is left out of predictions: a few numbers of 8 bytes each, such as the
/// loss and the gradient norm, are all that goes through it.
inline constexpr Bytes kNumbersOfAStep = 256;

/// The largest over the stages, one entry for each (group, operation). For the reader, what to expect:
///
/// Data parallelism, of P parameters here (this stage's, this tensor-parallel part's), A micro-batches a step, N ranks:
///   naive, hooks, bucketed   all-reduce      P g
///   zero1                    reduce-scatter  P g       all-gather  P w
///   zero2                    reduce-scatter  A P g     all-gather  P w
///   zero3                    reduce-scatter  A P g     all-gather  about 2 A P w: each group as often as it is not in memory
///   shard_ranks              the same among the shards, and an all-reduce of a block's gradients among the replicas
/// where g and w are bytes of a reduced gradient and of a weight as layers read it, and groups of ZeRO are rounded up to blocks.
/// Rajbhandari et al. 2020 ("ZeRO"), section 7.
///
/// Context, tensor and pipeline parallelism, for each micro-batch of R rows here, width C, elements of e bytes:
///   cp   send, a layer: keys and values of R rows, N-1 turns forward and N-1 backward in e, N turns of their gradients in fp32
///   tp   all-reduce, a layer: 2 R C e forward and 2 R C e backward (Shoeybi et al. 2019, section 3); with sequence parallelism
///        each is a reduce-scatter and an all-gather, and backward gathers two inputs again (Korthikanti et al. 2022, 4.2.2);
///        with tensor_overlap 4 reduce-scatters and 4 all-gathers of these are N-1 sends of R C e / N each
///   pp   send: own rows C e a message (Narayanan et al. 2021, section 3.2); a tied head's gradient, once a step
/// With activation checkpointing, what a layer's forward sends is sent again in backward, but for the sum of the feed-forward's
/// outputs, which nobody reads there, and if it is selective for cp's.
std::vector<Traffic> predict_traffic(const std::vector<CountedStep>& stages);
/// The same, counted now. `config` is validated and its vocabulary known.
std::vector<Traffic> predict_traffic(const RunConfig& config);

/// What a paper gives for one axis: bytes moved by a rank in a step, the largest over the stages.
struct PaperTraffic {
  std::string axis;  // "dp" stands for all groups over which gradients are summed
  double moved = 0.0;
  std::string formula;
};

/// For each axis of more than one rank for which there is a formula:
///   dp   2 P for an all-reduce, and for zero1 and zero2; 3 P for zero3 (ZeRO, sections 7.1 and 7.2), times A where each
///        micro-batch pays; in the bytes of our types. With hybrid shards 2 P more, divided by the shards (Zhao et al. 2023,
///        "PyTorch FSDP", section 3.2.2)
///   tp   8 R C (t-1)/t elements a layer and micro-batch; pp  R C elements a micro-batch, boundary and pass
///        (Narayanan et al. 2021, section 3.2)
std::vector<PaperTraffic> paper_traffic(const RunConfig& config);

}  // namespace cohort
