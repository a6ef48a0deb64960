#include "commands/bench/product_peak.hpp"

#include <algorithm>

#include "base/random.hpp"
#include "observe/clock.hpp"
#include "ops/gemm.hpp"

namespace cohort {

double gemm_gflops_of_cpu() {
  constexpr Count kSize = 1024;
  constexpr int kRepeats = 12;
  const Tensor a = Tensor::zeros("bench.a", {kSize, kSize});
  const Tensor b = Tensor::zeros("bench.b", {kSize, kSize});
  const Tensor c = Tensor::zeros("bench.c", {kSize, kSize});
  const CounterRandom random(1, RandomPurpose::test);
  for (Count i = 0; i < a.elements(); ++i)
    a.f32()[i] = b.f32()[i] = static_cast<float>(random.uniform(static_cast<std::uint64_t>(i)));
  double best = 0.0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const double begin = steady_seconds();
    ops::gemm({}, ops::as_matrix(c), ops::as_matrix(a), ops::Transpose::no, ops::as_matrix(b), ops::Transpose::no);
    best = std::max(best, 2e-9 * static_cast<double>(kSize * kSize * kSize) / (steady_seconds() - begin));
  }
  return best;
}

}  // namespace cohort
