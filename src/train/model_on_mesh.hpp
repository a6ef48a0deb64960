// A model that is divided over ranks and not trained: for generating text.
#pragma once

#include <filesystem>
#include <memory>

#include "mesh/mesh.hpp"
#include "models/model.hpp"
#include "parallel/pipeline/engine.hpp"
#include "parallel/tensor/tensor_parallel_group.hpp"

namespace cohort {

class ModelOnMesh {
 public:
  /// This rank's part, as parallel.tp and parallel.pp divide the model of the run, with its initial values. `config` is validated
  /// for the ranks of `world`, and its vocabulary known; both outlive this. // Collective over: world
  ModelOnMesh(const RunConfig& config, Communicator& world);

  /// Takes the weights of a checkpoint of any layout. Errors as load_shards(). // Collective over: world
  void load(const std::filesystem::path& checkpoint);

  /// The whole model.
  Predictor& predictor() { return pipeline_ ? static_cast<Predictor&>(*pipeline_) : *model_; }
  /// What this rank holds of it.
  Model& model() { return *model_; }

 private:
  const RunConfig& config_;
  Mesh mesh_;
  std::unique_ptr<TensorParallelGroup> tensor_parallel_;  // null: matrices are whole
  std::unique_ptr<Model> model_;
  std::unique_ptr<pipeline::Engine> pipeline_;  // null: one stage
};

}  // namespace cohort
