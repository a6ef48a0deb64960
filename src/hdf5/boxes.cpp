#include "hdf5/boxes.hpp"

#include "base/error.hpp"

namespace cohort::hdf5 {
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

}  // namespace

Count product_of(std::span<const Count> shape) {
  Count product = 1;
  for (const Count size : shape) product *= size;
  return product;
}

std::vector<Box> boxes_of_range(std::span<const Count> shape, Count begin, Count elements) {
  const Count all = product_of(shape);
  COHORT_CHECK(begin >= 0 && elements >= 0 && begin <= all && elements <= all - begin,
               "the range of {} elements from {} is outside of a shape of {} elements", elements, begin, all);
  std::vector<Box> boxes;
  if (elements > 0) cover(shape, {}, begin, begin + elements, boxes);
  return boxes;
}

}  // namespace cohort::hdf5
