#include "parallel/trajectory.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <span>
#include <string_view>

#include "comm/mpi_communicator.hpp"
#include "comm/self_communicator.hpp"
#include "optim/clip.hpp"
#include "optim/resident_optimizer.hpp"
#include "support/device_model.hpp"

namespace cohort::test {
namespace {

constexpr double kRate = 1e-2;
// Below the gradient norms of these problems, so that clipping acts.
constexpr double kClipNorm = 0.5;

OptimizerSection optimizer_section() {
  OptimizerSection optimizer;
  optimizer.weight_decay = 0.1;
  // Some gradients are zero but for rounding (the keys' bias: softmax does not see it), and Adam's m / sqrt(v) would blow the
  // rounding up to whole steps. Gradients are 7e-3 on average here, far above this epsilon: they still are normalised.
  optimizer.epsilon = 1e-3;
  return optimizer;
}

// Memory that activations will lie in, full of a value that would show in every result.
void dirty(Arena& arena, unsigned seed) {
  std::srand(seed);
  const Arena::Scope scope(arena);
  std::vector<float> junk(1 << 20, 1e3f * static_cast<float>(seed + 1));
  const Shape shape{static_cast<Count>(junk.size())};
  arena.take(shape).copy_from(Tensor::wrap(junk.data(), shape));
}

std::vector<float> copy_of(const Tensor& tensor) {
  const Tensor host = tensor.to_host();
  return {host.f32(), host.f32() + host.elements()};
}

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

double finite_or_infinity(double value) { return std::isfinite(value) ? value : std::numeric_limits<double>::infinity(); }

double largest_of(std::span<const float> values) {
  double largest = 0.0;
  for (const float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

// Largest difference, relative to the largest element of the same parameter, or to kFloor times that of all parameters if that is
// more: a gradient that is the difference of large terms is only as exact as they are.
double worst_difference(const std::vector<float>& values, const std::vector<float>& wanted,
                        const std::vector<std::size_t>& ends) {
  constexpr double kFloor = 0.1;
  const double floor = kFloor * largest_of(wanted);
  double worst = 0.0;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const double largest = std::max(floor, largest_of(std::span(wanted).subspan(begin, end - begin)));
    for (std::size_t i = begin; i < end; ++i)
      worst = std::max(worst, finite_or_infinity(std::abs(static_cast<double>(values[i]) - wanted[i]) / largest));
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

Ranks::Ranks() : world_(make_world_communicator()) {
  if (test_device() == DeviceKind::cpu) return;
  mesh_.emplace(*world_, MeshShape(world_->size(), 1, 1, 1), test_device(), ranks_share_devices(world_->size()));
}

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

Trajectory train(const Problem& problem, Communicator& group, const MakeStrategy& make, const TrainOptions& options) {
  const std::unique_ptr<Model> model = options.sharded ? declare_model(model_section(problem.model), test_placement())
                                                       : make_model(model_section(problem.model), kSeed, test_placement());
  const std::unique_ptr<DataParallel> strategy = make(*model, group);
  const ParameterRegistry& parameters = model->parameters();
  const ResidentOptimizer optimizer(strategy->owned(), optimizer_section());
  const ops::Exec exec{.device = test_device()};
  Arena activations("test.activations", test_device());
  dirty(activations, options.unrelated_seed);
  const StepScalars scalars(test_device());
  StepTimers timers;
  Trajectory trajectory;
  for (const auto& parameter : parameters.all())
    trajectory.ends.push_back(static_cast<std::size_t>(parameter->offset + parameter->elements()));
  for (Count step = 0; step < kSteps; ++step) {
    const GlobalBatch batch(problem, step);
    DeviceInputs inputs;
    const std::vector<ModelInput> part = inputs.put(batch.part(group.rank(), group.size(), options.accumulation));
    const double inverse = 1.0 / static_cast<double>(batch.valid_targets());
    scalars.begin();
    const StepContext context{.exec = exec,
                              .activations = &activations,
                              .loss_sum = scalars.own_loss(),
                              .training = true,
                              .seed = kSeed,
                              .step = static_cast<std::uint32_t>(step)};
    strategy->accumulate_gradients(context, part, static_cast<float>(inverse), timers);
    scalars.loss().copy_from(scalars.own_loss());
    group.all_reduce(scalars.loss().raw(), 1, DType::f64, ReduceOp::sum);
    trajectory.losses.push_back(*scalars.loss().to_host().data<double>() * inverse);
    trajectory.gradients.push_back(assembled(*strategy, parameters, &OwnedSegment::gradients));
    if (options.update == Update::adamw) {
      add_squares(exec, optimizer.owned(), scalars);
      if (Communicator* shards = strategy->shard_group())
        shards->all_reduce(scalars.squares().raw(), 1, DType::f64, ReduceOp::sum);
      decide_update(exec, scalars, 1.0, kClipNorm);
      optimizer.step(exec, kRate, scalars.decisions(), step);
    } else {
      sgd(parameters);
    }
    strategy->weights_changed();
    trajectory.weights.push_back(assembled(*strategy, parameters, &OwnedSegment::values));
  }
  return trajectory;
}

Trajectory train_alone(const Problem& problem, Update update) {
  const std::unique_ptr<Communicator> self = make_self_communicator("alone", test_device());
  return train(problem, *self, strategy_named("monolith", model_section(problem.model)), {.update = update});
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
    distance.gradients =
        std::max(distance.gradients, worst_difference(trajectory.gradients[step], yardstick.gradients[step], yardstick.ends));
    distance.weights =
        std::max(distance.weights, worst_difference(trajectory.weights[step], yardstick.weights[step], yardstick.ends));
  }
  for (double* worst : {&distance.losses, &distance.gradients, &distance.weights})
    *worst = all_reduce_value(group, *worst, ReduceOp::max);
  distance.same_ranks = same_on_all(group, hash_of(trajectory));
  return distance;
}

}  // namespace cohort::test
