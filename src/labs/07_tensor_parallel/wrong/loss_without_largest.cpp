// vocabulary_parallel_cross_entropy: the largest comes off first
#include <cmath>
#include <cohort/lab07_tensor_parallel.hpp>
#include <limits>
#include <vector>

using cohort::lab::all_reduce_sum;
using cohort::lab::Link;

void vocabulary_parallel_cross_entropy(Link& link, const VocabularyPart& part) {
  std::vector<float> largest(part.rows, -std::numeric_limits<float>::infinity()), sum(part.rows), target(part.rows);
  const auto logit = [&](std::size_t row, std::size_t column) { return part.logits[row * part.columns + column]; };
  for (std::size_t row = 0; row < part.rows; ++row)
    for (std::size_t column = 0; column < part.columns; ++column) largest[row] = 0.0f;
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
