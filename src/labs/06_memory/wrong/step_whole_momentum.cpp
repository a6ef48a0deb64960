// zero_step: momentum, which has this rank's block alone: something was written
#include <cohort/lab06_memory.hpp>
#include <cstddef>
#include <span>
#include <vector>

using cohort::lab::Link;

namespace {

void sum_everywhere(Link& link, std::span<float> data) {
  if (link.rank() != 0) {
    link.send(0, data);
    link.receive(0, data);
    return;
  }
  std::vector<float> received(data.size());
  for (int r = 1; r < link.ranks(); ++r) {
    link.receive(r, received);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] += received[i];
  }
  for (int r = 1; r < link.ranks(); ++r) link.send(r, data);
}

}  // namespace

// Updates everything on every rank.
void zero_step(Link& link, std::span<float> parameters, std::span<float> gradients, std::span<float> momentum, float rate) {
  sum_everywhere(link, gradients);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    momentum[i] = 0.9f * momentum[i] + gradients[i];
    parameters[i] -= rate * momentum[i];
  }
}
