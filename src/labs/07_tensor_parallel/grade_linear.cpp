// Linear layers, divided by columns and by rows. All numbers are small integers, so that sums are exact in whatever order.
#include <cohort/lab07_tensor_parallel.hpp>
#include <numeric>
#include <vector>

#include "base/text.hpp"
#include "labs/07_tensor_parallel/tensor_parallel_grades.hpp"
#include "labs/grading/guarded.hpp"
#include "labs/grading/ranks.hpp"

namespace cohort::labs::lab07_tensor_parallel {
namespace {

using Linear = void(lab::Link&, const LinearSizes&, const LinearPart&);
using Floats = std::vector<float>;

constexpr float kBefore = 1000.0f;  // what is in the arrays that are to be overwritten

// Integers from -3 to 3.
Floats integers(std::size_t count, std::size_t seed) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * i * 7 + i * 3 + seed * 5 + i / 3) % 7) - 3.0f;
  return values;
}

struct Matrix {
  std::size_t rows, columns;
  Floats values;

  Matrix columns_from(std::size_t first, std::size_t count) const {
    Matrix part{rows, count, {}};
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < count; ++j) part.values.push_back(values[i * columns + first + j]);
    return part;
  }
  Matrix rows_from(std::size_t first, std::size_t count) const {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first * columns);
    return {count, columns, Floats(begin, begin + static_cast<std::ptrdiff_t>(count * columns))};
  }
  Matrix turned() const { return {columns, rows, lab::transposed(rows, columns, values)}; }
  Matrix times(const Matrix& other) const {
    Matrix product{rows, other.columns, Floats(rows * other.columns)};
    lab::multiply(rows, columns, other.columns, values, other.values, product.values);
    return product;
  }
  Matrix sum_of_rows() const { return Matrix{1, rows, Floats(rows, 1.0f)}.times(*this); }
  Matrix plus(const Matrix& other, float factor = 1.0f) const {  // other may be one row, for all
    Matrix sum = *this;
    for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += factor * other.values[i % other.values.size()];
    return sum;
  }
  Matrix scaled(float factor) const { return plus(*this, factor - 1.0f); }
};

// A whole layer, and what a rank reads of it.
struct Layer {
  Matrix x, weight, bias, dy;
};

struct Mistake {
  Matrix outcome;
  std::string words;
};

// What a rank is to have, and what known mistakes would give.
struct Expected {
  std::string name;
  Matrix right;
  std::vector<Mistake> mistakes;
};

void check_matrix(int rank, const Expected& expected, const Guarded& found) {
  found.check(fmt::format("on rank {}, {}", rank, expected.name));
  const auto equal = [&](const Floats& values, float offset) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (found[i] != values[i] + offset) return false;
    }
    return true;
  };
  const Floats& right = expected.right.values;
  if (equal(right, 0.0f)) return;
  std::string words;
  if (equal(right, kBefore)) words = ": it is added to what was there, which is to be overwritten";
  for (const Mistake& mistake : expected.mistakes) {
    if (words.empty() && equal(mistake.outcome.values, 0.0f)) words = ": " + mistake.words;
  }
  std::size_t i = 0;
  while (found[i] == right[i]) ++i;
  const std::size_t columns = expected.right.columns;
  if (found[i] == kBefore && words.empty()) words = ": nothing was written there";
  reject("on rank {}, {} [{}, {}] is {}, not {}{}", rank, expected.name, i / columns, i % columns, found[i], right[i], words);
}

using Reads = std::function<Layer(std::size_t rank)>;
using Expects = std::function<std::vector<Expected>(std::size_t rank)>;

// Runs the layer on the ranks; expects y, dx, dweight and dbias of each. `reduced`: elements of the one all-reduce.
void run_layer(Linear* linear, int ranks, const LinearSizes& sizes, const Reads& reads, const Expects& expects,
               const char* reduced_name, std::size_t reduced) {
  std::vector<Layer> read;
  std::vector<std::vector<Guarded>> written(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < written.size(); ++rank) {
    read.push_back(reads(rank));
    for (const Expected& one : expects(rank)) written[rank].emplace_back(Floats(one.right.values.size(), kBefore));
  }
  const Traffic traffic = run_ranks(ranks, [&](lab::Link& link) {
    const auto rank = static_cast<std::size_t>(link.rank());
    const Layer& in = read[rank];
    std::vector<Guarded>& out = written[rank];
    linear(link, sizes,
           {in.x.values, in.weight.values, in.bias.values, in.dy.values, out[0].span(), out[1].span(), out[2].span(),
            out[3].span()});
  });
  for (std::size_t rank = 0; rank < written.size(); ++rank) {
    const std::vector<Expected> all = expects(rank);
    for (std::size_t i = 0; i < all.size(); ++i) check_matrix(static_cast<int>(rank), all[i], written[rank][i]);
  }
  const Count sent = std::accumulate(traffic.elements_sent.begin(), traffic.elements_sent.end(), Count{0});
  const Count most = Count{2} * (ranks - 1) * static_cast<Count>(reduced);
  if (sent > most)
    reject("the ranks send {} elements in all: the all-reduce of {} ({} elements) takes {} at most, and nothing else is sent",
           sent, reduced_name, reduced, most);
}

