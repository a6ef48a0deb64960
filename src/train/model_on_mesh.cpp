#include "train/model_on_mesh.hpp"

#include "checkpoint/load/collective.hpp"
#include "config/model_rules.hpp"
#include "config/pipeline.hpp"
#include "train/model_of_rank.hpp"
#include "train/precision.hpp"
#include "train/resume.hpp"
#include "train/train_step.hpp"

namespace cohort {

ModelOnMesh::ModelOnMesh(const RunConfig& config, Communicator& world)
    : config_(config), mesh_(world, mesh_shape_of(config.parallel), device_of(config), config.device.share) {
  if (mesh_.size(Axis::tp) > 1)
    tensor_parallel_ =
        std::make_unique<TensorParallelGroup>(mesh_.axis(Axis::tp), config.parallel.sequence, config.parallel.tensor_overlap);
  TensorParallel& part = tensor_parallel_ ? *tensor_parallel_ : TensorParallel::none();
  model_ = declare_model_of_rank(config, mesh_.index(Axis::pp), part);
  model_->parameters().allocate_values(config.run.seed, storage_of(config));
  if (mesh_.size(Axis::pp) == 1) return;
  pipeline_ =
      std::make_unique<pipeline::Engine>(dynamic_cast<Decoder&>(*model_), schedule_of(config.parallel, config.train.accumulation),
                                         mesh_.axis(Axis::pp), mesh_.host_axis(Axis::pp));
}

void ModelOnMesh::load(const std::filesystem::path& checkpoint) {
  load_checkpoint_collectively(mesh_.world(), checkpoint, model_->parameters(), describe_model(config_.model));
}

}  // namespace cohort
