// Which elements of a tensor, in JSON: in manifests, in what ranks tell each other of their parts, and in `ckpt show --json`.
#pragma once

#include <nlohmann/json.hpp>

#include "base/box.hpp"

namespace cohort {

/// Adds the members start and count (the box; neither for the whole tensor), begin and elements (the run of the box).
void add_part(nlohmann::ordered_json& json, const TensorPart& part);

/// The inverse, for a tensor of this shape. Throws std::exception, or Error(internal), for what is not a part of it.
TensorPart part_from(const nlohmann::ordered_json& json, const Shape& shape);
/// The same of the manifests of versions 2 and 3, which had `range`, [dim, begin, end], for start and count.
TensorPart part_from_range(const nlohmann::ordered_json& json, const Shape& shape);

}  // namespace cohort
