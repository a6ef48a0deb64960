#include "parallel/data/trajectory.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <span>
#include <string_view>

#include "parallel/strategy.hpp"
#include "support/device_model.hpp"
#include "train/train_step.hpp"

namespace cohort::test {
namespace {

constexpr double kRate = 1e-2;

// A tensor of all parameters, in the order of the registry, from what the ranks own of it.
std::vector<float> assembled(DataParallel& strategy, const ParameterRegistry& parameters, Tensor OwnedSegment::*tensor) {
  std::vector<float> whole(static_cast<std::size_t>(parameters.flat_elements()));
  for (const OwnedSegment& segment : strategy.owned()) {
    const std::vector<float> own = copy_of(segment.*tensor);
    for (const OwnedPiece& piece : segment.pieces)
      std::copy_n(own.begin() + piece.at, piece.elements, whole.begin() + piece.parameter->offset + piece.begin);
  }
  if (Communicator* shards = strategy.shard_group()) {
    const Tensor host = Tensor::wrap(whole.data(), {static_cast<Count>(whole.size())});
    const Tensor summed = host.to(test_device(), "test.whole");  // everything else is zero
    shards->all_reduce(summed.raw(), summed.elements(), DType::f32, ReduceOp::sum);
    return copy_of(summed);
  }
  return whole;
}

// At worst of all parameters.
double worst_of_parameters(const std::vector<float>& values, const std::vector<float>& wanted,
                           const std::vector<std::size_t>& ends) {
  double worst = 0.0;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    worst = std::max(worst, worst_difference(std::span(values).subspan(begin, end - begin),
                                             std::span(wanted).subspan(begin, end - begin), kFloor * largest_of(wanted)));
    begin = end;
  }
  return worst;
}

// One number for all bits of a trajectory's vectors: comparing it over the ranks costs one message.
std::int64_t hash_of(const Trajectory& trajectory) {
  std::size_t hash = 0;
  for (const auto* steps : {&trajectory.gradients, &trajectory.weights}) {
    for (const std::vector<float>& values : *steps) {
      const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
      hash = hash * 31 + std::hash<std::string_view>{}(bytes);
    }
  }
  return static_cast<std::int64_t>(hash >> 1);
}

bool same_on_all(Communicator& group, std::int64_t value) {
  return all_reduce_value(group, value, ReduceOp::max) == -all_reduce_value(group, -value, ReduceOp::max);
}

void sgd(const ParameterRegistry& parameters) {
  std::vector<float> values = copy_of(parameters.flat_values());
  const std::vector<float> gradients = copy_of(parameters.flat_gradients());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= static_cast<float>(kRate) * gradients[i];
  parameters.flat_values().copy_from(Tensor::wrap(values.data(), parameters.flat_values().shape()));
}

}  // namespace

MakeStrategy strategy_named(const std::string& name, const ModelSection& model, double bucket_mib, DType reduction) {
  ParallelSection section;
  section.data = name;
  section.bucket_mib = bucket_mib;
  return strategy_of(section, model, reduction);
}

MakeStrategy strategy_of(const ParallelSection& section, const ModelSection& model, DType reduction) {
  // The second replica of "manual" must get the weights of the first, whatever its own seed.
  const std::uint64_t seed = is_sharded(section.data) ? kSeed : kSeed + 1;
  return [=](Model& of, Communicator& group) { return make_data_parallel(section, model, seed, of, group, reduction); };
}

Trajectory train(const Problem& problem, const Mesh& mesh, const MakeStrategy& make, const TrainOptions& options) {
  const int ranks = mesh.size(Axis::dp);
  ParallelSection parallel;
  parallel.data = options.sharded ? "zero1" : "naive";  // who keeps the parameters; the strategy itself is `make`'s
  const RunConfig config = step_config(model_section(problem.model), mesh, problem.samples / (ranks * options.accumulation),
                                       options.accumulation, parallel, kRate);
  TrainStep train_step(config, mesh, {.strategy = make});
  DataParallel& strategy = train_step.strategy();
  const ParameterRegistry& parameters = train_step.model().parameters();
  std::srand(options.unrelated_seed);
  dirty(train_step.activations(), options.unrelated_seed);
  StepTimers timers;
  Trajectory trajectory;
  for (const auto& parameter : parameters.all())
    trajectory.ends.push_back(static_cast<std::size_t>(parameter->offset + parameter->elements()));
  for (Count step = 0; step < kSteps; ++step) {
    const GlobalBatch batch(problem, step);
    DeviceInputs inputs;
    const std::vector<ModelInput> part = batch.part(mesh.index(Axis::dp), ranks, options.accumulation);
    const std::vector<ModelInput> on_device = inputs.put(part);
    Count own_targets = 0;
    for (const ModelInput& input : part) own_targets += count_valid_targets(input);
    train_step.compute_gradients({step, on_device, own_targets, batch.valid_targets()}, timers);
    trajectory.gradients.push_back(assembled(strategy, parameters, &OwnedSegment::gradients));
    if (options.update == Update::adamw) {
      train_step.update(timers);
      trajectory.losses.push_back(train_step.finish_step(timers).loss);
    } else {
      sgd(parameters);
      strategy.weights_changed();
    }
    trajectory.weights.push_back(assembled(strategy, parameters, &OwnedSegment::values));
  }
  return trajectory;
}

Trajectory train_alone(const Problem& problem, Update update) {
  const Alone alone;
  return train(problem, *alone.mesh, strategy_named("monolith", model_section(problem.model)), {.update = update});
}

std::string Distance::str() const {
  return fmt::format("losses {:.2e}, gradients {:.2e}, weights {:.2e}, ranks {}", losses, gradients, weights,
                     same_ranks ? "alike" : "DIFFER");
}

Distance distance(Communicator& group, const Trajectory& trajectory, const Trajectory& yardstick) {
  Distance distance;
  for (std::size_t step = 0; step < yardstick.losses.size(); ++step) {
    const double wanted = yardstick.losses[step];
    distance.losses = std::max(distance.losses, finite_or_infinity(std::abs(trajectory.losses[step] - wanted) / wanted));
  }
  for (std::size_t step = 0; step < yardstick.weights.size(); ++step) {
    distance.gradients =
        std::max(distance.gradients, worst_of_parameters(trajectory.gradients[step], yardstick.gradients[step], yardstick.ends));
    distance.weights =
        std::max(distance.weights, worst_of_parameters(trajectory.weights[step], yardstick.weights[step], yardstick.ends));
  }
  for (double* worst : {&distance.losses, &distance.gradients, &distance.weights})
    *worst = all_reduce_value(group, *worst, ReduceOp::max);
  distance.same_ranks = same_on_all(group, hash_of(trajectory));
  return distance;
}

}  // namespace cohort::test