// Of what each rank has.
Matrix sum_over(std::size_t ranks, const std::function<Matrix(std::size_t rank)>& of) {
  Matrix sum = of(0);
  for (std::size_t rank = 1; rank < ranks; ++rank) sum = sum.plus(of(rank));
  return sum;
}

constexpr const char* kSumOfColumns = "the sum over the ranks of gradients of different columns";
constexpr const char* kSumOfRows = "the sum over the ranks of gradients of different rows";

struct LayerCase {
  int ranks;
  LinearSizes sizes;
};

Layer whole_layer(const LinearSizes& s) {
  return {{s.rows, s.inputs, integers(s.rows * s.inputs, 1)},
          {s.inputs, s.outputs, integers(s.inputs * s.outputs, 2)},
          {1, s.outputs, integers(s.outputs, 3)},
          {s.rows, s.outputs, integers(s.rows * s.outputs, 4)}};
}

std::string words_of_layer(const LayerCase& one) {
  return fmt::format("{}, x [{}, {}], W [{}, {}]", counted(one.ranks, "rank"), one.sizes.rows, one.sizes.inputs, one.sizes.inputs,
                     one.sizes.outputs);
}

}  // namespace

void grade_column_parallel(const Library& library, Grading& grading) {
  auto* linear = library.function<Linear>("column_parallel_linear");
  for (const LayerCase& one :
       std::vector<LayerCase>{{2, {3, 5, 4}}, {1, {2, 3, 3}}, {3, {1, 4, 9}}, {4, {5, 1, 4}}, {8, {2, 3, 16}}}) {
    grading.begin(words_of_layer(one));
    const Layer whole = whole_layer(one.sizes);
    const auto n = static_cast<std::size_t>(one.ranks);
    const std::size_t own = one.sizes.outputs / n;
    const Reads reads = [&](std::size_t rank) {
      return Layer{whole.x, whole.weight.columns_from(rank * own, own), whole.bias.columns_from(rank * own, own),
                   whole.dy.columns_from(rank * own, own)};
    };
    const Matrix dx = whole.dy.times(whole.weight.turned());
    const Expects expects = [&](std::size_t rank) {
      const Layer part = reads(rank);
      const Matrix product = part.x.times(part.weight), own_dx = part.dy.times(part.weight.turned());
      return std::vector<Expected>{
          {"y",
           product.plus(part.bias),
           {{product, "the bias is missing"},
            {product.plus(part.bias, static_cast<float>(n)), "the bias is in it more than once"}}},
          {"dx",
           dx,
           {{own_dx, "that is what comes through the columns of this rank; x feeds those of all ranks"},
            {dx.scaled(1.0f / static_cast<float>(n)), "an average over the ranks: it is a sum"}}},
          {"dweight",
           part.x.turned().times(part.dy),
           {{sum_over(n, [&](std::size_t other) { return reads(other).x.turned().times(reads(other).dy); }), kSumOfColumns}}},
          {"dbias",
           part.dy.sum_of_rows(),
           {{sum_over(n, [&](std::size_t other) { return reads(other).dy.sum_of_rows(); }), kSumOfColumns}}}};
    };
    run_layer(linear, one.ranks, one.sizes, reads, expects, "dx", one.sizes.rows * one.sizes.inputs);
  }
}

