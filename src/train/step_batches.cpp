#include "train/step_batches.hpp"

namespace cohort {

BatchShare BatchShare::of(const Mesh& mesh, const SequenceSplit* sequence) {
  return {mesh.index(Axis::dp), mesh.size(Axis::dp), sequence, mesh.index(Axis::cp)};
}

void BatchShare::cut(Batch& batch) const {
  if (sequence == nullptr || batch.samples == 0) return;
  batch.inputs = sequence->part_of(part, batch.inputs);
  batch.targets = sequence->part_of(part, batch.targets);
  batch.positions = sequence->part_of(part, batch.positions);  // first_keys stay those of whole samples
  batch.tokens_per_sample = sequence->tokens_of_rank();
}

StepBatches::StepBatches(const Dataset& dataset, const Sampler& sampler, const TrainSection& train, const BatchShare& share,
                         DeviceKind device)
    : dataset_(dataset),
      sampler_(sampler),
      micro_batch_(train.micro_batch),
      share_(share),
      batches_(static_cast<std::size_t>(train.accumulation)),
      slots_(batches_.size()) {
  for (std::size_t m = 0; m < batches_.size(); ++m) buffers_.emplace_back(device, dataset.classes());
}

void StepBatches::load(Count step) {
  inputs_.clear();
  valid_targets_ = 0;
  for (std::size_t m = 0; m < batches_.size(); ++m) {
    const auto micro_step = static_cast<Count>(m);
    dataset_.fill(Split::train, sampler_.local_samples(step, micro_step, share_.rank, share_.ranks, micro_batch_), batches_[m]);
    share_.cut(batches_[m]);
    slots_[m] = sampler_.local_positions(step, micro_step, share_.rank, share_.ranks, micro_batch_);
    for (Count& slot : slots_[m]) slot -= step * sampler_.global_batch();  // from stream position to place in the global batch
    inputs_.push_back(buffers_[m].put(as_input(batches_[m], slots_[m])));
    valid_targets_ += batches_[m].valid_targets();
  }
}

std::vector<Count> StepBatches::sample_ids() const {
  std::vector<Count> ids;
  for (const Batch& batch : batches_) ids.insert(ids.end(), batch.sample_ids.begin(), batch.sample_ids.end());
  return ids;
}

}  // namespace cohort
