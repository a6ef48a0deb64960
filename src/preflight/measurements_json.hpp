// Measurements as JSON: how they travel from each rank to rank 0, and what `cohort preflight --json` prints.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "preflight/measurements.hpp"

namespace cohort::preflight {

// What is not known is null. The names say the units.
nlohmann::ordered_json to_json(const Node& node);
/// The inverse.
Node node_from_json(const nlohmann::ordered_json& json);

}  // namespace cohort::preflight
