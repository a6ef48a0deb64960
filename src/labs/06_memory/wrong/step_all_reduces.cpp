// zero_step: that is what an all-reduce sends
#include <cohort/lab06_memory.hpp>
#include <cstddef>
#include <span>
#include <vector>

using cohort::lab::Link;

namespace {

std::span<float> block(Link& link, std::span<float> data, int b) {
  const int n = link.ranks();
  const std::size_t length = data.size() / static_cast<std::size_t>(n);
  return data.subspan(static_cast<std::size_t>((b % n + n) % n) * length, length);
}

void hand_out(Link& link, std::span<float> data) {
  const int n = link.ranks(), next = (link.rank() + 1) % n, before = (link.rank() + n - 1) % n;
  for (int step = 0; step < n - 1; ++step)
    link.exchange(next, block(link, data, link.rank() - step), before, block(link, data, link.rank() - step - 1));
}

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

// All-reduces the gradients, and gathers the parameters as well.
void zero_step(Link& link, std::span<float> parameters, std::span<float> gradients, std::span<float> momentum, float rate) {
  sum_everywhere(link, gradients);
  const std::span<float> own = block(link, parameters, link.rank()), gradient = block(link, gradients, link.rank());
  for (std::size_t i = 0; i < own.size(); ++i) {
    momentum[i] = 0.9f * momentum[i] + gradient[i];
    own[i] -= rate * momentum[i];
  }
  hand_out(link, parameters);
}
