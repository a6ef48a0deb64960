// Lab 2: from one rank to data parallel. Every rank has a replica of the model and samples of its own; before the optimizer
// steps, all replicas need the same gradient.
//
// "Tokens" are what a loss is a mean of: with a classifier, its samples. A rank may have none, as the last batch of a validation
// leaves it; its mean and its gradients are then 0 / 0, not a number, and must not reach the others.
#pragma once

#include <cohort/lab.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cohort::lab {

/// The replicas of the model, one a rank, as one of them sees the group.
class Replicas {
 public:
  virtual ~Replicas() = default;
  /// This rank, from 0 to ranks() - 1.
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// data[i] <- sum over the ranks of data[i]. All ranks make the same calls of this class in the same order, with as many
  /// elements.
  virtual void all_reduce(std::span<float> data) = 0;
  /// Begins the same and returns at once, with the number to wait for. Until wait() has returned, nobody may read or write the
  /// data.
  virtual int begin_all_reduce(std::span<float> data) = 0;
  virtual void wait(int request) = 0;
};

}  // namespace cohort::lab

extern "C" {

/// 2.1: the samples that this rank trains on in an epoch. The samples 0 .. samples - 1 (at least one) are shuffled: an order that
/// depends on `seed` and `epoch` alone, so that all ranks know it without a word. Position p of the order belongs to rank p %
/// ranks, as its sample p / ranks; so what all ranks train on in a step does not depend on how many they are. `mine` has room for
/// samples / ranks, rounded up: if ranks do not divide the samples, the order goes on with its own beginning, and some samples
/// come twice.
void samples_of_rank(std::size_t samples, std::uint64_t seed, std::uint64_t epoch, int rank, int ranks,
                     std::span<std::size_t> mine);

/// 2.2: two replicas in one process. Each holds the gradient of the mean loss over its own tokens; afterwards both hold that of
/// the mean over the tokens of both. At least one of them has tokens.
void average_gradients(std::span<float> first, std::size_t first_tokens, std::span<float> second, std::size_t second_tokens);

/// 2.3: the mean loss over the tokens of all ranks, on every rank, from each rank's mean over its own. At least one rank has
/// tokens.
double mean_over_ranks(cohort::lab::Replicas& replicas, double mean, std::size_t tokens);

/// 2.4: after backward, each of `gradients` is that of the mean loss over this rank's tokens. Afterwards it is, on every rank,
/// that of the mean over the tokens of all ranks. At least one rank has tokens.
void naive_data_parallel(cohort::lab::Replicas& replicas, std::span<const std::span<float>> gradients, std::size_t tokens);

/// 2.5: all-reduce from hooks, in two functions. Here the loss was divided by the tokens of all ranks before backward: the sum
/// over the ranks is the gradient. Backward calls the first as soon as it has added to a gradient, in the same order on all
/// ranks, once in each micro-batch; before the last micro-batch more will be added. It must not wait: backward goes on with
/// earlier layers meanwhile. `requests` is for you: the same one in all calls of a rank, empty when a step begins.
void on_gradient_ready(cohort::lab::Replicas& replicas, std::span<float> gradient, bool last_micro_batch,
                       std::vector<int>& requests);
/// When backward is done: returns when all gradients are summed, and leaves `requests` empty. Then the optimizer reads the
/// gradients.
void before_optimizer(cohort::lab::Replicas& replicas, std::vector<int>& requests);

/// 2.6: `bytes` of the gradients, in the order in which backward makes them ready. buckets[i] <- the bucket of gradient i: from 0
/// on, without gaps, never falling, since a bucket leaves when its last gradient is ready. A gradient goes into the bucket of the
/// one before it if that then holds at most `limit` bytes (bucket 0: `first_limit`), else it begins the next one; a gradient that
/// is larger than the limit has a bucket of its own.
void assign_buckets(std::span<const std::size_t> bytes, std::size_t first_limit, std::size_t limit, std::span<int> buckets);
}
