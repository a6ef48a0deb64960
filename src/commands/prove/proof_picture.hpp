// The picture of a proof: how far each layout is from one rank.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/proof.hpp"

namespace cohort {

struct ProvedLayout {
  std::string name;
  ProofResult result;
};

/// An SVG document: a row for each layout, in it a bar for each of loss, gradient norm, gradients and weights, of the length of
/// its largest difference on a logarithmic axis. A dashed line is what is allowed; a bar that is longer is red. On a white
/// ground, so that it can be read on light and dark pages alike.
std::string draw_proof(const std::vector<ProvedLayout>& layouts, const Tolerance& tolerance, std::string_view title);

}  // namespace cohort
