#include "parallel/data/bucketed.hpp"

#include "tensor/convert.hpp"

namespace cohort {

Bucketed::Bucketed(Model& model, Communicator& group, Bytes bucket_bytes, DType reduction)
    : DataParallel(model, group), bucket_of_(model.parameters().all().size()) {
  const ParameterRegistry& registry = model.parameters();
  if (reduction != DType::f32 && group.size() > 1) {
    rounded_ =
        Tensor::zeros("gradients.rounded", registry.flat_gradients().shape(), reduction, registry.flat_gradients().device());
  }
  for (auto it = registry.trained().rbegin(); it != registry.trained().rend(); ++it) {
    const Parameter& parameter = **it;
    const Count begin = parameter.offset;
    const bool full = !buckets_.empty() && (buckets_.back().end - buckets_.back().begin) * size_of(DType::f32) >= bucket_bytes;
    if (buckets_.empty() || full) {
      buckets_.emplace_back();
      buckets_.back().end = begin + parameter.elements();
    }
    buckets_.back().begin = begin;
    ++buckets_.back().parameters;
    bucket_of_[parameter.index] = buckets_.size() - 1;
  }
  for (Bucket& bucket : buckets_) bucket.waiting_for = bucket.parameters;
}

void Bucketed::grad_ready(Parameter& parameter) {
  if (!last_micro_batch()) return;  // more will be added to this gradient
  Bucket& ready = buckets_[bucket_of_[parameter.index]];
  if (--ready.waiting_for == 0) start(ready);
  // MPI moves data only inside its calls: testing the buckets under way is what lets them overlap with backward.
  const auto scope = timers().scope(Phase::communication);
  for (Bucket& bucket : buckets_) bucket.request.test();
}

void Bucketed::start(Bucket& bucket) {
  const auto scope = timers().scope(Phase::communication);
  Tensor gradients = part(bucket, model_.parameters().flat_gradients());
  if (rounded_.defined()) {
    convert(part(bucket, rounded_), gradients);
    gradients = part(bucket, rounded_);
  }
  bucket.request = group_.all_reduce_async(gradients.raw(), gradients.elements(), gradients.dtype(), ReduceOp::sum);
}

void Bucketed::finish_gradients(StepTimers& timers) {
  const auto scope = timers.scope(Phase::communication);
  for (Bucket& bucket : buckets_) {
    COHORT_CHECK(bucket.waiting_for == 0, "{} gradients of a bucket were never ready", bucket.waiting_for);
    bucket.request.wait();
    if (rounded_.defined()) convert(part(bucket, model_.parameters().flat_gradients()), part(bucket, rounded_));
    bucket.waiting_for = bucket.parameters;
  }
}

std::vector<Count> Bucketed::bucket_elements() const {
  std::vector<Count> elements;
  for (const Bucket& bucket : buckets_) elements.push_back(bucket.end - bucket.begin);
  return elements;
}

}  // namespace cohort
