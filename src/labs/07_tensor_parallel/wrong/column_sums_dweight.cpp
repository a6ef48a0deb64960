// column_parallel_linear: the sum over the ranks of gradients of different columns
#include <algorithm>
#include <cohort/lab07_tensor_parallel.hpp>
#include <span>

using cohort::lab::all_reduce_sum;
using cohort::lab::Link;
using cohort::lab::multiply;
using cohort::lab::transposed;

namespace {

void backward(std::size_t rows, std::size_t inputs, std::size_t outputs, const LinearPart& part) {
  multiply(rows, outputs, inputs, part.dy, transposed(inputs, outputs, part.weight), part.dx);
  multiply(inputs, rows, outputs, transposed(rows, inputs, part.x), part.dy, part.dweight);
  std::fill(part.dbias.begin(), part.dbias.end(), 0.0f);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < outputs; ++j) part.dbias[j] += part.dy[i * outputs + j];
}

void add_bias(std::span<float> y, std::span<const float> bias) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += bias[i % bias.size()];
}

}  // namespace

// As data parallelism sums gradients.
void column_parallel_linear(Link& link, const LinearSizes& sizes, const LinearPart& part) {
  const std::size_t own = sizes.outputs / static_cast<std::size_t>(link.ranks());
  multiply(sizes.rows, sizes.inputs, own, part.x, part.weight, part.y);
  add_bias(part.y, part.bias);
  backward(sizes.rows, sizes.inputs, own, part);
  all_reduce_sum(link, part.dx);
  all_reduce_sum(link, part.dweight);
}
