#include "train/proof.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/text.hpp"
#include "checkpoint/format.hpp"
#include "comm/agreement.hpp"
#include "comm/self_communicator.hpp"
#include "train/precision.hpp"
#include "train/step_batches.hpp"
#include "train/trainee.hpp"

namespace cohort {
namespace {

constexpr double kFloor = 0.1;  // see ProofResult
// Of the tolerance of gradients, the share by which rounding is taken to change them, relative to the largest as in ProofResult.
// In fp32 that is 3e-6, which sums of some hundred terms in another order come to at worst.
constexpr double kRoundingShare = 0.3;

using EachStep = std::function<void(Count step, const Trainee& trainee, const StepResult& result)>;

void run_steps(const RunConfig& config, const RunData& data, Communicator& group, Count steps, const EachStep& each) {
  const Mesh mesh(group, mesh_shape_of(config.parallel), device_of(config), config.device.share);
  Trainee trainee(config, mesh);
  if (!config.run.initial_checkpoint.empty()) trainee.load_weights(config.run.initial_checkpoint);
  const Sampler sampler(data.dataset->samples(Split::train), config.run.seed, config.train.global_batch, data.dataset->name());
  StepBatches batches(*data.dataset, sampler, config.train,
                      BatchShare::of(mesh, trainee.ring() ? &trainee.ring()->split() : nullptr), trainee.device());
  StepTimers timers;
  for (Count step = 0; step < steps; ++step) {
    timers.begin_step();
    batches.load(step);
    const Count targets = all_reduce_value(mesh.host_gradient(), batches.valid_targets(), ReduceOp::sum);
    each(step, trainee, trainee.step({step, batches.inputs(), batches.valid_targets(), targets}, timers));
  }
}

// The elements of a rank's shards that lie in memory of the host, by tensor.
template <class Body>
void for_each_shard(const std::vector<StateShard>& shards, const Body& body) {
  for (const StateShard& shard : shards) {
    if (!shard.tensor.starts_with(kModelGroup)) continue;
    const Tensor host = shard.elements.to_host();
    body(shard, host.span<float>());
  }
}

double largest_of(const std::vector<float>& values) {
  double largest = 0.0;
  for (const float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

double relative(double value, double wanted) {
  if (value == wanted) return 0.0;
  const double difference = std::abs(value - wanted) / std::abs(wanted);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

std::string parameter_name(const std::string& dataset) {
  std::string name = dataset.substr(kModelGroup.size());
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

double floor_of(const std::map<std::string, std::vector<float>>& tensors) {
  double floor = 0.0;
  for (const auto& [name, values] : tensors) floor = std::max(floor, kFloor * largest_of(values));
  return floor;
}

void find_slack(ReferenceRun& reference, double rounding) {
  std::map<std::string, std::vector<float>> sums;
  for (std::size_t step = 0; step < reference.gradients.size(); ++step) {
    if (reference.skipped[step] == 0.0) {
      const double floor = floor_of(reference.gradients[step]);
      for (const auto& [name, values] : reference.gradients[step]) {
        const double error = rounding * std::max(floor, largest_of(values));
        std::vector<float>& slack = sums[name];
        slack.resize(values.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
          const double size = std::abs(static_cast<double>(values[i]));
          if (size > 0.0) slack[i] += static_cast<float>(reference.rates[step] * std::min(2.0, error / size));
        }
      }
    }
    reference.slack.push_back(sums);
  }
}

// NaN counts as infinite.
void raise(double& worst, double difference) {
  worst = std::max(worst, std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference);
}

struct Difference {
  std::string dataset;
  double worst = 0.0;
  double plain = 0.0;  // without the slack
};

// The worst differences of each tensor, over the elements that this rank holds, in the order of the model. `slack` may be empty.
std::vector<Difference> differences(const std::vector<StateShard>& shards,
                                    const std::map<std::string, std::vector<float>>& wanted,
                                    const std::map<std::string, std::vector<float>>& slack, double tolerance) {
  const double floor = floor_of(wanted);
  std::vector<Difference> worst;
  for_each_shard(shards, [&](const StateShard& shard, std::span<const float> elements) {
    const std::vector<float>& whole = wanted.at(shard.tensor);
    const double scale = std::max(floor, largest_of(whole));
    const auto slack_of = slack.find(shard.tensor);
    if (worst.empty() || worst.back().dataset != shard.tensor) worst.push_back({shard.tensor});
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const auto at = static_cast<std::size_t>(shard.part.global(static_cast<Count>(i)));
      const double more = slack_of == slack.end() ? 0.0 : static_cast<double>(slack_of->second[at]) / tolerance;
      const double difference = std::abs(static_cast<double>(elements[i]) - whole[at]);
      raise(worst.back().worst, difference / (scale + more));
      raise(worst.back().plain, difference / scale);
    }
  });
  return worst;
}

void share(Communicator& world, std::vector<double>& values) { broadcast(world, std::span<double>(values), 0); }

// Rank 0's tensors of all steps, on all ranks.
void share(Communicator& world, std::vector<std::map<std::string, std::vector<float>>>& steps) {
  for (auto& tensors : steps) {
    std::string names;
    for (const auto& [name, values] : tensors) names += fmt::format("{} {}\n", name, values.size());
    names = broadcast_text(world, names, 0);
    for (const std::string& line : split(names, '\n')) {
      const std::size_t space = line.rfind(' ');
      std::vector<float>& values = tensors[line.substr(0, space)];
      values.resize(std::stoull(line.substr(space + 1)));
      broadcast(world, std::span<float>(values), 0);
    }
  }
}

}  // namespace

double ProofResult::worst() const {
  return std::max({losses, norms, gradients, weights, later_gradients / kLater, later_norms / kLater});
}

Tolerance proof_tolerance(const PrecisionSection& precision) {
  if (precision.policy == "fp32")
    return {1e-5,
            "fp32 sums of some hundred terms in another order differ by a few 1e-7 of the largest, and steps carry that on"};
  return {1e-2, "operands rounded to " + precision.policy + " in another order of sums; one part in some hundred"};
}

ReferenceRun run_reference(const RunConfig& run, const RunData& data, Communicator& world, Count steps) {
  const auto size = static_cast<std::size_t>(steps);
  ReferenceRun reference;
  reference.losses.resize(size);
  reference.norms.resize(size);
  reference.rates.resize(size);
  reference.skipped.resize(size);
  reference.gradients.resize(size);
  reference.weights.resize(size);
  agree(world, "running the reference on one rank", [&] {
    if (world.rank() != 0) return;
    const std::unique_ptr<Communicator> self = make_self_communicator("one rank");
    run_steps(reference_config(run), data, *self, steps, [&](Count step, const Trainee& trainee, const StepResult& result) {
      const auto s = static_cast<std::size_t>(step);
      reference.losses[s] = result.loss;
      reference.norms[s] = result.gradient_norm;
      reference.rates[s] = result.learning_rate;
      reference.skipped[s] = result.skipped ? 1.0 : 0.0;
      const auto keep = [](auto& tensors) {
        return [&](const StateShard& shard, std::span<const float> elements) {
          tensors[shard.tensor].assign(elements.begin(), elements.end());
        };
      };
      for_each_shard(trainee.gradient_shards(), keep(reference.gradients[s]));
      for_each_shard(trainee.shards(), keep(reference.weights[s]));
    });
  });
  share(world, reference.losses);
  share(world, reference.norms);
  share(world, reference.rates);
  share(world, reference.skipped);
  share(world, reference.gradients);
  share(world, reference.weights);
  find_slack(reference, kRoundingShare * proof_tolerance(run.precision).value);
  return reference;
}

ProofResult prove(const Layout& layout, const RunData& data, Communicator& world, const ReferenceRun& reference,
                  const Tolerance& tolerance) {
  const std::unique_ptr<Communicator> group = world.split(world.rank() < layout.ranks ? 0 : -1, world.rank(), "layout");
  ProofResult result;
  if (group) {
    const auto part = [&](Count step, std::string what, double difference, double allowed) {
      if (difference <= allowed || (!result.partings.empty() && result.partings.front().step != step + 1)) return;
      result.partings.push_back({step + 1, std::move(what), difference});
    };
    const auto compare = [&](Count step, const char* kind, const std::vector<StateShard>& shards,
                             const std::map<std::string, std::vector<float>>& wanted,
                             const std::map<std::string, std::vector<float>>& slack, double& worst, double& plain,
                             double allowed) {
      for (const Difference& difference : differences(shards, wanted, slack, tolerance.value)) {
        raise(worst, difference.worst);
        raise(plain, difference.plain);
        part(step, fmt::format("{} {}", kind, parameter_name(difference.dataset)), difference.worst, allowed);
      }
    };
    run_steps(
        layout.config, data, *group, static_cast<Count>(reference.losses.size()),
        [&](Count step, const Trainee& trainee, const StepResult& found) {
          const auto s = static_cast<std::size_t>(step);
          const bool skipped = reference.skipped[s] != 0.0;
          if (found.skipped != skipped) {
            result.norms = std::numeric_limits<double>::infinity();
            part(step, found.skipped ? "step, which was skipped" : "step, which was not skipped", result.norms, tolerance.value);
          }
          const double loss = relative(found.loss, reference.losses[s]);
          const double norm = skipped ? 0.0 : relative(found.gradient_norm, reference.norms[s]);
          result.losses = std::max(result.losses, loss);
          double& norms = s == 0 ? result.norms : result.later_norms;
          raise(norms, norm);
          double& gradients = s == 0 ? result.gradients : result.later_gradients;
          const double allowed = s == 0 ? tolerance.value : ProofResult::kLater * tolerance.value;
          part(step, "loss", loss, tolerance.value);
          part(step, "gradient norm", norm, allowed);
          if (!skipped) {
            compare(step, "gradient of", trainee.gradient_shards(), reference.gradients[s], {}, gradients, gradients, allowed);
          }
          compare(step, "weight", trainee.shards(), reference.weights[s], reference.slack[s], result.weights,
                  result.plain_weights, tolerance.value);
        });
  }
  for (double* number : {&result.losses, &result.norms, &result.gradients, &result.later_gradients, &result.weights,
                         &result.plain_weights, &result.later_norms})
    *number = all_reduce_value(world, *number, ReduceOp::max);
  // The rank that parted first tells.
  const Count none = std::numeric_limits<Count>::max();
  const Count own = result.partings.empty() ? none : result.partings.front().step;
  const Count first = -all_reduce_value(world, -own, ReduceOp::max);
  if (first == none) return result;
  const int teller = world.size() - all_reduce_value(world, own == first ? world.size() - world.rank() : 0, ReduceOp::max);
  std::string text;
  for (const Parting& parting : result.partings) text += fmt::format("{:.17g} {}\n", parting.difference, parting.what);
  text = broadcast_text(world, text, teller);
  result.partings.clear();
  for (const std::string& line : split(text, '\n')) {
    const std::size_t space = line.find(' ');
    result.partings.push_back({first, line.substr(space + 1), std::stod(line.substr(0, space))});
  }
  return result;
}

}  // namespace cohort
