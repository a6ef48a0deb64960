#include "plan/goodput.hpp"

#include <cmath>

namespace cohort {

double goodput_share(double failure_seconds, double interval_seconds, const Failures& failures) {
  const double m = failure_seconds, cycle = (interval_seconds + failures.save_seconds) / m;
  return interval_seconds / (m * std::exp(failures.restart_seconds / m) * std::expm1(cycle));
}

Goodput best_goodput(int ranks, const Failures& failures) {
  Goodput best{.failure_seconds = failures.rank_seconds / ranks};
  const double m = best.failure_seconds, d = failures.save_seconds;
  const double x = std::sqrt(d / (2.0 * m));
  best.interval_seconds = d < 2.0 * m ? std::sqrt(2.0 * d * m) * (1.0 + x / 3.0 + x * x / 9.0) - d : m;
  best.share = goodput_share(m, best.interval_seconds, failures);
  return best;
}

}  // namespace cohort
