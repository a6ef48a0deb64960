// The vocabulary of the portable kernels: every row, column and bin is visited once, whatever the sizes, and sums are sums.
#include "ops/parallel.hpp"

#include <gtest/gtest.h>

#include "ops/bins.hpp"
#include "ops/compare.hpp"
#include "ops/teams.hpp"

namespace cohort::ops {
namespace {

constexpr Count kSizes[] = {1, 2, 63, 64, 65, 127, 129, 1000, 2049, 5000};

// The kernels are functions of their own because nvcc takes no device lambda inside a private member, as a test's body is.

// result [rows, 5]: sum, sums of x and of 2 x, maximum, and how often once() ran; visits [rows, n]: of each() and of zip().
void describe_rows(const Exec& exec, Count rows, Count n, float* result, float* visits, const float* x) {
  for_rows(
      exec, "cohort::test_rows", rows, n, KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        const float* xr = x + r * n;
        float* its_visits = visits + r * n;
        const float sum = row.sum(
            n, [=](float value) { return value; }, in(xr));
        const Pair pair = row.sum_pairs(
            n,
            [=](float value) {
              return Pair{value, 2.0f * value};
            },
            in(xr));
        const float largest = row.max(n, in(xr));
        row.each(n, [=](Count c) { its_visits[c] += 1.0f; });
        row.zip(
            n, [=](float& visit, float value, int c) { visit += value == xr[c] ? 1.0f : 0.0f; }, in_out(its_visits), in(xr),
            indices());
        row.once([=] {
          float* own = result + r * 5;
          own[0] = sum;
          own[1] = pair.first;
          own[2] = pair.second;
          own[3] = largest;
          own[4] += 1.0f;
        });
      });
}

void sum_columns(const Exec& exec, Count rows, Count n, float* sums, float* doubled, float* visits, const float* x) {
  sum_rows<Pair>(
      exec, "cohort::test_columns", rows, n,
      KOKKOS_LAMBDA(float value, float& visit) {
        visit = value;
        return Pair{value, 2.0f * value};
      },
      KOKKOS_LAMBDA(Count c, const Pair& sum) {
        sums[c] += sum.first;
        doubled[c] += sum.second;
      },
      rows_in(x, n), rows_out(visits, n));
}

// copy [rows, n] = x times the sum of its row; sums [n] += the column sums of x scale[r] + bias[c].
void rows_with_sums(const Exec& exec, Count rows, Count n, float* copy, float* sums, const float* x, const float* scale,
                    const float* bias) {
  for_rows_with_sums<float>(
      exec, "cohort::test_rows_with_sums", rows, n,
      KOKKOS_LAMBDA(const Row& row) {
        const auto xr = in(x + row.index() * n);
        const float sum = row.sum(
            n, [=](float value) { return value; }, xr);
        row.zip(
            n, [=](float value, float& to) { to = value * sum; }, xr, out(copy + row.index() * n));
      },
      KOKKOS_LAMBDA(float value, float s, float b) { return value * s + b; },
      KOKKOS_LAMBDA(Count c, float sum) { sums[c] += sum; }, rows_in(x, n), number_of_row(scale), each_row_in(bias));
}

void sum_all(const Exec& exec, Count rows, Count n, double* total, const float* x) {
  add_row_sums(
      exec, "cohort::test_row_sums", rows, n, total, KOKKOS_LAMBDA(const Row& row) {
        const float* xr = x + row.index() * n;
        return row.sum<double>(
            n, [=](float value) { return static_cast<double>(value); }, in(xr));
      });
}

void multiply_in_teams(const Exec& exec, Count teams, int rows, int columns, int depth, float* c, const float* a,
                       const float* b) {
  for_teams(
      exec, "cohort::test_teams", teams, 32, 4 * 1024, KOKKOS_LAMBDA(const Team& team) {
        float* own = team.scratch();  // 64 x 16 of a, 16 x 64 of b: all that a block of the product may read
        team.each(64 * 16, [=](int e) { own[e] = e / 16 < rows && e % 16 < depth ? a[e / 16 * depth + e % 16] : 0.0f; });
        team.each(16 * 64,
                  [=](int e) { own[1024 + e] = e / 64 < depth && e % 64 < columns ? b[e / 64 * columns + e % 64] : 0.0f; });
        team.barrier();
        float* result = c + team.index() * rows * columns;
        team_product<4, 16>(
            team, rows, columns, depth, [=](int i, int k) { return own[i * 16 + k]; },
            [=](int k, int j) { return own[1024 + k * 64 + j]; },
            [=](int i, int j, float value) { result[i * columns + j] += value; });
      });
}

TEST(Parallel, RowsSumsAndMaxima) {
  for (const Count n : kSizes) {
    const Count rows = 5;
    const Array x = random_values(rows * n, 1);
    const Tensor result = filled({rows, 5}, 0.0f), visits = filled({rows, n}, 0.0f);
    describe_rows(test_exec(), rows, n, result.f32(), visits.f32(), tensor_of(x, {rows, n}).f32());
    const Array found = values_of(result);
    for (Count r = 0; r < rows; ++r) {
      double sum = 0.0, size = 0.0, largest = x[r * n];
      for (Count c = 0; c < n; ++c) {
        sum += x[r * n + c];
        size += std::abs(x[r * n + c]);
        largest = std::max(largest, x[r * n + c]);
      }
      const Array expected{sum, sum, 2.0 * sum, largest, 1.0};
      const double error = sum_error(n) * size;
      EXPECT_TRUE(
          close(Array(found.begin() + r * 5, found.begin() + r * 5 + 5), expected, Array{error, error, 2.0 * error, 0.0, 0.0}))
          << n;
    }
    EXPECT_TRUE(close(visits, Array(x.size(), 2.0), 0.0)) << n;
  }
}

TEST(Parallel, MaximumOfNegativeNumbers) {
  const Tensor result = filled({1, 5}, 0.0f), visits = filled({1, 3}, 0.0f);
  describe_rows(test_exec(), 1, 3, result.f32(), visits.f32(), tensor_of(Array{-7.0, -3.0, -5.0}, {1, 3}).f32());
  EXPECT_EQ(values_of(result)[3], -3.0);
}

TEST(Parallel, ColumnSumsAreAddedAndVisitEachElementOnce) {
  for (const Count rows : {1, 2, 3, 64, 65, 301}) {
    for (const Count n : kSizes) {
      const Array x = random_values(rows * n, 2), before = random_values(n, 3);
      const Tensor sums = tensor_of(before, {n}), doubled = filled({n}, 0.0f), visits = filled({rows, n}, 0.0f);
      sum_columns(test_exec(), rows, n, sums.f32(), doubled.f32(), visits.f32(), tensor_of(x, {rows, n}).f32());
      Array expected = before, twice(n, 0.0), tolerance(n, 0.0);
      for (Count c = 0; c < n; ++c) {
        double size = std::abs(before[c]);
        for (Count r = 0; r < rows; ++r) {
          expected[c] += x[r * n + c];
          twice[c] += 2.0 * x[r * n + c];
          size += std::abs(x[r * n + c]);
        }
        tolerance[c] = 2.0 * sum_error(rows + 1) * size;
      }
      EXPECT_TRUE(close(sums, expected, tolerance)) << rows << " x " << n;
      EXPECT_TRUE(close(doubled, twice, tolerance)) << rows << " x " << n;
      EXPECT_TRUE(close(visits, x, 0.0)) << rows << " x " << n;
    }
  }
}

// Widths that fit into a team's memory on a GPU and such that do not, in packs and not.
TEST(Parallel, RowsWithSumsAreBoth) {
  for (const Count rows : {1, 5, 1000}) {
    for (const Count n : {1, 63, 64, 768, 6144, 20000}) {
      const Array x = random_values(rows * n, 8), scale = random_values(rows, 9), bias = random_values(n, 10);
      const Tensor copy = filled({rows, n}, kGarbage), sums = tensor_of(bias, {n});
      rows_with_sums(test_exec(), rows, n, copy.f32(), sums.f32(), tensor_of(x, {rows, n}).f32(), tensor_of(scale, {rows}).f32(),
                     tensor_of(bias, {n}).f32());
      Array expected_copy, expected_sums = bias, copy_tolerance, sums_tolerance(n, 0.0);
      for (Count r = 0; r < rows; ++r) {
        double sum = 0.0, size = 0.0;
        for (Count c = 0; c < n; ++c) {
          sum += x[r * n + c];
          size += std::abs(x[r * n + c]);
          expected_sums[c] += x[r * n + c] * scale[r] + bias[c];
          sums_tolerance[c] += 2.0 * sum_error(rows + 1) * (std::abs(x[r * n + c] * scale[r]) + 2.0 * std::abs(bias[c]));
        }
        for (Count c = 0; c < n; ++c) {
          expected_copy.push_back(x[r * n + c] * sum);
          copy_tolerance.push_back(std::abs(x[r * n + c]) * (sum_error(n) * size + 2.0 * kEps * std::abs(sum)));
        }
      }
      EXPECT_TRUE(close(copy, expected_copy, copy_tolerance)) << rows << " x " << n;
      EXPECT_TRUE(close(sums, expected_sums, sums_tolerance)) << rows << " x " << n;
    }
  }
}

// Bins of one row and of thousands, of no row, and of the last one; two runs give the same bits, though rows are summed in an
// order that matters in fp32.
TEST(Parallel, RowsAreAddedToTheirBins) {
  for (const Count bin_count : {1, 3, 300, 70000}) {
    for (const Count rows : {1, 31, 1000, 3000}) {
      for (const Count n : {1, 64, 65}) {
        const Array x = random_values(rows * n, 4);
        std::vector<std::int32_t> bin_of(rows);
        for (Count r = 0; r < rows; ++r) {
          bin_of[r] = static_cast<std::int32_t>(r % 3 == 0 ? bin_count - 1 : r * 7919 % bin_count);
        }
        const Indices<std::int32_t> bins(bin_of);
        const Tensor tx = tensor_of(x, {rows, n});
        const auto run = [&] {
          const Tensor table = filled({bin_count, n}, 0.5f);
          add_rows_to_bins(test_exec(), "cohort::test_bins", rows, n, bin_count, table.f32(), bins.span().data(), tx.f32());
          return values_of(table);
        };
        Array expected(bin_count * n, 0.5), tolerance(bin_count * n, kEps);
        for (Count i = 0; i < rows * n; ++i) {
          expected[bin_of[i / n] * n + i % n] += x[i];
          tolerance[bin_of[i / n] * n + i % n] += sum_error(rows + 1) * (0.5 + std::abs(x[i]));
        }
        const Array found = run();
        EXPECT_TRUE(close(found, expected, tolerance)) << rows << " x " << n << " into " << bin_count;
        EXPECT_EQ(found, run()) << rows << " x " << n << " into " << bin_count;
      }
    }
  }
}

TEST(Parallel, RowSumsAreInDoublePrecisionAndAdded) {
  for (const Count rows : {0, 1, 5, 1000}) {
    const Count n = 65;
    const Array x = random_values(rows * n + 1, 5, 1e4);
    const Tensor total = number_tensor(0.25);
    sum_all(test_exec(), rows, n, total.data<double>(), tensor_of(x, {rows * n + 1}).f32());
    double expected = 0.25;
    for (Count i = 0; i < rows * n; ++i) expected += x[i];
    EXPECT_NEAR(number_of(total), expected, 1e-7) << rows;  // 65,000 terms of 1e4 in fp32 would be off by more than 1
  }
}

TEST(Parallel, TeamsMultiplyWhatIsNoMultipleOfABlock) {
  for (const int rows : {1, 4, 7, 33}) {
    for (const int columns : {1, 16, 17, 40}) {
      const Count teams = 3;
      const int depth = 13;
      const Array a = random_values(rows * depth, 6), b = random_values(depth * columns, 7);
      const Tensor c = filled({teams, rows * columns}, 1.0f);
      multiply_in_teams(test_exec(), teams, rows, columns, depth, c.f32(), tensor_of(a, {rows, depth}).f32(),
                        tensor_of(b, {depth, columns}).f32());
      Array expected, tolerance;
      for (Count team = 0; team < teams; ++team) {
        for (int i = 0; i < rows; ++i) {
          for (int j = 0; j < columns; ++j) {
            double sum = 1.0, size = 1.0;
            for (int k = 0; k < depth; ++k) {
              sum += a[i * depth + k] * b[k * columns + j];
              size += std::abs(a[i * depth + k] * b[k * columns + j]);
            }
            expected.push_back(sum);
            tolerance.push_back(sum_error(depth + 1) * size);
          }
        }
      }
      EXPECT_TRUE(close(c, expected, tolerance)) << rows << " x " << columns;
    }
  }
}

}  // namespace
}  // namespace cohort::ops
