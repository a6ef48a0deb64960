#include "parallel/tensor/training.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.hpp"
#include "comm/mpi_communicator.hpp"
#include "comm/self_communicator.hpp"
#include "ops/cross_entropy.hpp"
#include "optim/clip.hpp"
#include "optim/resident_optimizer.hpp"

namespace cohort::test {
namespace {

// The whole tensor of a parameter, from the parts that count; whether this rank's part has the same bits goes to `agree`.
std::vector<float> assembled(const Parameter& parameter, const Tensor& own, Communicator& host, bool& agree) {
  const Tensor part = own.to_host();
  const BoxMap map(parameter.global_shape, parameter.box());
  std::vector<float> whole(static_cast<std::size_t>(parameter.global_shape.elements()));
  const auto at = [&](Count i) -> float& { return whole[static_cast<std::size_t>(map.global(i))]; };
  for (Count i = 0; parameter.shard.counts && i < part.elements(); ++i) at(i) = part.f32()[i];
  if (host.size() > 1) all_reduce(host, std::span<float>(whole), ReduceOp::sum);
  for (Count i = 0; i < part.elements(); ++i) agree = agree && at(i) == part.f32()[i];
  return whole;
}

double largest_of(const std::vector<float>& values) {
  double largest = 0.0;
  for (const float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

double finite_or_infinity(double value) { return std::isfinite(value) ? value : std::numeric_limits<double>::infinity(); }

double worst_difference(const WholeTensors& values, const WholeTensors& wanted, std::string* worst_name) {
  constexpr double kFloor = 0.1;
  double floor = 0.0, worst = 0.0;
  for (const auto& [name, tensor] : wanted) floor = std::max(floor, kFloor * largest_of(tensor));
  for (const auto& [name, tensor] : wanted) {
    const double largest = std::max(floor, largest_of(tensor));
    const std::vector<float>& found = values.at(name);
    for (std::size_t i = 0; i < tensor.size(); ++i) {
      const double difference = finite_or_infinity(std::abs(static_cast<double>(found[i]) - tensor[i]) / largest);
      if (difference <= worst) continue;
      worst = difference;
      if (worst_name != nullptr) *worst_name = name;
    }
  }
  return worst;
}

// Of all tensors together, Euclidean.
double relative_difference(const WholeTensors& values, const WholeTensors& wanted) {
  double differences = 0.0, squares = 0.0;
  for (const auto& [name, tensor] : wanted) {
    const std::vector<float>& found = values.at(name);
    for (std::size_t i = 0; i < tensor.size(); ++i) {
      differences += std::pow(static_cast<double>(found[i]) - tensor[i], 2);
      squares += std::pow(static_cast<double>(tensor[i]), 2);
    }
  }
  return finite_or_infinity(std::sqrt(differences / squares));
}

}  // namespace

OptimizerSection optimizer_section() {
  OptimizerSection optimizer;
  optimizer.weight_decay = 0.1;
  // Some gradients are zero but for rounding (the keys' bias: softmax does not see it), and Adam's m / sqrt(v) would blow the
  // rounding up to whole steps. This epsilon is far above the rounding, and far below most gradients.
  optimizer.epsilon = 1e-3;
  return optimizer;
}

Ranks::Ranks() : world_(make_world_communicator()) {
  mesh_ = std::make_unique<Mesh>(*world_, MeshShape(1, 1, 1, world_->size()), test_device(), ranks_share_devices(world_->size()));
}

ModelSection gpt2_section(double dropout, bool tied) {
  ModelSection model;
  model.kind = "gpt2";
  model.layers = 2;
  model.width = 24;
  model.heads = model.kv_heads = 12;
  model.ffn_width = 36;
  model.context = 12;
  model.vocabulary = 29;
  model.tied_head = tied;
  model.dropout = dropout;
  model.init_std = 0.2;  // 1 / sqrt(width): the standard 0.02 would leave such a narrow model with gradients near zero
  return model;
}

ModelSection llama_section(Count kv_heads, bool tied) {
  ModelSection model = gpt2_section(0.0, tied);
  model.kind = "llama";
  model.width = 48;
  model.init_std = 0.14;
  model.kv_heads = kv_heads;
  return model;
}

Batch::Batch(const ModelSection& model, Count index, Count samples) : samples_(samples) {
  const CounterRandom random(7, RandomPurpose::test, static_cast<std::uint32_t>(index));
  std::uint64_t next = 0;
  for (Count sample = 0; sample < samples; ++sample) {
    slots_.push_back(samples * (index % kAccumulation) + sample);
    for (Count t = 0; t < model.context; ++t) {
      inputs_.push_back(static_cast<std::int32_t>(random.u32(next++) % model.vocabulary));
      const auto target = static_cast<std::int32_t>(random.u32(next++) % model.vocabulary);
      targets_.push_back(random.uniform(next++) < 0.3 ? ops::kIgnoredTarget : target);
    }
  }
}

Count Batch::valid_targets() const {
  return std::count_if(targets_.begin(), targets_.end(), [](std::int32_t target) { return target != ops::kIgnoredTarget; });
}

Training train(const ModelSection& section, TensorParallel& parallel, Communicator& host, DType compute, const Prepare& prepare) {
  const std::unique_ptr<Model> model = make_model(section, kSeed, test_placement(compute), parallel);
  const ParameterRegistry& parameters = model->parameters();
  if (prepare) prepare(parameters);
  const ResidentOptimizer optimizer({whole_of(parameters)}, optimizer_section());
  const ops::Exec exec{.device = test_device()};
  Arena activations("test.activations", test_device());
  const StepScalars scalars(test_device());
  Hooks hooks;
  Training training;
  for (Count step = 0; step < kSteps; ++step) {
    std::vector<Batch> batches;
    double valid = 0.0;
    for (Count m = 0; m < kAccumulation; ++m) {
      batches.emplace_back(section, step * kAccumulation + m);
      valid += static_cast<double>(batches.back().valid_targets());
    }
    scalars.begin();
    parameters.zero_gradients();
    const StepContext context{.exec = exec,
                              .dtype = compute,
                              .activations = &activations,
                              .loss_sum = scalars.own_loss(),
                              .training = true,
                              .seed = kSeed,
                              .step = static_cast<std::uint32_t>(step)};
    DeviceInputs inputs;
    for (const Batch& batch : batches) {
      const Arena::Scope scope(activations);
      const ModelInput input = inputs.put(batch.input());
      model->forward(context, input, static_cast<float>(1.0 / valid), hooks);
      model->backward(context, input, hooks);
    }
    training.losses.push_back(*scalars.own_loss().to_host().data<double>() / valid);
    // No clipping: the norm over parts is the trainer's business.
    decide_update(exec, scalars, 1.0, 0.0);
    WholeTensors gradients, weights;
    for (const auto& parameter : parameters.all())
      gradients[parameter->name] = assembled(*parameter, parameter->gradient, host, training.copies_agree);
    optimizer.step(exec, kRate, scalars.decisions(), step);
    for (const auto& parameter : parameters.all())
      weights[parameter->name] = assembled(*parameter, parameter->value, host, training.copies_agree);
    training.gradients.push_back(std::move(gradients));
    training.weights.push_back(std::move(weights));
  }
  return training;
}

Training train_alone(const ModelSection& model, DType compute) {
  return train(model, TensorParallel::none(), *make_self_communicator("alone"), compute);
}

std::string Distance::str() const {
  return fmt::format(
      "losses {:.2e}, gradients {:.2e} (worst: {}), weights {:.2e}; all together: gradients {:.2e}, weights {:.2e}", losses,
      gradients, worst, weights, all_gradients, all_weights);
}

Distance distance(const Training& training, const Training& yardstick) {
  Distance distance;
  for (std::size_t step = 0; step < yardstick.losses.size(); ++step) {
    const double wanted = yardstick.losses[step];
    distance.losses = std::max(distance.losses, finite_or_infinity(std::abs(training.losses[step] - wanted) / wanted));
    std::string worst;
    const double gradients = worst_difference(training.gradients[step], yardstick.gradients[step], &worst);
    if (gradients > distance.gradients) distance.worst = worst;
    distance.gradients = std::max(distance.gradients, gradients);
    distance.all_gradients =
        std::max(distance.all_gradients, relative_difference(training.gradients[step], yardstick.gradients[step]));
    distance.all_weights = std::max(distance.all_weights, relative_difference(training.weights[step], yardstick.weights[step]));
    distance.weights = std::max(distance.weights, worst_difference(training.weights[step], yardstick.weights[step], nullptr));
  }
  return distance;
}

}  // namespace cohort::test
