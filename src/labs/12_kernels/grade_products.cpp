// 12.1: matrices of small whole numbers, whose products are exact in fp32, so that a wrong element tells which terms it lacks;
// and the lines that a small cache fetches.
#include <array>
#include <cmath>
#include <cohort/lab12_kernels.hpp>
#include <cstdint>
#include <limits>
#include <list>
#include <unordered_map>
#include <vector>

#include "labs/12_kernels/grade_kernels.hpp"
#include "labs/grading/guarded.hpp"

namespace cohort::labs::lab12_kernels {
namespace {

using lab::CountedMatrix;
using lab::Matrix;

// Fully associative; the line that was not used for longest makes room.
class SmallCache : public lab::Cache {
 public:
  static constexpr std::size_t kLineBytes = 64, kLines = 256;

  void access(const float* element) override {
    const std::uintptr_t line = reinterpret_cast<std::uintptr_t>(element) / kLineBytes;
    if (!order_.empty() && order_.front() == line) return;
    const auto found = places_.find(line);
    if (found != places_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return;
    }
    ++fetched_;
    if (order_.size() == kLines) {
      places_.erase(order_.back());
      order_.pop_back();
    }
    order_.push_front(line);
    places_.emplace(line, order_.begin());
  }
  long fetched() const { return fetched_; }

 private:
  std::list<std::uintptr_t> order_;  // the last used first
  std::unordered_map<std::uintptr_t, std::list<std::uintptr_t>::iterator> places_;
  long fetched_ = 0;
};

struct Sizes {
  std::size_t m, n, k;
};

// Whole numbers from -31 to 32, no two rows or columns alike.
float whole(std::size_t i, std::size_t seed) {
  const std::uint64_t mixed = (i + 1) * 0x9E3779B97F4A7C15u * (2 * seed + 1);
  return static_cast<float>(static_cast<int>(mixed >> 58) - 31);
}

Guarded made(std::size_t elements, std::size_t seed) {
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = whole(i, seed);
  return Guarded(std::move(values));
}

struct Operands {
  explicit Operands(const Sizes& s) : sizes(s), c(made(s.m * s.n, 1)), a(made(s.m * s.k, 2)), b(made(s.k * s.n, 3)) {}

  Matrix matrix_c() { return {c.span().data(), sizes.m, sizes.n}; }
  Matrix matrix_a() { return {a.span().data(), sizes.m, sizes.k}; }
  Matrix matrix_b() { return {b.span().data(), sizes.k, sizes.n}; }

