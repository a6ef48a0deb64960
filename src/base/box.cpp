#include "base/box.hpp"

#include <array>
#include <tuple>

#include "base/error.hpp"

namespace cohort {
namespace {

/// Appends the boxes of [begin, end), begin < end, of the sub-array that `prefix` (indices along the first dims) leaves of
/// `shape`.
void cover(std::span<const Count> shape, std::vector<Count> prefix, Count begin, Count end, std::vector<Box>& boxes) {
  const std::span<const Count> rest = shape.subspan(prefix.size());
  const Count row = rest.empty() ? 1 : product_of(rest.subspan(1));
  if (rest.empty()) {
    boxes.push_back({std::move(prefix), std::vector<Count>(shape.size(), 1)});
    return;
  }
  const auto within_row = [&](Count index, Count row_begin, Count row_end) {
    std::vector<Count> longer = prefix;
    longer.push_back(index);
    cover(shape, std::move(longer), row_begin, row_end, boxes);
  };
  const Count first = begin / row;
  const Count last = end / row;  // the row that `end` lies in
  if (first == last) return within_row(first, begin % row, end % row);
  // A piece of the first row, whole rows, a piece of the last row.
  const Count first_whole = begin % row == 0 ? first : first + 1;
  if (first_whole > first) within_row(first, begin % row, row);
  if (first_whole < last) {
    Box whole{prefix, std::vector<Count>(prefix.size(), 1)};
    whole.start.push_back(first_whole);
    whole.count.push_back(last - first_whole);
    whole.start.resize(shape.size(), 0);
    whole.count.insert(whole.count.end(), rest.begin() + 1, rest.end());
    boxes.push_back(std::move(whole));
  }
  if (end % row != 0) within_row(last, 0, end % row);
}

void check_box(const Shape& shape, const Box& box) {
  const auto dims = static_cast<std::size_t>(shape.dims());
  COHORT_CHECK(box.start.size() == dims && box.count.size() == dims, "a box of {} offsets and {} counts in the shape {}",
               box.start.size(), box.count.size(), shape.str());
  for (std::size_t dim = 0; dim < dims; ++dim) {
    const Count all = shape[static_cast<int>(dim)];
    COHORT_CHECK(box.start[dim] >= 0 && box.count[dim] >= 0 && box.start[dim] <= all && box.count[dim] <= all - box.start[dim],
                 "{} elements from offset {} along dim {} of the shape {}", box.count[dim], box.start[dim], dim, shape.str());
  }
}

/// Whether the boxes' ranges along the dim are the same or have nothing in common. No box is empty.
bool are_apart(const std::vector<const Box*>& boxes, std::size_t dim) {
  std::vector<std::pair<Count, Count>> ranges;
  for (const Box* box : boxes) ranges.emplace_back(box->start[dim], box->end(dim));
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i] != ranges[i - 1] && ranges[i].first < ranges[i - 1].second) return false;
  }
  return true;
}

}  // namespace

Box Box::whole(const Shape& shape) { return {std::vector<Count>(static_cast<std::size_t>(shape.dims()), 0), shape.vector()}; }

Box Box::range(const Shape& shape, int dim, Count begin, Count end) {
  COHORT_CHECK(0 <= dim && dim < shape.dims() && 0 <= begin && begin <= end && end <= shape[dim],
               "indices {} to {} of dim {} of the shape {}", begin, end, dim, shape.str());
  Box box = whole(shape);
  box.start[static_cast<std::size_t>(dim)] = begin;
  box.count[static_cast<std::size_t>(dim)] = end - begin;
  return box;
}

Count Box::elements() const { return product_of(count); }

Count product_of(std::span<const Count> shape) {
  Count product = 1;
  for (const Count size : shape) product *= size;
  return product;
}

Box intersection(const Box& a, const Box& b) {
  COHORT_CHECK(a.start.size() == b.start.size(), "boxes of {} and of {} dims", a.start.size(), b.start.size());
  Box common = a;
  for (std::size_t dim = 0; dim < a.start.size(); ++dim) {
    common.start[dim] = std::max(a.start[dim], b.start[dim]);
    common.count[dim] = std::max<Count>(0, std::min(a.end(dim), b.end(dim)) - common.start[dim]);
  }
  return common;
}

