// Model FLOPs utilisation: which share of what the devices can do at most is the model's arithmetic (Chowdhery et al. 2022,
// "PaLM", appendix B). Recomputation is not counted.
#pragma once

#include <optional>

#include "config/run_config.hpp"

namespace cohort {

class Utilisation {
 public:
  /// Of a run on `ranks` ranks, on the device of this process. Unknown on CPUs, on GPUs that telemetry/device_peaks.hpp does not
  /// have, and where ranks share a GPU.
  Utilisation(const RunConfig& config, int ranks);

  struct Shares {
    double palm;    // attention as PaLM counts it, all pairs of tokens: 6 N + 12 L C T a token. What most papers give
    double causal;  // only the pairs that causal attention needs, half of them: 6 N + 6 L C T
  };
  /// At so many tokens (samples) a second over all ranks. Nothing if the peak is unknown.
  std::optional<Shares> at(double units_per_second) const;
  bool known() const { return peak_.has_value(); }
  /// Floating-point operations a second of all devices, in the type of utilisation_policy().
  std::optional<double> peak() const { return peak_; }
  /// Of a token (sample), by PaLM's count.
  double flops_per_unit() const { return palm_flops_; }

 private:
  double palm_flops_, causal_flops_;
  std::optional<double> peak_;
};

}  // namespace cohort
