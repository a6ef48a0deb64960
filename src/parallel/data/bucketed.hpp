// Bucketed, overlapped all-reduce, as in PyTorch DDP (Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data
// Parallel Training"). Gradients become ready from the last layer to the first; neighbours in that order share a bucket of a few
// MiB. When all gradients of a bucket are ready its all-reduce starts, asynchronously, while backward continues with earlier
// layers.
//
// A registry keeps all gradients in one block of memory in forward order, so a bucket is simply a range of it: nothing is copied
// in or out.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "parallel/data/data_parallel.hpp"

namespace cohort {

/// The bucket of each gradient, whose bytes are given in the order in which backward makes them ready: from 0 on, neighbours in
/// the same bucket or in one and the next.
using AssignBuckets = std::function<std::vector<std::size_t>(std::span<const Bytes> gradients)>;

/// A bucket is closed as soon as it holds at least `bucket_bytes`.
AssignBuckets buckets_of_at_least(Bytes bucket_bytes);

class Bucketed : public DataParallel {
 public:
  /// One gradient is never split. With a 16-bit `reduction` the gradients are rounded to it, summed in it and widened again: half
  /// the traffic, and less exact sums.
  Bucketed(Model& model, Communicator& group, const AssignBuckets& assign, DType reduction = DType::f32);
  Bucketed(Model& model, Communicator& group, Bytes bucket_bytes, DType reduction = DType::f32)
      : Bucketed(model, group, buckets_of_at_least(bucket_bytes), reduction) {}
  std::string_view name() const override { return "bucketed"; }

  void grad_ready(Parameter& parameter) override;

  /// Elements of each bucket, in the order in which they are sent.
  std::vector<Count> bucket_elements() const;

 protected:
  void finish_gradients(StepTimers& timers) override;

 private:
  struct Bucket {
    Count begin = 0, end = 0;  // range of the flat gradients
    int parameters = 0;
    int waiting_for = 0;  // gradients not yet ready in this backward pass
    Request request;
  };
  void start(Bucket& bucket);
  // The bucket's part of a flat tensor.
  static Tensor part(const Bucket& bucket, const Tensor& flat) { return flat.slice(bucket.begin, bucket.end); }

  Tensor rounded_;  // [elements] the gradients in the type of the reduction; undefined for fp32

  std::vector<Bucket> buckets_;         // from the last parameters to the first
  std::vector<std::size_t> bucket_of_;  // by parameter index
};

}  // namespace cohort
