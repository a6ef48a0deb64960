#include "checkpoint/tensor_part.hpp"

#include "base/error.hpp"

namespace cohort {
namespace {

ShardSpec spec_of(const std::optional<TensorPart::Range>& range) {
  ShardSpec spec;
  if (range) spec.split = {.dim = range->dim, .axis = Axis::tp, .begin = range->begin, .end = range->end};
  return spec;
}

}  // namespace

TensorPart::TensorPart(const Shape& shape, std::optional<Range> range, Count begin, Count elements)
    : shape_(shape),
      range_(range),
      begin_(begin),
      elements_(elements),
      box_shape_(spec_of(range).local(shape)),
      map_(shape, spec_of(range)) {
  COHORT_CHECK(begin >= 0 && elements >= 0 && begin <= box_shape_.elements() && elements <= box_shape_.elements() - begin,
               "elements {} to {} of a part of {} elements", begin, begin + elements, box_shape_.elements());
}

std::vector<Count> TensorPart::box_start() const {
  std::vector<Count> start(static_cast<std::size_t>(shape_.dims()), 0);
  if (range_) start[static_cast<std::size_t>(range_->dim)] = range_->begin;
  return start;
}

Count TensorPart::first_from(Count at) const {
  if (elements_ == 0 || at <= global(0)) return 0;
  // Position in the box of the first element at or behind `at`: whole runs before it, and what is left of its own run.
  const Count beyond = at - map_.first;
  const Count runs = beyond / map_.stride;
  const Count position = runs * map_.run + std::min(beyond % map_.stride, map_.run);
  return std::min(position - begin_, elements_);
}

Count common_elements(const TensorPart& a, const TensorPart& b) {
  Count common = 0;
  for_each_overlap(a, b, [&](Count, Count, Count n) { common += n; });
  return common;
}

}  // namespace cohort
