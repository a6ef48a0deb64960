// Lab 6: one way to write it.
#include <algorithm>
#include <cohort/lab06_memory.hpp>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

using cohort::lab::Link;

namespace {

// The blocks of an array around the ring of ranks.
struct Ring {
  Link& link;
  std::span<float> data;

  int next() const { return (link.rank() + 1) % link.ranks(); }
  int before() const { return (link.rank() + link.ranks() - 1) % link.ranks(); }
  // Of any b, counted around the ring.
  std::span<float> block(int b) const {
    const int n = link.ranks();
    const std::size_t length = data.size() / static_cast<std::size_t>(n);
    return data.subspan(static_cast<std::size_t>((b % n + n) % n) * length, length);
  }
  std::span<float> own() const { return block(link.rank()); }
};

}  // namespace

// 6.1
StateBytes memory_of_stage(double parameters, int ranks, int stage) {
  if (stage < 0 || stage > 3) throw std::invalid_argument("ZeRO has no stage " + std::to_string(stage));
  const auto share = [&](int from) { return stage >= from ? parameters / ranks : parameters; };
  return {.parameters = 2.0 * share(3), .gradients = 2.0 * share(2), .optimizer = 12.0 * share(1)};
}

// 6.2
Sharding sharding_of(std::string_view name) {
  if (name == "NO_SHARD" || name == "zero0") return {false, false, false, false};
  if (name == "zero1") return {true, false, false, false};
  if (name == "SHARD_GRAD_OP" || name == "zero2") return {true, true, false, false};
  if (name == "FULL_SHARD" || name == "zero3") return {true, true, true, false};
  if (name == "HYBRID_SHARD") return {true, true, true, true};
  throw std::invalid_argument("no sharding strategy is called '" + std::string(name) + "'");
}

// 6.3
int smallest_stage(double parameters, int ranks, double budget) {
  for (int stage = 0; stage <= 3; ++stage) {
    const StateBytes bytes = memory_of_stage(parameters, ranks, stage);
    if (bytes.parameters + bytes.gradients + bytes.optimizer <= budget) return stage;
  }
  return -1;
}

// 6.4
double wrap_policy(std::span<const Module> modules, std::string_view block, std::span<int> unit_of) {
  std::vector<double> sizes(modules.size(), 0.0);  // of the unit that begins at a module
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const bool begins = i == 0 || modules[i].type == block;
    unit_of[i] = begins ? static_cast<int>(i) : unit_of[static_cast<std::size_t>(modules[i].parent)];
    sizes[static_cast<std::size_t>(unit_of[i])] += modules[i].parameters;
  }
  double most = 0.0, before = 0.0;
  for (std::size_t i = 1; i < modules.size(); ++i) {
    if (unit_of[i] != static_cast<int>(i)) continue;
    most = std::max(most, before + sizes[i]);
    before = sizes[i];
  }
  return sizes[0] + most;
}

// 6.5
Shard shard_bounds(std::size_t elements, int ranks, int rank, std::size_t alignment) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t share = (elements + n - 1) / n;
  const std::size_t block = (share + alignment - 1) / alignment * alignment;
  const std::size_t first = static_cast<std::size_t>(rank) * block;
  return {.block = block, .begin = std::min(first, elements), .end = std::min(first + block, elements)};
}

// 6.6
void reduce_scatter(Link& link, std::span<float> data) {
  const Ring ring{link, data};
  std::vector<float> received(ring.own().size());
  for (int step = 1; step < link.ranks(); ++step) {  // a block's sum begins at the rank behind its owner, and ends at its owner
    link.exchange(ring.next(), ring.block(link.rank() - step), ring.before(), received);
    const std::span<float> sum = ring.block(link.rank() - step - 1);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += received[i];
  }
}

// 6.7
void all_gather(Link& link, std::span<float> data) {
  const Ring ring{link, data};
  for (int step = 0; step < link.ranks() - 1; ++step)
    link.exchange(ring.next(), ring.block(link.rank() - step), ring.before(), ring.block(link.rank() - step - 1));
}

// 6.8
void zero_step(Link& link, std::span<float> parameters, std::span<float> gradients, std::span<float> momentum, float rate) {
  reduce_scatter(link, gradients);
  const std::span<float> own = Ring{link, parameters}.own(), gradient = Ring{link, gradients}.own();
  for (std::size_t i = 0; i < own.size(); ++i) {
    momentum[i] = 0.9f * momentum[i] + gradient[i];
    own[i] -= rate * momentum[i];
  }
  all_gather(link, parameters);
}

// 6.9
void recompute_segments(Chain& chain, int every) {
  const int layers = chain.layers();
  for (int layer = 0; layer < layers; ++layer) {
    chain.forward(layer);
    if (layer % every != 0) chain.drop(layer);
  }
  chain.drop(layers);
  for (int begin = (layers - 1) / every * every; begin >= 0; begin -= every) {
    const int end = std::min(begin + every, layers);
    for (int layer = begin; layer < end - 1; ++layer) chain.forward(layer);
    for (int layer = end - 1; layer >= begin; --layer) {
      chain.backward(layer);
      chain.drop(layer);
    }
  }
}

// 6.10
double accumulate(std::span<const MicroBatch> micro_batches, std::span<float> gradient) {
  double tokens = 0.0, loss = 0.0;
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  for (const MicroBatch& batch : micro_batches) tokens += static_cast<double>(batch.tokens);
  for (const MicroBatch& batch : micro_batches) {
    if (batch.tokens == 0) continue;
    const double share = static_cast<double>(batch.tokens) / tokens;
    loss += share * batch.loss;
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += static_cast<float>(share * batch.gradient[i]);
  }
  return loss;
}
