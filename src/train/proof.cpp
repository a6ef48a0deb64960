#include "train/proof.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/text.hpp"
#include "checkpoint/format/format.hpp"
#include "comm/consensus.hpp"
#include "comm/self_communicator.hpp"
#include "train/proof_steps.hpp"

namespace cohort {
namespace {

constexpr double kFloor = 0.1;  // see ProofResult

double largest_of(std::span<const float> values) {
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

// NaN counts as infinite.
void raise(double& worst, double difference) {
  worst = std::max(worst, std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference);
}

struct Difference {
  std::string dataset;
  double worst = 0.0;
};

// The worst differences of each tensor, over the elements that this rank holds, in the order of the model, relative to
// size_of(whole tensor)(element).
template <class SizeOf>
std::vector<Difference> differences(const std::vector<StateShard>& shards, const WholeTensors& wanted, const SizeOf& size_of) {
  std::vector<Difference> worst;
  for (const StateShard& shard : shards) {
    const std::span<const float> whole = wanted.at(shard.tensor);
    const auto size = size_of(whole);
    const Tensor host = shard.elements.to_host();
    const std::span<const float> elements = host.span<float>();
    if (worst.empty() || worst.back().dataset != shard.tensor) worst.push_back({shard.tensor});
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const float here = whole[static_cast<std::size_t>(shard.part.global(static_cast<Count>(i)))];
      const double difference = std::abs(static_cast<double>(elements[i]) - here);
      if (difference != 0.0) raise(worst.back().worst, difference / size(here));
    }
  }
  return worst;
}

std::vector<Difference> gradient_differences(const std::vector<StateShard>& shards, const WholeTensors& wanted) {
  const double floor = kFloor * largest_of(wanted.elements);
  return differences(shards, wanted, [&](std::span<const float> whole) {
    return [scale = std::max(floor, largest_of(whole))](float) { return scale; };
  });
}

std::vector<Difference> weight_differences(const std::vector<StateShard>& shards, const WholeTensors& wanted, double rate) {
  return differences(shards, wanted, [&](std::span<const float>) {
    return [rate](float weight) { return std::abs(static_cast<double>(weight)) + rate; };
  });
}

// Compares step by step and notes what parts in the first step that has any.
class StepComparison {
 public:
  StepComparison(const Tolerance& tolerance, ProofResult& result) : tolerance_(tolerance.value), result_(result) {}

  void compare(Count step, const ProofRun& layout, const StepResult& found, const OneRankStep& wanted) {
    step_ = step + 1;
    if (found.skipped != wanted.skipped) {
      part(found.skipped ? "step, which was skipped" : "step, which was not skipped", result_.norms,
           std::numeric_limits<double>::infinity(), tolerance_);
    }
    if (!wanted.skipped) part("loss", result_.losses, relative(found.loss, wanted.loss), tolerance_);
    if (!wanted.skipped && !found.skipped) {
      part("gradient norm", result_.norms, relative(found.gradient_norm, wanted.norm), tolerance_);
      for (const Difference& one : gradient_differences(layout.gradients(), wanted.gradients))
        part("gradient of " + parameter_name(one.dataset), result_.gradients, one.worst, tolerance_);
    }
    for (const Difference& one : weight_differences(layout.weights(), wanted.weights, found.learning_rate))
      part("weight " + parameter_name(one.dataset), result_.weights, one.worst, kUpdateTolerance);
  }

 private:
  void part(std::string what, double& worst, double difference, double allowed) {
    raise(worst, difference);
    if (difference <= allowed || (!result_.differences.empty() && result_.differences.front().step != step_)) return;
    result_.differences.push_back({step_, std::move(what), difference});
  }

  double tolerance_;
  ProofResult& result_;
  Count step_ = 0;
};

// The same on all ranks: the worst numbers, and the differences of the rank that differed first.
void share(Communicator& world, ProofResult& result) {
  for (double* number : {&result.losses, &result.norms, &result.gradients, &result.weights, &result.curve})
    *number = all_reduce_value(world, *number, ReduceOp::max);
  const Count none = std::numeric_limits<Count>::max();
  const Count own = result.differences.empty() ? none : result.differences.front().step;
  const Count first = -all_reduce_value(world, -own, ReduceOp::max);
  if (first == none) return;
  const int teller = world.size() - all_reduce_value(world, own == first ? world.size() - world.rank() : 0, ReduceOp::max);
  std::string text;
  for (const StepDifference& one : result.differences) text += fmt::format("{:.17g} {}\n", one.difference, one.what);
  text = broadcast_text(world, text, teller);
  result.differences.clear();
  for (const std::string& line : split(text, '\n')) {
    const std::size_t space = line.find(' ');
    result.differences.push_back({first, line.substr(space + 1), std::stod(line.substr(0, space))});
  }
}

}  // namespace

Tolerance proof_tolerance(const PrecisionSection& precision) {
  if (precision.policy == "fp32")
    return {1e-5, "fp32 sums of a few hundred terms in another order differ by a few 1e-7 of the largest"};
  // One last bit of bf16 in 16 decides to which of two neighbours an element is rounded in e4m3, and those are 2^-3 apart.
  if (precision.policy == "fp8")
    return {5e-2,
            "operands rounded to 8 bits (3 or 2 of mantissa), by scales of each rank's own tensors: some parts in a hundred"};
  return {1e-2, "operands rounded to " + precision.policy + " and summed in another order: about one part in a hundred"};
}

std::vector<double> losses_of_one_rank(const RunConfig& run, const RunData& data, Communicator& world, Count steps) {
  std::vector<double> losses(static_cast<std::size_t>(steps));
  fail_together(world, "running the steps on one rank", [&] {
    if (world.rank() != 0) return;
    const std::unique_ptr<Communicator> self = make_self_communicator("one rank");
    ProofRun alone(reference_config(run), data, *self);
    for (Count step = 0; step < steps; ++step) losses[static_cast<std::size_t>(step)] = alone.step(step).loss;
  });
  broadcast(world, std::span<double>(losses), 0);
  return losses;
}

ProofResult prove(const RunConfig& run, const Layout& layout, const RunData& data, Communicator& world,
                  const std::vector<double>& curve, const Tolerance& tolerance, const AfterStep& after_step) {
  const std::unique_ptr<Communicator> group = world.split(world.rank() < layout.ranks ? 0 : -1, world.rank(), "layout");
  ProofResult result;
  if (group) {
    ProofRun in_layout(layout.config, data, *group);
    OneRankBeside beside(run, data, *group);
    StepComparison comparison(tolerance, result);
    for (std::size_t s = 0; s < curve.size(); ++s) {
      const auto step = static_cast<Count>(s);
      const StepResult found = in_layout.step(step);
      if (after_step) after_step(step, in_layout.train_step(), found);
      comparison.compare(step, in_layout, found, beside.step(step, in_layout, found.skipped));
      raise(result.curve, relative(found.loss, curve[s]));
    }
  }
  share(world, result);
  return result;
}

}  // namespace cohort
