#include "nn/tensor_parallel.hpp"

#include <utility>

#include "ops/pointwise.hpp"

namespace cohort {
namespace {

[[noreturn]] void fail_without_group() {
  throw Error(ExitCode::internal, "a part of a model was run without the group that holds the other parts");
}

}  // namespace

TensorParallel& TensorParallel::none() {
  static TensorParallel one;
  return one;
}

Count TensorParallel::share(Count n) const {
  COHORT_CHECK(n % parts_ == 0, "{} in {} parts", n, parts_);
  return n / parts_;
}

ShardSpec TensorParallel::split(int dim, Count n) const {
  if (parts_ == 1) return {};
  const Count own = share(n);
  return {.splits = {{dim, Axis::tp, part_ * own, (part_ + 1) * own}}};
}

void TensorParallel::begin_pass(Count rows, bool with_gradients) {
  if (!sequence_) return;
  divided_ = rows % parts_ == 0;
  // Who computes gradients of own rows sums them over the parts.
  COHORT_CHECK(divided_ || !with_gradients, "sequence parallelism: {} rows in {} parts", rows, parts_);
}

ops::DropoutKey TensorParallel::rows_of(ops::DropoutKey key, const Tensor& x) const {
  if (!divided_) return key;
  const Count own = x.shape().rows();
  key.first_row = part_ * own;
  key.all_rows = parts_ * own;
  return key;
}

Tensor TensorParallel::take_all_rows(const StepContext& context, const Tensor& own) const {
  return divided_ ? context.take({all_rows(own.shape().rows()), own.shape().columns()}) : own;
}

void TensorParallel::start_gather_rows(const Tensor& all, const Tensor& own, const Site& site) {
  if (divided_) do_gather(all, own, site);
}

Tensor TensorParallel::gather_rows(const StepContext& context, const Tensor& own, const Site& site) {
  const Tensor all = take_all_rows(context, own);
  start_gather_rows(all, own, site);
  finish();
  return all;
}

void TensorParallel::start_sum_rows(const Tensor& own, const Tensor& terms, const Site& site) {
  if (parts_ == 1) return;
  if (divided_) {
    do_sum_scatter(own, terms, site);
  } else {
    COHORT_CHECK(own.raw() == terms.raw(), "a sum over the parts is made in place");
    do_sum(own, site);
  }
}

void TensorParallel::sum_rows(const Tensor& own, const Tensor& terms, const Site& site) {
  start_sum_rows(own, terms, site);
  finish();
}

void TensorParallel::gather_rows(const Tensor& all, const Tensor& own, const RowWork& work, const Site& site) {
  if (in_blocks()) {
    pass_around(all, own, work, site);
    block_behind(0, own.shape().rows()).of(all).copy_from(own);
  } else {
    start_gather_rows(all, own, site);
    finish();
    work({.begin = 0, .end = all.shape().rows()}, all);
  }
}

void TensorParallel::read_rows(const StepContext& context, const Tensor& own, const RowWork& work, const Site& site) {
  const Arena::Scope scratch(*context.activations);
  const Tensor all = take_all_rows(context, own);
  if (in_blocks()) return pass_around(all, own, work, site);
  gather_rows(all, own, work, site);
}

void TensorParallel::sum_rows(const StepContext& context, const Tensor& own, const RowWork& work, const Site& site) {
  const Arena::Scope scratch(*context.activations);
  if (in_blocks()) return sum_around(context, own, work, site);
  const Tensor terms = take_all_rows(context, own);
  work({.begin = 0, .end = terms.shape().rows()}, terms);
  sum_rows(own, terms, site);
}

RowBlock TensorParallel::block_behind(int steps, Count own) const {
  const int owner = (part_ + parts_ - steps) % parts_;
  return {.begin = owner * own, .end = (owner + 1) * own, .last = false};
}

void TensorParallel::pass_around(const Tensor& all, const Tensor& own, const RowWork& work, const Site& site) {
  const Count rows = own.shape().rows();
  Tensor here = own;
  for (int step = 0; step < parts_; ++step) {
    RowBlock block = block_behind(step, rows);
    block.last = step + 1 == parts_;
    if (block.last) return work(block, here);
    const Tensor next = block_behind(step + 1, rows).of(all);
    do_pass_on(here, next, site);
    work(block, here);
    finish();
    here = next;
  }
}

void TensorParallel::sum_around(const StepContext& context, const Tensor& own, const RowWork& work, const Site& site) {
  const Count rows = own.shape().rows();
  Tensor sum = context.take(own.shape());  // of the terms that the parts up to this one have added to a block
  const Tensor incoming = context.take(own.shape());
  Tensor terms = parts_ > 2 ? context.take(own.shape()) : own;
  work(block_behind(1, rows), sum);
  for (int step = 2; step <= parts_; ++step) {
    do_pass_on(sum, incoming, site);
    RowBlock block = block_behind(step, rows);
    block.last = step == parts_;  // the own one
    if (block.last) terms = own;
    work(block, terms);
    finish();
    ops::add(context.exec, terms, incoming, terms);
    std::swap(sum, terms);
  }
}

void TensorParallel::sum(const Tensor& x, const Site& site) {
  if (parts_ == 1) return;
  do_sum(x, site);
  wait();
}

void TensorParallel::max(const Tensor& x, const Site& site) {
  if (parts_ == 1) return;
  do_max(x, site);
  wait();
}

void TensorParallel::gather(const Tensor& all, const Tensor& own, const Site& site) {
  COHORT_CHECK(all.elements() == parts_ * own.elements(), "gather {} from {} parts of {}", all.shape().str(), parts_,
               own.shape().str());
  if (parts_ == 1) return all.copy_from(own.reshaped(all.shape()));
  do_gather(all, own, site);
  wait();
}

void TensorParallel::finish() {
  if (parts_ > 1) wait();
}

void TensorParallel::do_sum(const Tensor&, const Site&) { fail_without_group(); }
void TensorParallel::do_max(const Tensor&, const Site&) { fail_without_group(); }
void TensorParallel::do_gather(const Tensor&, const Tensor&, const Site&) { fail_without_group(); }
void TensorParallel::do_sum_scatter(const Tensor&, const Tensor&, const Site&) { fail_without_group(); }
void TensorParallel::do_pass_on(const Tensor&, const Tensor&, const Site&) { fail_without_group(); }
void TensorParallel::wait() { fail_without_group(); }

PartialGradients::PartialGradients(TensorParallel& parallel, const std::vector<Parameter*>& parameters) : parallel_(&parallel) {
  for (Parameter* parameter : parameters) {
    if (parameter->partial_gradient && !parameter->frozen) parameters_.push_back(parameter);
  }
}

void PartialGradients::begin() const {
  for (const Parameter* parameter : parameters_) {
    if (!parameter->shard.counts && parameter->gradient.defined()) parameter->gradient.zero();
  }
}

void PartialGradients::sum(const StepContext& context) const {
  if (parameters_.empty()) return;
  const Arena::Scope scratch(*context.activations);
  Count elements = 0;
  for (const Parameter* parameter : parameters_) elements += parameter->global_shape.elements();
  const Tensor message = context.take_fp32({elements});
  message.zero();
  // A part is a range of the first dim, so its elements are neighbours in the whole tensor, too.
  const auto for_each_place = [&](const auto& act) {
    Count begin = 0;
    for (const Parameter* parameter : parameters_) {
      const BoxMap map(parameter->global_shape, parameter->box());
      COHORT_CHECK(map.run() == parameter->elements(), "the part of {} is not contiguous", parameter->name);
      const Count first = begin + map.global(0);
      act(message.slice(first, first + parameter->elements()).reshaped(parameter->shape), parameter->gradient);
      begin += parameter->global_shape.elements();
    }
  };
  for_each_place([](const Tensor& place, const Tensor& gradient) { place.copy_from(gradient); });
  parallel_->sum(message);
  for_each_place([](const Tensor& place, const Tensor& gradient) { gradient.copy_from(place); });
}

}  // namespace cohort
