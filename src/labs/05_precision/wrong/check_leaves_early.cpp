// unscale_and_check: which has returned
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

// Who knows the answer leaves: the others wait for it.
bool unscale_and_check(Link& link, std::span<float> gradients, float scale) {
  for (float& gradient : gradients) gradient /= scale;
  for (const float gradient : gradients) {
    if (!std::isfinite(gradient)) return true;
  }
  return largest(link, 0.0f) > 0.0f;
}
