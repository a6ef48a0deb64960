// unscale_and_check: not divided by the scale
#include <algorithm>
#include <cmath>
#include <cohort/lab05_precision.hpp>
#include <span>

using cohort::lab::Link;

namespace {

// The largest of the ranks' numbers.
float largest(Link& link, float own) {
  if (link.rank() != 0) {
    link.send(0, {&own, 1});
    link.receive(0, {&own, 1});
    return own;
  }
  for (int r = 1; r < link.ranks(); ++r) {
    float other = 0.0f;
    link.receive(r, {&other, 1});
    own = std::max(own, other);
  }
  for (int r = 1; r < link.ranks(); ++r) link.send(r, {&own, 1});
  return own;
}

}  // namespace

// Finds overflow, and leaves the gradients as they are.
bool unscale_and_check(Link& link, std::span<float> gradients, float) {
  float found = 0.0f;
  for (const float gradient : gradients) {
    if (!std::isfinite(gradient)) found = 1.0f;
  }
  return largest(link, found) > 0.0f;
}
