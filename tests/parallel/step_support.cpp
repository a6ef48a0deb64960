#include "parallel/step_support.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/self_communicator.hpp"
#include "config/validate.hpp"
#include "gpu/device.hpp"
#include "support/test_device.hpp"

namespace cohort::test {

std::unique_ptr<Mesh> mesh_of(Communicator& host, const MeshShape& shape) {
  return std::make_unique<Mesh>(host, shape, test_device(), ranks_share_devices(host.size()));
}

std::unique_ptr<Communicator> Alone::make_alone() { return make_self_communicator("alone"); }

RunConfig step_config(const ModelSection& model, const Mesh& mesh, Count micro_batch, Count accumulation,
                      ParallelSection parallel, double learning_rate) {
  RunConfig config;
  config.run.seed = kSeed;
  config.model = model;
  if (model.kind == "mlp") {
    config.data.kind = "two_moons";
  } else {
    config.data.tokens = "none.h5";  // no file is read
  }
  config.train.micro_batch = micro_batch;
  config.train.accumulation = accumulation;
  config.train.clip_norm = 0.5;
  config.optimizer.learning_rate = learning_rate;
  config.optimizer.weight_decay = 0.1;
  // Some gradients are zero but for rounding (the keys' bias: softmax does not see it), and Adam's m / sqrt(v) would blow the
  // rounding up to whole steps. Most gradients are far above this epsilon: they still are normalised.
  config.optimizer.epsilon = 1e-3;
  config.schedule.kind = "constant";
  config.parallel = std::move(parallel);
  config.parallel.dp = mesh.size(Axis::dp);
  config.parallel.pp = mesh.size(Axis::pp);
  config.parallel.cp = mesh.size(Axis::cp);
  config.parallel.tp = mesh.size(Axis::tp);
  config.device.kind = test_device_key();
  validate(config, mesh.world().size(), {.cuda = gpu::built()});
  return config;
}

void dirty(Arena& arena, unsigned seed) {
  const Arena::Scope scope(arena);
  std::vector<float> junk(1 << 20, 1e3f * static_cast<float>(seed + 1));
  const Shape shape{static_cast<Count>(junk.size())};
  arena.take(shape).copy_from(Tensor::wrap(junk.data(), shape));
}

std::vector<float> copy_of(const Tensor& tensor) {
  const Tensor host = tensor.to_host();
  return {host.f32(), host.f32() + host.elements()};
}

double finite_or_infinity(double value) { return std::isfinite(value) ? value : std::numeric_limits<double>::infinity(); }

double largest_of(std::span<const float> values) {
  double largest = 0.0;
  for (const float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

double worst_difference(std::span<const float> values, std::span<const float> wanted, double floor) {
  const double largest = std::max(floor, largest_of(wanted));
  double worst = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    worst = std::max(worst, finite_or_infinity(std::abs(static_cast<double>(values[i]) - wanted[i]) / largest));
  return worst;
}

double worst_difference(const WholeTensors& values, const WholeTensors& wanted, std::string* worst_name) {
  double floor = 0.0, worst = 0.0;
  for (const auto& [name, tensor] : wanted) floor = std::max(floor, kFloor * largest_of(tensor));
  for (const auto& [name, tensor] : wanted) {
    const double difference = worst_difference(values.at(name), tensor, floor);
    if (difference <= worst) continue;
    worst = difference;
    if (worst_name != nullptr) *worst_name = name;
  }
  return worst;
}

}  // namespace cohort::test
