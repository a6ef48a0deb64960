#include "parallel/tensor/training.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "ops/cross_entropy.hpp"
#include "train/train_step.hpp"

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

Training train(const ModelSection& section, TensorParallel& parallel, const Mesh& mesh, DType compute, const Prepare& prepare) {
  RunConfig config = step_config(section, mesh, kSamples, kAccumulation, {}, kRate);
  config.precision.policy = name_of(compute);
  TrainStep train_step(config, mesh, {.tensor_parallel = &parallel});
  const ParameterRegistry& parameters = train_step.model().parameters();
  if (prepare) prepare(parameters);
  StepTimers timers;
  Training training;
  for (Count step = 0; step < kSteps; ++step) {
    DeviceInputs inputs;
    std::vector<Batch> batches;
    std::vector<ModelInput> on_device;
    Count valid_targets = 0;
    for (Count m = 0; m < kAccumulation; ++m) batches.emplace_back(section, step * kAccumulation + m);
    for (const Batch& batch : batches) {
      valid_targets += batch.valid_targets();
      on_device.push_back(inputs.put(batch.input()));
    }
    WholeTensors gradients, weights;
    train_step.compute_gradients({step, on_device, valid_targets, valid_targets}, timers);
    for (const auto& parameter : parameters.all())
      gradients[parameter->name] = assembled(*parameter, parameter->gradient, mesh.world(), training.copies_agree);
    train_step.update(timers);
    training.losses.push_back(train_step.finish_step(timers).loss);
    for (const auto& parameter : parameters.all())
      weights[parameter->name] = assembled(*parameter, parameter->value, mesh.world(), training.copies_agree);
    training.gradients.push_back(std::move(gradients));
    training.weights.push_back(std::move(weights));
  }
  return training;
}

Training train_alone(const ModelSection& model, DType compute) {
  return train(model, TensorParallel::none(), *Alone().mesh, compute);
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
    distance.weights = std::max(distance.weights, worst_difference(training.weights[step], yardstick.weights[step]));
  }
  return distance;
}

}  // namespace cohort::test
