// What surrounds the model: initial values, groups of parameters, the schedule, the step, and derivatives by differences.
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab01_transformer.hpp>
#include <memory>
#include <numbers>
#include <string>

#include "base/text.hpp"
#include "labs/01_transformer/lab01_cases.hpp"
#include "labs/01_transformer/lab01_grades.hpp"

namespace cohort::labs::lab01_transformer {
namespace {

// The names live as long as the program.
std::vector<ModelTensor> tensors_of_model(int layers, bool biases) {
  static std::vector<std::unique_ptr<std::string>> names;
  const auto tensor = [&](std::string name, std::vector<std::int64_t> shape) {
    names.push_back(std::make_unique<std::string>(std::move(name)));
    return ModelTensor{*names.back(), std::move(shape)};
  };
  std::vector<ModelTensor> all{tensor("embedding.weight", {96, 8})};
  const auto with_bias = [&](const std::string& name, std::vector<std::int64_t> shape) {
    const std::int64_t rows = shape.front();
    all.push_back(tensor(name + ".weight", std::move(shape)));
    if (biases) all.push_back(tensor(name + ".bias", {rows}));
  };
  if (biases) all.push_back(tensor("positions.weight", {16, 8}));
  for (int layer = 0; layer < layers; ++layer) {
    const std::string block = fmt::format("blocks.{}.", layer);
    with_bias(block + "norm1", {8});
    for (const char* part : {"query", "key", "value", "output"}) with_bias(fmt::format("{}attention.{}", block, part), {8, 8});
    with_bias(block + "norm2", {8});
    if (!biases) with_bias(block + "feed_forward.gate", {32, 8});
    with_bias(block + "feed_forward.up", {32, 8});
    with_bias(block + "feed_forward.down", {8, 32});
  }
  with_bias("norm", {8});
  if (!biases) all.push_back(tensor("head.weight", {96, 8}));
  return all;
}

void check_initial(const ModelTensor& tensor, const InitialValues& found, int layers) {
  const bool bias = tensor.name.ends_with(".bias"), norm = !bias && tensor.shape.size() == 1;
  const bool residual = tensor.name.ends_with("attention.output.weight") || tensor.name.ends_with("feed_forward.down.weight");
  const double mean = norm ? 1.0 : 0.0;
  if (found.mean != mean)
    reject("{}: the mean is {:g}, not {:g}{}", tensor.name, found.mean, mean,
           norm                                                 ? ": a norm that begins at 0 lets nothing through"
           : tensor.name.find("norm") != std::string_view::npos ? ": it is the bias of a norm, and its name says so at the end"
                                                                : "");
  const std::string deviation = fmt::format("{}: the deviation", tensor.name);
  if (bias || norm) {
    if (found.deviation != 0.0) reject("{} is {:g}: biases and norms begin at a constant", deviation, found.deviation);
    return;
  }
  if (!residual) return check_number(deviation, found.deviation, 0.02, 1e-9);
  const double n = layers;
  check_number(deviation, found.deviation, 0.02 / std::sqrt(2.0 * n), 1e-9,
               {{0.02, "it writes to the residual stream, into which every layer adds"},
                {0.02 / std::sqrt(n), "each layer adds to the residual stream twice"},
                {0.02 / (2.0 * n), "variances add up, deviations do not: that takes a root"},
                {0.02 * std::sqrt(2.0 * n), "it must become smaller with more layers"}});
}

}  // namespace

void grade_init_weights(const Library& library, Grading& grading) {
  for (const int layers : {2, 1, 12}) {
    for (const bool biases : {false, true}) {
      grading.begin(fmt::format("{}, {} biases", counted(layers, "layer"), biases ? "with" : "without"));
      const std::vector<ModelTensor> tensors = tensors_of_model(layers, biases);
      std::vector<InitialValues> initial(tensors.size(), {-1.0, -1.0});
      library.function<decltype(init_weights)>("init_weights")(initial, tensors, layers);
      for (std::size_t i = 0; i < tensors.size(); ++i) check_initial(tensors[i], initial[i], layers);
    }
  }
}

namespace {

std::vector<ModelTensor> tensors_to_group() {
  return {{"embedding.weight", {96, 8}},
          {"blocks.0.norm1.weight", {8}},
          {"blocks.0.attention.query.weight", {8, 8}, false},
          {"blocks.0.attention.query.bias", {8}},
          {"blocks.0.attention.temperature", {}},
          {"blocks.0.normalised_mix.weight", {8, 8}},
          {"blocks.0.bias_table", {4, 4}},
          {"blocks.0.gain", {8}},
          {"convolution.weight", {8, 1, 4}},
          {"norm.weight", {8}, false},
          {"head.weight", {96, 8}}};
}

std::string words_of(const ModelTensor& tensor) {
  return fmt::format("{} of {}", tensor.name, counted(static_cast<Count>(tensor.shape.size()), "dim"));
}

void check_groups(const std::vector<DecayGroup>& groups, const std::vector<ModelTensor>& tensors, double decay) {
  if (groups.size() != 2) reject("there are {} groups: one that decays and one that does not are 2", groups.size());
  std::vector<int> group_of(tensors.size(), -1);
  for (int g = 0; g < 2; ++g) {
    const DecayGroup& group = groups[static_cast<std::size_t>(g)];
    if (group.weight_decay != (g == 0 ? decay : 0.0))
      reject("group {} has the weight decay {:g}: the first has {:g}, the second 0", g, group.weight_decay, decay);
    for (const std::size_t member : group.members) {
      if (member >= tensors.size()) reject("group {} has the member {}, but there are {} tensors", g, member, tensors.size());
      if (group_of[member] != -1)
        reject("{} is in the groups twice: the optimizer would step it twice", words_of(tensors[member]));
      group_of[member] = g;
    }
    if (!std::is_sorted(group.members.begin(), group.members.end()))
      reject("the members of group {} are not in the order of the tensors", g);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ModelTensor& tensor = tensors[i];
    const int expected = !tensor.trained ? -1 : tensor.shape.size() >= 2 ? 0 : 1;
    if (group_of[i] == expected) continue;
    if (!tensor.trained) reject("{} is not trained, but it is in group {}", words_of(tensor), group_of[i]);
    if (group_of[i] == -1) reject("{} is in no group: it would never be updated", words_of(tensor));
    reject("{} is in the group that {}: dims decide, not names", words_of(tensor), expected == 0 ? "does not decay" : "decays");
  }
}

}  // namespace

void grade_parameter_groups(const Library& library, Grading& grading) {
  auto* fill = library.function<decltype(parameter_groups)>("parameter_groups");
  const auto check = [&](const std::string& words, const std::vector<ModelTensor>& tensors) {
    grading.begin(words);
    std::vector<DecayGroup> groups;
    fill(groups, tensors, 0.1);
    check_groups(groups, tensors, 0.1);
  };
  check("GPT-2 with 2 layers", tensors_of_model(2, true));
  check("Llama with 3 layers", tensors_of_model(3, false));
  check("tensors of 0 to 3 dims, some frozen", tensors_to_group());
  check("no tensors", {});
}

namespace {

double half_cosine(double p) { return 0.5 * (1.0 + std::cos(std::numbers::pi * p)); }

void check_rate(const Library& library, const CosineSchedule& s, std::int64_t step) {
  const auto W = static_cast<double>(s.warmup_steps), D = static_cast<double>(s.decay_steps), n = static_cast<double>(step);
  const double fall = s.peak - s.floor;
  const auto from_peak = [&](double p) { return s.floor + fall * half_cosine(p); };
  const double p = (n - 1 - W) / (D - W);
  const double expected = step <= s.warmup_steps ? s.peak * n / W : step > s.decay_steps ? s.floor : from_peak(p);
  const double found = library.function<decltype(cosine_schedule)>("cosine_schedule")(s, step);
  const std::string name = fmt::format("the rate of step {}", step);
  if (step <= s.warmup_steps)
    return check_number(name, found, expected, 1e-9,
                        {{s.peak * (n - 1) / W, "steps count from 1: the first one must not have rate 0"},
                         {s.floor + fall * n / W, "the warm-up begins at 0, not at the floor"},
                         {s.peak * (n + 1) / W, "step 1 has peak / W"},
                         {s.peak, "there is no warm-up: the rate rises over the first steps"},
                         {from_peak(n / D), "there is no warm-up: the rate rises over the first steps"},
                         {from_peak((n - 1) / D), "there is no warm-up: the rate rises over the first steps"},
                         {s.peak * half_cosine(n / D), "there is no warm-up: the rate rises over the first steps"}});
  if (step > s.decay_steps)
    return check_number(name, found, expected, 1e-9,
                        {{from_peak(p), "behind step D the cosine would rise again: the rate stays at the floor"}});
  check_number(
      name, found, expected, 1e-9,
      {{s.peak * half_cosine(p), "the cosine falls to the floor, not to 0"},
       {s.floor + s.peak * half_cosine(p), "the cosine starts above the peak: it spans what lies between floor and peak"},
       {from_peak((n - W) / (D - W)), "step W + 1 still has the peak: p is one step too far"},
       {from_peak((n - 1) / D), "the cosine has begun at step 1, under the warm-up"},
       {from_peak(n / D), "the cosine has begun at step 1, under the warm-up"},
       {s.floor + fall * std::cos(std::numbers::pi / 2.0 * p), "that is a quarter of a cosine"},
       {s.peak - fall * p, "that is a straight line"}});
}

}  // namespace

void grade_cosine_schedule(const Library& library, Grading& grading) {
  for (const CosineSchedule& schedule : std::array<CosineSchedule, 5>{
           {{20, 300, 3e-3, 3e-4}, {0, 10, 1.0, 0.1}, {1, 2, 0.5, 0.0}, {10, 10, 1e-3, 1e-4}, {3, 50, 2e-2, 2e-2}}}) {
    for (std::int64_t step = 1; step <= schedule.decay_steps + 40; ++step) {
      grading.begin(fmt::format("warm-up of {}, decay until {}, peak {}, floor {}", schedule.warmup_steps, schedule.decay_steps,
                                schedule.peak, schedule.floor));
      check_rate(library, schedule, step);
    }
  }
}

namespace {

double sum_of_logarithms(std::span<const double> x) {
  double sum = 0.0;
  for (const double value : x) sum += std::log(std::fabs(value));
  return sum;
}

}  // namespace

void grade_numeric_derivative(const Library& library, Grading& grading) {
  auto* derive = library.function<decltype(numeric_derivative)>("numeric_derivative");
  const Doubles values{0.7, 1e-3, 30.0, 1e3, -0.2, 5.0};
  for (const std::size_t count : {std::size_t{1}, values.size()}) {
    for (std::size_t i = 0; i < count; ++i) {
      grading.begin(
          fmt::format("a sum of logarithms of {}, x[{}] = {:g}", counted(static_cast<Count>(count), "element"), i, values[i]));
      Doubles x(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
      const Doubles before = x;
      const double found = derive(sum_of_logarithms, x, i), expected = 1.0 / before[i];
      for (std::size_t e = 0; e < count; ++e) {
        if (x[e] != before[e]) reject("x[{}] is {:.17g} afterwards, but it was {:.17g}", e, x[e], before[e]);
      }
      check_number(
          "the derivative", found, expected, 1e-6,
          {{2.0 * expected, "the two points are 2h apart, not h"}, {0.5 * expected, "the two points are h apart, not 2h"}});
    }
  }
}

}  // namespace cohort::labs::lab01_transformer
