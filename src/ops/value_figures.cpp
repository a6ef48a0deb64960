#include "ops/value_figures.hpp"

#include <bit>
#include <cmath>

#include "ops/teams.hpp"

namespace cohort::ops {
namespace {

constexpr Count kValuesOfATeam = 32768;
constexpr int kTeamThreads = 256;
constexpr int kBins = kSquares;  // all figures but the sum of squares

KOKKOS_INLINE_FUNCTION int bin_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) return kNotFinite;
  constexpr int kFirst = 2 * (127 + kLowestExponent);  // exponents are stored with 127 added
  const int bin = static_cast<int>(magnitude >> 22) - kFirst;
  if (bin < 0) return kZeros;
  return (bits == magnitude ? kPositive : 0) + (bin < kMagnitudes ? bin : kMagnitudes - 1);
}

// One more in a bin of a team's own memory: on a host the team is one thread.
KOKKOS_INLINE_FUNCTION void count_one(std::int32_t* bin) {
#if COHORT_ON_DEVICE
  Kokkos::atomic_add(bin, 1);
#else
  ++*bin;
#endif
}

template <class T>
void count_values(const Exec& exec, Count elements, double* figures, const T* x, float factor) {
  for_teams(
      exec, "cohort::count_values", (elements + kValuesOfATeam - 1) / kValuesOfATeam, kTeamThreads, kBins,
      KOKKOS_LAMBDA(const Team& team) {
        auto* own = reinterpret_cast<std::int32_t*>(team.scratch());
        team.each(kBins, [=](int bin) { own[bin] = 0; });
        team.barrier();
        const Count first = team.index() * kValuesOfATeam, left = elements - first;
        team.each(static_cast<int>(left < kValuesOfATeam ? left : kValuesOfATeam),
                  [=](int i) { count_one(&own[bin_of(factor * to_float(x[first + i]))]); });
        team.barrier();
        // Whole numbers: their sum does not depend on the order.
        team.each(kBins, [=](int bin) {
          if (own[bin] > 0) Kokkos::atomic_add(&figures[bin], static_cast<double>(own[bin]));
        });
      });
}

template <class T>
void add_squares_of_values(const Exec& exec, Count elements, double* squares, const T* x, float factor) {
  add_row_sums(
      exec, "cohort::squares_of_values", block_count(elements), kBlock, squares, KOKKOS_LAMBDA(const Row& row) {
        const Count begin = row.index() * kBlock;
        const Count count = begin + kBlock < elements ? kBlock : elements - begin;
        return row.sum<double>(
            count,
            [=](float value) {
              const double scaled = factor * value;
              return scaled * scaled;
            },
            in(x + begin));
      });
}

}  // namespace

double magnitude_of_bin(int magnitude) { return std::ldexp(magnitude % 2 == 0 ? 1.0 : 1.5, kLowestExponent + magnitude / 2); }

void add_value_figures(const Exec& exec, const Tensor& figures, const Tensor& x, float factor) {
  COHORT_CHECK(figures.elements() == kValueFigures && figures.device() == x.device(), "figures {} of values {}",
               figures.shape().str(), x.shape().str());
  auto* const to = figures.data<double>();
  with_storage_type(x, [&]<class T>(T) {
    count_values(exec, x.elements(), to, x.data<T>(), factor);
    add_squares_of_values(exec, x.elements(), to + kSquares, x.data<T>(), factor);
  });
}

}  // namespace cohort::ops
