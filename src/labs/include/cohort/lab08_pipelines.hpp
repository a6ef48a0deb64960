// Lab 8: pipelines and 3D. Stages, micro-batches, layers and ranks count from 0.
#pragma once

#include <cohort/lab.hpp>
#include <cstddef>
#include <span>

extern "C" {

/// 8.1: the share of a step's time in which a rank of a pipeline is idle: from the start of the first forward to the end of the
/// last backward, all stages equally fast, messages free. GPipe and 1F1B have chunks = 1. All numbers are 1 or more.
double bubble_fraction(int stages, int chunks, int micro_batches);

enum class PipelinePass { forward, backward };

/// A pass of one micro-batch through a stage.
struct PipelineAction {
  PipelinePass pass;
  int micro_batch;
};

/// 8.2 and 8.3: what a stage does in a step, in order: 2 * micro_batches actions, which the function fills in. Each micro-batch
/// once forward and, after that, once backward; forwards and backwards both with ascending micro-batches.
/// 8.2: all forwards, then all backwards (GPipe).
void gpipe_order(int stages, int stage, int micro_batches, std::span<PipelineAction> actions);
/// 8.3: warm-up with a forward for each stage behind this one, then one forward and one backward in turn, then the backwards that
/// are left (1F1B; PipeDream-Flush). No more than stages - stage micro-batches are in flight.
void one_f_one_b_order(int stages, int stage, int micro_batches, std::span<PipelineAction> actions);

/// 8.4: for how many micro-batches a stage must have room, with any order: most whose forward is done and whose backward is not.
/// (While a backward runs it still needs them.)
int peak_activations(std::span<const PipelineAction> actions);

/// 8.5: cuts layers of these costs (0 or more) into ends.size() stages of consecutive layers, one layer at least each, such that
/// the largest cost of a stage is as small as possible. ends[s]: one beyond the last layer of stage s. No more stages than
/// layers. There may be several best answers.
void balanced_stages(std::span<const double> costs, std::span<std::size_t> ends);

/// Ranks of a mesh: pp * dp * tp of them. tp varies fastest, then dp, then pp.
struct MeshSizes {
  int pp, dp, tp;
};
/// Coordinates in it, from 0.
struct MeshPlace {
  int pp, dp, tp;
};
enum class MeshAxis { pp, dp, tp };

/// 8.6: where in the mesh a rank is.
MeshPlace mesh_coordinates(const MeshSizes& sizes, int rank);

/// 8.7: the ranks that have all coordinates of `rank` but that of `axis`, ascending: those with which it communicates over this
/// axis. As many as the size of the axis.
void mesh_group(const MeshSizes& sizes, int rank, MeshAxis axis, std::span<int> group);

/// What a layout is placed on. bytes_*: what a rank sends over an axis in a step.
struct Cluster {
  int ranks_per_node;
  double inside_bandwidth, between_bandwidth;  // bytes a second, of a rank, within a node and between nodes
  double bytes_pp, bytes_dp, bytes_tp;
};
/// The order of the axes in the numbering of ranks.
struct MeshOrder {
  MeshAxis fastest, middle, slowest;
};
/// 8.8: in which order should the axes vary? The ranks of a node have consecutive numbers. All sizes, and the ranks of a node,
/// are powers of two. The messages of an axis go by the bandwidth between nodes as soon as one of its groups has ranks on two
/// nodes. The times of the three axes add up, and the sum is to be the smallest that there is.
MeshOrder choose_layout(const MeshSizes& sizes, const Cluster& cluster);
}
