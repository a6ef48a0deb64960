// Lab 7: tensor, sequence and context parallel. Matrices lie row by row: element (i, j) of a matrix [rows, columns] is
// [i * columns + j]. All ranks call a function at the same time. Number of ranks: link.ranks(), below n; this rank: r.
#pragma once

#include <algorithm>
#include <cohort/lab.hpp>
#include <cstddef>
#include <span>
#include <vector>

namespace cohort::lab {

/// Ready for use, as in lab 3: all ranks' data becomes the sum of all ranks' data (the largest of them, element by element).
inline void all_reduce(Link& link, std::span<float> data, bool largest = false) {
  if (link.rank() != 0) {
    link.send(0, data);
    return link.receive(0, data);
  }
  std::vector<float> received(data.size());
  for (int other = 1; other < link.ranks(); ++other) {
    link.receive(other, received);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = largest ? std::max(data[i], received[i]) : data[i] + received[i];
  }
  for (int other = 1; other < link.ranks(); ++other) link.send(other, data);
}
inline void all_reduce_sum(Link& link, std::span<float> data) { all_reduce(link, data); }
inline void all_reduce_max(Link& link, std::span<float> data) { all_reduce(link, data, true); }

/// Ready for use: c <- a b, with a [rows, inner], b [inner, columns], c [rows, columns].
inline void multiply(std::size_t rows, std::size_t inner, std::size_t columns, std::span<const float> a, std::span<const float> b,
                     std::span<float> c) {
  std::fill(c.begin(), c.end(), 0.0f);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < inner; ++k)
      for (std::size_t j = 0; j < columns; ++j) c[i * columns + j] += a[i * inner + k] * b[k * columns + j];
}

/// Ready for use: the transpose of a [rows, columns].
inline std::vector<float> transposed(std::size_t rows, std::size_t columns, std::span<const float> a) {
  std::vector<float> result(rows * columns);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) result[j * rows + i] = a[i * columns + j];
  return result;
}

}  // namespace cohort::lab

extern "C" {

/// The sizes of a linear layer before it is divided: y = x W + b, with x [rows, inputs], W [inputs, outputs], b [outputs],
/// y [rows, outputs]. (torch.nn.Linear keeps W transposed: what are columns here are rows there.)
struct LinearSizes {
  std::size_t rows, inputs, outputs;
};

/// What a rank has of it. Reads x, weight, bias and dy, the gradient of y; overwrites the other four.
struct LinearPart {
  std::span<const float> x, weight, bias, dy;
  std::span<float> y, dx, dweight, dbias;
};

/// 7.1: rank r has columns r * outputs / n up to (r + 1) * outputs / n of W, b and y, of dy too. n divides outputs. Every rank
/// has the whole x, and needs the whole dx. Forward needs no message; one all-reduce in all.
void column_parallel_linear(cohort::lab::Link& link, const LinearSizes& sizes, const LinearPart& part);

/// 7.2: rank r has rows r * inputs / n up to (r + 1) * inputs / n of W, and those columns of x: what a column-parallel layer left
/// there. n divides inputs. Every rank has the whole bias and the whole dy, and needs the whole y. One all-reduce in all.
void row_parallel_linear(cohort::lab::Link& link, const LinearSizes& sizes, const LinearPart& part);

/// 7.3: an attention layer makes queries, keys and values by one matrix. Its columns are those of the `heads` query heads, then
/// of the `kv_heads` key heads, then of the value heads, head_size columns each. Query head h reads key and value head h / (heads
/// / kv_heads). Which columns of the matrix has rank `rank` of `ranks`? Its query heads are heads / ranks neighbours, the first
/// ranks have the first; then come the key heads that these read, then the value heads. `ranks` divides heads, and divides
/// kv_heads or is a multiple of them: then several ranks hold a copy of one key head. columns: (heads / ranks + 2 * max(1,
/// kv_heads / ranks)) * head_size numbers, from 0, in this order.
struct HeadSizes {
  std::size_t heads, kv_heads, head_size;
};
void qkv_columns(const HeadSizes& sizes, std::size_t rank, std::size_t ranks, std::span<std::size_t> columns);

/// 7.4 and 7.5: the pair that replaces an all-reduce under sequence parallelism. Rank r owns the r-th of n equal parts of `all`
/// (n divides its length, which may be 0). A rank sends (n - 1) / n of `all` at most, in n - 1 messages, all ranks at the same
/// time.
/// 7.4: all <- the ranks' `own`, one after the other.
void sequence_all_gather(cohort::lab::Link& link, std::span<const float> own, std::span<float> all);
/// 7.5: own <- part r of the sum over all ranks of `partial`, which stays as it is.
void sequence_reduce_scatter(cohort::lab::Link& link, std::span<const float> partial, std::span<float> own);

/// 7.6: the loss, when each rank has the logits of a part of the vocabulary: `columns` entries from entry `first` on (maybe
/// none). For each row: loss = log(sum over the vocabulary of exp(logit)) - logit of the target, and dlogits, the gradient of
/// the sum of all losses. Every rank gets all losses; the logits stay where they are: what is sent are 3 numbers a row (as three
/// all-reduces, or fewer). Logits up to 1e4, and -infinity (a masked entry), must give no NaN.
struct VocabularyPart {
  std::size_t rows, columns, first;
  std::span<const float> logits;  // [rows, columns]
  std::span<const int> targets;   // [rows], counted in the whole vocabulary
  std::span<float> losses;        // [rows]
  std::span<float> dlogits;       // [rows, columns]
};
void vocabulary_parallel_cross_entropy(cohort::lab::Link& link, const VocabularyPart& part);

/// 7.7: attention of one query to some keys gave `out`, the average of their values with the weights of a softmax, and
/// lse = log(sum over these keys of exp(score)); to some other keys it gave part_out and part_lse. out and lse become those over
/// all of these keys. No keys at all: lse is -infinity, and the row counts for nothing. Scores up to 1e4 must give no NaN.
void merge_attention(std::span<float> out, float& lse, std::span<const float> part_out, float part_lse);

/// Attention of this rank's queries to a block of keys, ready for use.
class QueryBlock {
 public:
  virtual ~QueryBlock() = default;
  virtual std::size_t tokens() const = 0;     // T: of a block; every rank has as many
  virtual std::size_t head_size() const = 0;  // HS
  /// To the keys and values [T, 2 HS] of the block of rank `owner`: out [T, HS] and lse [T], overwritten. A query sees itself
  /// and the tokens before it; rank r has tokens r T up to (r + 1) T of the sample.
  virtual void attend(int owner, std::span<const float> keys_values, std::span<float> out, std::span<float> lse) = 0;
};

/// 7.8: causal attention over a sample whose tokens the ranks have between them. Blocks of keys and values go around the ring,
/// to the next rank (the last one's next is rank 0), n - 1 times; a rank attends to each block that its queries see something
/// of, and to no other; merge_attention puts the results together. `own` [T, 2 HS] is this rank's block and stays as it is;
/// out [T, HS], lse [T].
void ring_attention(cohort::lab::Link& link, QueryBlock& queries, std::span<const float> own, std::span<float> out,
                    std::span<float> lse);
}
