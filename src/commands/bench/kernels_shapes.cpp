#include "commands/bench/kernels_shapes.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/error.hpp"
#include "base/text.hpp"
#include "models/family.hpp"

namespace cohort {

std::map<std::string, ModelSection> known_models() {
  std::map<std::string, ModelSection> known;
  for (const ModelFamily* family : all_model_families()) {
    for (const KnownModel& model : family->known_models) known.emplace(model.name, model.section);
  }
  return known;
}

StepShape step_shape(const std::string& name, Count samples) {
  const std::map<std::string, ModelSection> known = known_models();
  if (!known.contains(name)) {
    std::vector<std::string> names;
    for (const auto& [one, section] : known) names.push_back(one);
    fail(ExitCode::usage, "--model {}: not a predefined model; choose one of {}", name, join(names));
  }
  RunConfig config;
  config.model = known.at(name);
  const ModelFamily& family = family_of(config.model);
  family.rules.resolve(config);
  const std::unique_ptr<Model> model = declare_model(config.model);
  StepShape shape{
      .name = name, .decoder = family.decoder(config.model), .parameters = model->parameters().elements(), .samples = samples};
  constexpr Count kMostOfStreams = Count{768} << 20;  // elements of a step's residual streams, all layers
  const Count most = kMostOfStreams / (shape.tokens() * shape.width() * shape.layers());
  if (samples == 0) shape.samples = static_cast<Count>(std::bit_floor(static_cast<std::uint64_t>(std::max<Count>(1, most))));
  return shape;
}

}  // namespace cohort