  Sizes sizes;
  Guarded c, a, b;
};

// What is wrong with element (i, j), if one of the usual mistakes explains it.
std::string known_mistake(const Operands& before, std::size_t i, std::size_t j, float found) {
  const Sizes& s = before.sizes;
  const float first = before.c[i * s.n + j];
  std::vector<float> sums{0.0f};  // of the first terms
  for (std::size_t k = 0; k < s.k; ++k) sums.push_back(sums.back() + before.a[i * s.k + k] * before.b[k * s.n + j]);
  const float sum = sums.back();
  if (found == first) return ": nothing was added to it";
  if (found == sum) return ": it is a b alone, but c has a value already, to which a b is added";
  if (found == first + 2.0f * sum) return ": a b was added twice";
  for (std::size_t k = 1; k < s.k; ++k) {
    if (found == first + sums[k]) return fmt::format(": the terms from k = {} on are missing", k);
    if (found == sum - sums[k]) return fmt::format(": what was summed before k = {} is lost", k);
  }
  return "";
}

void check_product(const Operands& before, Operands& after) {
  const Sizes& s = before.sizes;
  after.c.check("c");
  for (std::size_t x = 0; x < s.m * s.k; ++x) {
    if (after.a[x] != before.a[x]) reject("element ({}, {}) of a was written: a and b are read only", x / s.k, x % s.k);
  }
  for (std::size_t x = 0; x < s.k * s.n; ++x) {
    if (after.b[x] != before.b[x]) reject("element ({}, {}) of b was written: a and b are read only", x / s.n, x % s.n);
  }
  for (std::size_t i = 0; i < s.m; ++i) {
    for (std::size_t j = 0; j < s.n; ++j) {
      float expected = before.c[i * s.n + j];
      for (std::size_t k = 0; k < s.k; ++k) expected += before.a[i * s.k + k] * before.b[k * s.n + j];
      const float found = after.c[i * s.n + j];
      if (found != expected)
        reject("element ({}, {}) of c is {}, not {}{}", i, j, found, expected, known_mistake(before, i, j, found));
    }
  }
}

using Multiply = void(Matrix, Matrix, Matrix);
using MultiplyCounted = void(CountedMatrix, CountedMatrix, CountedMatrix);

long lines_fetched(const std::function<void(CountedMatrix, CountedMatrix, CountedMatrix)>& multiply, Operands& operands) {
  SmallCache cache;
  const auto counted = [&](const Matrix& m) { return CountedMatrix{m.data, m.rows, m.columns, &cache}; };
  multiply(counted(operands.matrix_c()), counted(operands.matrix_a()), counted(operands.matrix_b()));
  return cache.fetched();
}

void check_traffic(MultiplyCounted* multiply, const Sizes& sizes) {
  const Operands before(sizes);
  Operands mine(sizes), naive(sizes);
  const long fetched = lines_fetched(multiply, mine);
  check_product(before, mine);
  const long of_naive = lines_fetched([](auto c, auto a, auto b) { lab::multiply_naively(c, a, b); }, naive);
  if (fetched == 0) reject("it counts no accesses: matmul_blocked_counted must use the matrices that it is given");
  if (4 * fetched > of_naive)
    reject(
        "a cache of 16 KiB fetches {} lines of 64 bytes, the naive loop's {}: with blocks that fit there it is less than a "
        "quarter",
        fetched, of_naive);
}

void check_nan(Multiply* multiply) {
  Operands operands({2, 2, 2});
  operands.a.span()[0] = 0.0f;
  operands.b.span()[0] = std::numeric_limits<float>::quiet_NaN();
  multiply(operands.matrix_c(), operands.matrix_a(), operands.matrix_b());
  if (!std::isnan(operands.c[0]))
    reject("0 times NaN is NaN, but element (0, 0) of c is {}: who skips zeros hides that training has failed", operands.c[0]);
}

}  // namespace

void grade_matmul(const Library& library, Grading& grading) {
  auto* multiply = library.function<Multiply>("matmul_blocked");
  auto* counted = library.function<MultiplyCounted>("matmul_blocked_counted");
  constexpr std::array<Sizes, 11> kSizes{{{4, 4, 4},
                                          {64, 64, 64},
                                          {1, 1, 1},
                                          {3, 5, 7},
                                          {33, 17, 65},
                                          {100, 1, 37},
                                          {1, 130, 2},
                                          {70, 129, 5},
                                          {0, 3, 2},
                                          {2, 3, 0},
                                          {5, 0, 4}}};
  for (const Sizes& sizes : kSizes) {
    grading.begin(fmt::format("c [{}, {}], a [{}, {}]", sizes.m, sizes.n, sizes.m, sizes.k));
    const Operands before(sizes);
    Operands after(sizes);
    multiply(after.matrix_c(), after.matrix_a(), after.matrix_b());
    check_product(before, after);
  }
  grading.begin("a NaN in b");
  check_nan(multiply);
  for (const Sizes& sizes : {Sizes{96, 96, 96}, Sizes{90, 70, 110}}) {
    grading.begin(fmt::format("c [{}, {}], a [{}, {}], counted", sizes.m, sizes.n, sizes.m, sizes.k));
    check_traffic(counted, sizes);
  }
}

}  // namespace cohort::labs::lab12_kernels