std::vector<Box> boxes_of_range(std::span<const Count> shape, Count begin, Count elements) {
  const Count all = product_of(shape);
  COHORT_CHECK(begin >= 0 && elements >= 0 && begin <= all && elements <= all - begin,
               "the range of {} elements from {} is outside a shape of {} elements", elements, begin, all);
  std::vector<Box> boxes;
  if (elements > 0) cover(shape, {}, begin, begin + elements, boxes);
  return boxes;
}

BoxMap::BoxMap(const Shape& shape, const Box& box) {
  check_box(shape, box);
  std::array<Level, Shape::kMaxDims> inwards{};  // the run first
  std::size_t last = 0;
  inwards[0] = {1, 1, 1};
  Count elements = 1, stride = 1;  // of the dims behind: in the box, in the tensor
  for (int dim = shape.dims() - 1; dim >= 0; --dim) {
    const auto d = static_cast<std::size_t>(dim);
    first_ += box.start[d] * stride;
    inwards[last].count *= box.count[d];
    elements *= box.count[d];
    stride *= shape[dim];
    if (box.count[d] != shape[dim] && dim > 0) inwards[++last] = {1, elements, stride};
  }
  run_ = inwards[0].count;
  while (last > 0) level_[levels_++] = inwards[last--];
}

Count BoxMap::before(Count at) const {
  Count beyond = at - first_;
  if (beyond <= 0) return 0;
  Count before = 0;
  for (int level = 0; level < levels_; ++level) {
    const auto& [count, elements, stride] = level_[level];
    const Count index = beyond / stride;
    if (index >= count) return before + count * elements;
    before += index * elements;
    beyond -= index * stride;
  }
  return before + std::min(beyond, run_);
}

TensorPart::TensorPart(const Shape& shape, Box box, Count begin, Count elements)
    : shape_(shape), box_(std::move(box)), begin_(begin), elements_(elements), map_(shape_, box_) {
  COHORT_CHECK(begin >= 0 && elements >= 0 && begin <= box_.elements() && elements <= box_.elements() - begin,
               "elements {} to {} of a part of {} elements", begin, begin + elements, box_.elements());
}

Count TensorPart::first_from(Count at) const {
  if (elements_ == 0) return 0;
  return std::clamp<Count>(map_.before(at) - begin_, 0, elements_);
}

bool cover_once(const Shape& shape, std::vector<const TensorPart*> parts) {
  std::erase_if(parts, [](const TensorPart* part) { return part->elements() == 0; });
  const auto key = [](const TensorPart* part) { return std::tie(part->box().start, part->box().count); };
  std::sort(parts.begin(), parts.end(), [&](const TensorPart* a, const TensorPart* b) {
    const auto order = key(a) <=> key(b);
    return order != 0 ? order < 0 : a->begin() < b->begin();
  });
  // The runs of one box follow each other from its first element to its last.
  std::vector<const Box*> boxes;
  Count in_box = 0;  // elements covered of the last of them
  for (const TensorPart* part : parts) {
    if (part->shape() != shape) return false;
    if (boxes.empty() || *boxes.back() != part->box()) {
      if (!boxes.empty() && in_box != boxes.back()->elements()) return false;
      boxes.push_back(&part->box());
      in_box = 0;
    }
    if (part->begin() != in_box) return false;
    in_box += part->elements();
  }
  if (!boxes.empty() && in_box != boxes.back()->elements()) return false;
  // Different boxes whose ranges are the same or apart are apart along some dim; and such that hold as much as the tensor fill
  // it.
  for (std::size_t dim = 0; dim < static_cast<std::size_t>(shape.dims()); ++dim) {
    if (!are_apart(boxes, dim)) return false;
  }
  Count covered = 0;
  for (const Box* box : boxes) covered += box->elements();
  return covered == shape.elements();
}

}  // namespace cohort
