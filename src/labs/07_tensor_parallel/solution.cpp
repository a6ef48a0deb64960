// Lab 7: one way to write it.
#include <algorithm>
#include <cmath>
#include <cohort/lab07_tensor_parallel.hpp>
#include <limits>
#include <span>
#include <utility>
#include <vector>

using cohort::lab::all_reduce_max;
using cohort::lab::all_reduce_sum;
using cohort::lab::Link;
using cohort::lab::multiply;
using cohort::lab::transposed;

namespace {

// dx, dweight and dbias of y = x W + b as this rank has it.
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

// 7.1
void column_parallel_linear(Link& link, const LinearSizes& sizes, const LinearPart& part) {
  const std::size_t own = sizes.outputs / static_cast<std::size_t>(link.ranks());
  multiply(sizes.rows, sizes.inputs, own, part.x, part.weight, part.y);
  add_bias(part.y, part.bias);
  backward(sizes.rows, sizes.inputs, own, part);
  // x is used by all ranks' columns: its gradient is the sum of what comes through each of them.
  all_reduce_sum(link, part.dx);
}

// 7.2
void row_parallel_linear(Link& link, const LinearSizes& sizes, const LinearPart& part) {
  const std::size_t own = sizes.inputs / static_cast<std::size_t>(link.ranks());
  multiply(sizes.rows, own, sizes.outputs, part.x, part.weight, part.y);
  all_reduce_sum(link, part.y);
  add_bias(part.y, part.bias);  // once, behind the sum
  backward(sizes.rows, own, sizes.outputs, part);
}

// 7.3
void qkv_columns(const HeadSizes& sizes, std::size_t rank, std::size_t ranks, std::span<std::size_t> columns) {
  const std::size_t queries = sizes.heads / ranks, keys = std::max<std::size_t>(1, sizes.kv_heads / ranks);
  const std::size_t first_query = rank * queries;
  const std::size_t first_key = first_query / (sizes.heads / sizes.kv_heads);
  auto next = columns.begin();
  const auto take = [&](std::size_t head, std::size_t heads) {
    for (std::size_t column = head * sizes.head_size; column < (head + heads) * sizes.head_size; ++column) *next++ = column;
  };
  take(first_query, queries);
  take(sizes.heads + first_key, keys);
  take(sizes.heads + sizes.kv_heads + first_key, keys);
}

// 7.4
void sequence_all_gather(Link& link, std::span<const float> own, std::span<float> all) {
  const int n = link.ranks(), rank = link.rank();
  const auto part = [&](int r) { return all.subspan(static_cast<std::size_t>((r + n) % n) * own.size(), own.size()); };
  std::copy(own.begin(), own.end(), part(rank).begin());
  for (int step = 0; step < n - 1; ++step)
    link.exchange((rank + 1) % n, part(rank - step), (rank + n - 1) % n, part(rank - step - 1));
}

// 7.5
void sequence_reduce_scatter(Link& link, std::span<const float> partial, std::span<float> own) {
  const int n = link.ranks(), rank = link.rank();
  const auto part = [&](int r) { return partial.subspan(static_cast<std::size_t>((r + 2 * n) % n) * own.size(), own.size()); };
  // The sum of part p starts on rank p + 1 and comes to rank p last.
  std::vector<float> sum(part(rank - 1).begin(), part(rank - 1).end()), received(own.size());
  for (int step = 0; step < n - 1; ++step) {
    link.exchange((rank + 1) % n, sum, (rank + n - 1) % n, received);
    const std::span<const float> mine = part(rank - step - 2);
    for (std::size_t i = 0; i < own.size(); ++i) sum[i] = received[i] + mine[i];
  }
  std::copy(sum.begin(), sum.end(), own.begin());
}

// 7.6
void vocabulary_parallel_cross_entropy(Link& link, const VocabularyPart& part) {
  std::vector<float> largest(part.rows, -std::numeric_limits<float>::infinity()), sum(part.rows), target(part.rows);
  const auto logit = [&](std::size_t row, std::size_t column) { return part.logits[row * part.columns + column]; };
  for (std::size_t row = 0; row < part.rows; ++row)
    for (std::size_t column = 0; column < part.columns; ++column) largest[row] = std::max(largest[row], logit(row, column));
  all_reduce_max(link, largest);
  const auto is_target = [&](std::size_t row, std::size_t column) {
    return static_cast<std::size_t>(part.targets[row]) == part.first + column;
  };
  for (std::size_t row = 0; row < part.rows; ++row) {
    for (std::size_t column = 0; column < part.columns; ++column) {
      sum[row] += std::exp(logit(row, column) - largest[row]);
      if (is_target(row, column)) target[row] = logit(row, column);
    }
  }
  all_reduce_sum(link, sum);
  all_reduce_sum(link, target);
  for (std::size_t row = 0; row < part.rows; ++row) {
    part.losses[row] = std::log(sum[row]) + largest[row] - target[row];
    for (std::size_t column = 0; column < part.columns; ++column)
      part.dlogits[row * part.columns + column] =
          std::exp(logit(row, column) - largest[row]) / sum[row] - (is_target(row, column) ? 1.0f : 0.0f);
  }
}

// 7.7
void merge_attention(std::span<float> out, float& lse, std::span<const float> part_out, float part_lse) {
  const float largest = std::max(lse, part_lse);
  if (largest == -std::numeric_limits<float>::infinity()) return;
  const float weight = std::exp(lse - largest), part_weight = std::exp(part_lse - largest), sum = weight + part_weight;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = (weight * out[i] + part_weight * part_out[i]) / sum;
  lse = largest + std::log(sum);
}

// 7.8
void ring_attention(Link& link, QueryBlock& queries, std::span<const float> own, std::span<float> out, std::span<float> lse) {
  const int n = link.ranks(), rank = link.rank();
  const std::size_t size = queries.head_size();
  std::vector<float> block(own.begin(), own.end()), received(own.size()), part(out.size()), part_lse(lse.size());
  std::fill(out.begin(), out.end(), 0.0f);
  std::fill(lse.begin(), lse.end(), -std::numeric_limits<float>::infinity());
  for (int step = 0; step < n; ++step) {
    const int owner = (rank + n - step) % n;
    if (owner <= rank) {  // those of later ranks are later tokens
      queries.attend(owner, block, part, part_lse);
      for (std::size_t t = 0; t < queries.tokens(); ++t)
        merge_attention(out.subspan(t * size, size), lse[t], std::span<const float>(part).subspan(t * size, size), part_lse[t]);
    }
    if (step + 1 == n) break;
    link.exchange((rank + 1) % n, block, (rank + n - 1) % n, received);
    std::swap(block, received);
  }
}
