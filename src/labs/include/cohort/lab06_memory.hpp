// Lab 6: memory. What a rank holds, how ZeRO (FSDP) divides it, and what is computed again instead of kept.
#pragma once

#include <cohort/lab.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

extern "C" {

/// 6.1: bytes of a rank in mixed precision with Adam (Rajbhandari et al. 2020, section 3.1): 2 a parameter for the 16-bit
/// weights, 2 for the 16-bit gradients, and K = 12 for the optimizer: fp32 weights, momentum, variance. Stage 0 shares nothing
/// among `ranks`; stage 1 the optimizer, 2 the gradients, too, 3 the weights, too. Fractions of a byte are fine.
struct StateBytes {
  double parameters;
  double gradients;
  double optimizer;
};
/// Throws std::invalid_argument for a stage other than 0 to 3.
StateBytes memory_of_stage(double parameters, int ranks, int stage);

/// 6.2: what is divided, by the name of a strategy: those of PyTorch FSDP (NO_SHARD, SHARD_GRAD_OP, FULL_SHARD, HYBRID_SHARD) and
/// of DeepSpeed's stages as Cohort writes them (zero0, zero1, zero2, zero3).
struct Sharding {
  bool optimizer;
  bool gradients;
  bool parameters;     // the weights that layers read
  bool within_a_node;  // divided among the ranks of a node; nodes hold replicas
};
/// Throws std::invalid_argument for any other name, with the name in its words.
Sharding sharding_of(std::string_view name);

/// 6.3: the least stage, 0 to 3, in which the state of 6.1 is at most `budget` bytes on each of `ranks`; -1 if not even stage 3
/// is. The least, because each further stage buys memory with waiting or with messages.
int smallest_stage(double parameters, int ranks, double budget);

/// 6.4: FSDP's units. A model is a tree: module 0 is the root, and every other module comes after its parent.
struct Module {
  std::string_view type;  // "Embedding", "Block", "Attention", "Linear", ...
  int parent;             // -1 for the root
  double parameters;      // of its own, without those of the modules below it
};
/// Every module of type `block` begins a unit, and so does the root. A module belongs to the unit that begins nearest above it or
/// at itself: unit_of[i] is the number of the module that begins the unit of module i.
///
/// Returns how many parameters are gathered at most at one time. The root's unit stays gathered for the whole pass. While one
/// other unit computes, the next is already on its way: two that follow each other in the order of the modules are there at the
/// same time.
double wrap_policy(std::span<const Module> modules, std::string_view block, std::span<int> unit_of);

/// 6.5: what rank `rank` owns of an array. All ranks have blocks of the same length, because collectives want that: the smallest
/// multiple of `alignment` (at least 1) that lets `ranks` blocks hold all elements. What is behind the last element is padding.
struct Shard {
  std::size_t block;  // elements of each rank's block, padding included: the same on all ranks
  std::size_t begin;  // the rank's own elements, without padding: begin <= end <= elements
  std::size_t end;
};
Shard shard_bounds(std::size_t elements, int ranks, int rank, std::size_t alignment);

/// 6.6: `data` is one block for each rank, of the same length (data.size() is a multiple of the number of ranks), and has values
/// of this rank in all of them. Afterwards the block of rank r has, on rank r, the sum over all ranks. Of the other blocks
/// nothing is known then. A rank sends n - 1 blocks.
void reduce_scatter(cohort::lab::Link& link, std::span<float> data);

/// 6.7: the block of rank r is right on rank r alone; afterwards on all. A rank sends n - 1 blocks.
void all_gather(cohort::lab::Link& link, std::span<float> data);

/// 6.8: one step of ZeRO-1 or 2 with momentum. `parameters` are the same on all ranks, `gradients` are those of this rank's
/// samples, which the step may change; both are padded to one block a rank. `momentum` is this rank's block of it alone. With g
/// the sum of the gradients over all ranks:
///
///   momentum <- 0.9 * momentum + g        parameters <- parameters - rate * momentum
///
/// Afterwards the parameters are the same on all ranks again, bit for bit. A rank sends 2 (n - 1) blocks.
void zero_step(cohort::lab::Link& link, std::span<float> parameters, std::span<float> gradients, std::span<float> momentum,
               float rate);

/// 6.9: a chain of layers that keeps activations only where it is told to. Activation 0 is the input and layer l makes activation
/// l + 1 of activation l. At first activation 0 alone is held. Calls that need what is not held are errors.
struct Chain {
  virtual ~Chain() = default;
  virtual int layers() const = 0;
  /// Layer `layer` computes: needs activation `layer`; activation layer + 1 is held from now on.
  virtual void forward(int layer) = 0;
  /// Needs activation `layer`, from which it computes the layer's gradients. The first call is that of the last layer, and all
  /// activations must have been computed before: the loss is at the end of the chain. Layers go from last to first, each once.
  virtual void backward(int layer) = 0;
  /// Gives activation `activation` up.
  virtual void drop(int activation) = 0;
};
/// Forward and backward of the whole chain, which keeps the inputs of the layers 0, every, 2 every, ... through forward, and
/// computes all else again in backward, a segment of `every` layers at a time. No layer computes more than twice, and at no time
/// are more than ceil(layers / every) + every activations held (Chen et al. 2016, section 4). When it returns, at most
/// activation 0 is held.
void recompute_segments(Chain& chain, int every);

/// 6.10: gradient accumulation. Of each micro-batch there is what a framework leaves: the mean loss over its valid tokens, and
/// the gradient of that mean. A micro-batch without a valid token has NaN in both: 0 / 0.
struct MicroBatch {
  std::int64_t tokens;  // valid ones
  double loss;
  std::span<const float> gradient;  // as many as `gradient` below
};
/// gradient <- that of the mean loss over all valid tokens of all micro-batches, as one large batch would have it. Returns that
/// mean loss. If there is no valid token at all: zeros, and 0.
double accumulate(std::span<const MicroBatch> micro_batches, std::span<float> gradient);
}
