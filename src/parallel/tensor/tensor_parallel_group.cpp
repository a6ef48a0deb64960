#include "parallel/tensor/tensor_parallel_group.hpp"

namespace cohort {

void TensorParallelGroup::do_sum(const Tensor& x, const Site& site) {
  start(group_.all_reduce_async(x.raw(), x.elements(), x.dtype(), ReduceOp::sum, site));
}

void TensorParallelGroup::do_max(const Tensor& x, const Site& site) {
  start(group_.all_reduce_async(x.raw(), x.elements(), x.dtype(), ReduceOp::max, site));
}

void TensorParallelGroup::do_gather(const Tensor& all, const Tensor& own, const Site& site) {
  start(group_.all_gather_async(own.raw(), all.raw(), own.elements(), own.dtype(), site));
}

void TensorParallelGroup::do_sum_scatter(const Tensor& own, const Tensor& terms, const Site& site) {
  start(group_.reduce_scatter_async(terms.raw(), own.raw(), own.elements(), own.dtype(), ReduceOp::sum, site));
}

void TensorParallelGroup::do_pass_on(const Tensor& outgoing, const Tensor& incoming, const Site& site) {
  become_busy();
  turn_ = RingTurn(group_, outgoing, incoming, site);
  turn_.progress();
}

void TensorParallelGroup::start(Request request) {
  become_busy();
  under_way_ = std::move(request);
}

void TensorParallelGroup::become_busy() {
  COHORT_CHECK(!busy_, "two operations of tensor parallelism at a time");
  busy_ = true;
}

void TensorParallelGroup::wait() {
  turn_.wait();
  under_way_.wait();
  busy_ = false;
}

}  // namespace cohort
