// What the trainings of the parallel tests share: the run that the real step is asked for, and how what came of it is compared.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "mesh/mesh.hpp"
#include "tensor/arena.hpp"

namespace cohort::test {

inline constexpr std::uint64_t kSeed = 42;  // of initial values and dropout

/// `shape` over all ranks of `host` on the device under test. // Collective over: host
std::unique_ptr<Mesh> mesh_of(Communicator& host, const MeshShape& shape);

/// One rank for itself.
struct Alone {
  std::unique_ptr<Communicator> host = make_alone();
  std::unique_ptr<Mesh> mesh = mesh_of(*host, MeshShape(1, 1, 1, 1));

 private:
  static std::unique_ptr<Communicator> make_alone();
};

/// A run of `model` on that mesh and the device under test, validated: `accumulation` micro-batches of `micro_batch` samples a
/// step and rank, AdamW with weight decay at a constant `learning_rate`, and clipping that acts, since the norms of the tests'
/// gradients are larger. Of `parallel` the degrees are filled in.
RunConfig step_config(const ModelSection& model, const Mesh& mesh, Count micro_batch, Count accumulation,
                      ParallelSection parallel, double learning_rate);

/// Fills memory that activations will lie in with a value that would show in every result.
void dirty(Arena& arena, unsigned seed);

std::vector<float> copy_of(const Tensor& tensor);

/// What is not finite is as far off as can be.
double finite_or_infinity(double value);
double largest_of(std::span<const float> values);

/// Differences count relative to the largest element of the same tensor, or to this share of that of all tensors if that is more:
/// a gradient that is the difference of large terms is only as exact as they are.
inline constexpr double kFloor = 0.1;
double worst_difference(std::span<const float> values, std::span<const float> wanted, double floor);

using WholeTensors = std::map<std::string, std::vector<float>>;  // by the names of parameters

/// The same of all tensors; the name of the worst one goes to `worst_name`, if it is given.
double worst_difference(const WholeTensors& values, const WholeTensors& wanted, std::string* worst_name = nullptr);

}  // namespace cohort::test