void grade_row_parallel(const Library& library, Grading& grading) {
  auto* linear = library.function<Linear>("row_parallel_linear");
  for (const LayerCase& one :
       std::vector<LayerCase>{{2, {3, 4, 5}}, {1, {2, 3, 3}}, {3, {1, 9, 4}}, {4, {5, 4, 1}}, {8, {2, 16, 3}}}) {
    grading.begin(words_of_layer(one));
    const Layer whole = whole_layer(one.sizes);
    const auto n = static_cast<std::size_t>(one.ranks);
    const std::size_t own = one.sizes.inputs / n;
    const Reads reads = [&](std::size_t rank) {
      return Layer{whole.x.columns_from(rank * own, own), whole.weight.rows_from(rank * own, own), whole.bias, whole.dy};
    };
    const Matrix product = whole.x.times(whole.weight), dbias = whole.dy.sum_of_rows();
    const Matrix whole_dx = whole.dy.times(whole.weight.turned());
    const Expects expects = [&](std::size_t rank) {
      const Layer part = reads(rank);
      const Matrix own_product = part.x.times(part.weight);
      const float many = static_cast<float>(n);
      return std::vector<Expected>{
          {"y",
           product.plus(whole.bias),
           {{own_product.plus(whole.bias), "that is the part of this rank's rows of W; the parts of all ranks add up"},
            {own_product, "that is the part of this rank's rows of W, without the bias"},
            {product.plus(whole.bias, many), "the bias is in it once for each rank"},
            {product, "the bias is missing"},
            {product.plus(whole.bias).scaled(1.0f / many), "an average over the ranks: it is a sum"}}},
          {"dx",
           whole_dx.columns_from(rank * own, own),
           {{sum_over(n, [&](std::size_t other) { return reads(other).dy.times(reads(other).weight.turned()); }),
             kSumOfColumns}}},
          {"dweight",
           part.x.turned().times(part.dy),
           {{sum_over(n, [&](std::size_t other) { return reads(other).x.turned().times(reads(other).dy); }), kSumOfRows}}},
          {"dbias", dbias, {{dbias.scaled(many), "it is in it once for each rank: every rank has the whole dy already"}}}};
    };
    run_layer(linear, one.ranks, one.sizes, reads, expects, "y", one.sizes.rows * one.sizes.outputs);
  }
}

namespace {

using QkvColumns = void(const HeadSizes&, std::size_t, std::size_t, std::span<std::size_t>);

// "column 1 of key head 0".
std::string name_of_column(const HeadSizes& sizes, std::size_t column) {
  const std::size_t head = column / sizes.head_size, within = column % sizes.head_size;
  const auto words = [&](const char* kind, std::size_t first) {
    return fmt::format("column {} of {} head {}", within, kind, head - first);
  };
  if (head < sizes.heads) return words("query", 0);
  if (head < sizes.heads + sizes.kv_heads) return words("key", sizes.heads);
  if (head < sizes.heads + 2 * sizes.kv_heads) return words("value", sizes.heads + sizes.kv_heads);
  return "no column of the matrix";
}

}  // namespace

void grade_qkv_columns(const Library& library, Grading& grading) {
  auto* qkv_columns = library.function<QkvColumns>("qkv_columns");
  struct QkvCase {
    HeadSizes sizes;
    std::size_t ranks;
  };
  for (const auto& [sizes, ranks] : std::vector<QkvCase>{{{4, 4, 3}, 2},
                                                         {{4, 4, 2}, 1},
                                                         {{6, 6, 1}, 3},
                                                         {{8, 2, 4}, 2},
                                                         {{8, 4, 2}, 2},
                                                         {{8, 2, 2}, 4},
                                                         {{8, 1, 3}, 8},
                                                         {{12, 3, 2}, 6}}) {
    grading.begin(fmt::format("{} query heads, {} key heads, head size {}, {}", sizes.heads, sizes.kv_heads, sizes.head_size,
                              counted(static_cast<Count>(ranks), "rank")));
    const std::size_t queries = sizes.heads / ranks, keys = std::max<std::size_t>(1, sizes.kv_heads / ranks);
    const std::size_t count = (queries + 2 * keys) * sizes.head_size;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t first_key = rank * queries * sizes.kv_heads / sizes.heads;
      std::vector<std::size_t> found(count + 1, ~std::size_t{0});
      qkv_columns(sizes, rank, ranks, std::span(found).first(count));
      if (found.back() != ~std::size_t{0}) reject("on rank {}, something was written to element {} of {}", rank, count, count);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t head = i / sizes.head_size;
        std::size_t right = rank * queries + head;
        if (head >= queries) right = sizes.heads + first_key + head - queries;
        if (head >= queries + keys) right = sizes.heads + sizes.kv_heads + first_key + head - queries - keys;
        right = right * sizes.head_size + i % sizes.head_size;
        if (found[i] == right) continue;
        const bool slice = found[0] == rank * count && found[i] == rank * count + i;
        reject("on rank {}, element {} of {} is {}, not {}{}", rank, i, count,
               found[i] == ~std::size_t{0} ? "not written" : fmt::format("{} ({})", found[i], name_of_column(sizes, found[i])),
               name_of_column(sizes, right),
               slice
                   ? ": neighbouring columns of the whole matrix are no rank's heads: queries, keys and values are cut each for "
                     "itself"
                   : "");
      }
    }
  }
}

}  // namespace cohort::labs::lab07_tensor_parallel
