#include "train/utilisation.hpp"

#include "gpu/device.hpp"
#include "models/model.hpp"
#include "telemetry/device_peaks.hpp"

namespace cohort {

Utilisation::Utilisation(const RunConfig& config, int ranks) {
  const auto model = declare_model(config.model);  // the whole one, without memory
  palm_flops_ = model->flops_per_token(config.model.context);
  causal_flops_ = 0.5 * (palm_flops_ + model->flops_per_token(0));
  if (!gpu::is_open() || config.device.share) return;
  const std::optional<double> one = datasheet_flops(gpu::facts().name, std::string(utilisation_policy(config.precision.policy)));
  if (one) peak_ = *one * ranks;
}

std::optional<Utilisation::Shares> Utilisation::at(double units_per_second) const {
  if (!peak_) return std::nullopt;
  return Shares{palm_flops_ * units_per_second / *peak_, causal_flops_ * units_per_second / *peak_};
}

}  // namespace cohort
