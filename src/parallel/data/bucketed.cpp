#include "parallel/data/bucketed.hpp"

#include "tensor/convert.hpp"

namespace cohort {

AssignBuckets buckets_of_at_least(Bytes bucket_bytes) {
  return [bucket_bytes](std::span<const Bytes> gradients) {
    std::vector<std::size_t> buckets;
    std::size_t bucket = 0;
    Bytes held = 0;
    for (const Bytes bytes : gradients) {
      if (!buckets.empty() && held >= bucket_bytes) {
        ++bucket;
        held = 0;
      }
      buckets.push_back(bucket);
      held += bytes;
    }
    return buckets;
  };
}

Bucketed::Bucketed(Model& model, Communicator& group, const AssignBuckets& assign, DType reduction)
    : DataParallel(model, group), bucket_of_(model.parameters().all().size()) {
  const ParameterRegistry& registry = model.parameters();
  if (reduction != DType::f32 && group.size() > 1) {
    rounded_ =
        Tensor::zeros("gradients.rounded", registry.flat_gradients().shape(), reduction, registry.flat_gradients().device());
  }
  const std::vector<Parameter*> in_order(registry.trained().rbegin(), registry.trained().rend());
  std::vector<Bytes> gradients;
  for (const Parameter* parameter : in_order) gradients.push_back(parameter->elements() * size_of(DType::f32));
  const std::vector<std::size_t> assigned = assign(gradients);
  COHORT_CHECK(assigned.size() == in_order.size(), "{} buckets of {} gradients", assigned.size(), in_order.size());
  for (std::size_t i = 0; i < in_order.size(); ++i) {
    const Parameter& parameter = *in_order[i];
    if (assigned[i] == buckets_.size()) {
      buckets_.emplace_back();
      buckets_.back().end = parameter.offset + parameter.elements();
    }
    COHORT_CHECK(assigned[i] + 1 == buckets_.size(), "{} is in bucket {}, and there are {} so far", parameter.name, assigned[i],
                 buckets_.size());
    buckets_.back().begin = parameter.offset;
    ++buckets_.back().parameters;
    bucket_of_[parameter.index] = assigned[i];
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
