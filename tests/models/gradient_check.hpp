// Gradients of a model against central finite differences of its double-precision reference, and against each other.
#pragma once

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "model_problem.hpp"

namespace cohort::test {

/// What an error in a gradient is measured against: the largest element of the tensor's gradient, but at least a part,
/// `of_unit`, of the largest in its unit. Some gradients are zero by symmetry and come out as the rounding of terms that cancel:
/// that of a key's bias, which moves all scores of a query alike, and those of queries and keys where there is one token to look
/// at.
inline double gradient_scale_of(const Model& model, const Weights& gradients, const std::string& name, double of_unit = 0.01) {
  double scale = largest(gradients.at(name));
  for (const Unit& unit : model.units()) {
    double in_unit = 0.0;
    bool member = false;
    for (const Parameter* parameter : unit.parameters) {
      in_unit = std::max(in_unit, largest(gradients.at(parameter->name)));
      member = member || parameter->name == name;
    }
    if (member) scale = std::max(scale, of_unit * in_unit);
  }
  return scale;
}

/// Relative to gradient_scale_of: two sums of the same fp32 terms in another order. The terms number some hundreds and pass
/// through some ten further ops; each contributes ops::sum_error, 2e-6 or so, with random signs: 6e-6, and the worst of thousands
/// of elements is three times that. (1.1e-5 was seen with 512-bit vectors.)
inline constexpr double kReordered = 2e-5;

/// How far a pass in 16 bits may be from the exact one, from the same weights. Each activation, and each gradient of one, is
/// rounded: by at most u = 2^-9 of it in bf16 and 2^-12 in fp16, which is u / sqrt(3) on average. Some twenty roundings in a row
/// lead to a logit and as many again to a gradient, with random signs: deviations of 2.6 u and 3.7 u, relative to the largest of
/// their kind, of which the worst of thousands of elements is four off. For logits half as much again is allowed, 16 u; for
/// gradients three times as much, 48 u, since there softmax magnifies the rounding of a score by the score's size. Terms that
/// cancel, see gradient_scale_of, leave the roundings of larger numbers here: a tenth of the unit's.
struct Rounding {
  explicit Rounding(DType type) : u(type == DType::bf16 ? 0x1p-9 : 0x1p-12), logit(16.0 * u), gradient(48.0 * u) {}
  double u;
  double logit;     // relative to the largest
  double gradient;  // relative to gradient_scale_of with of_unit
  double of_unit = 0.1;
  /// The mean loss of so many targets: errors with random signs average out.
  double loss(Count targets) const { return logit / std::sqrt(static_cast<double>(targets)); }
};

/// Whether two flat gradients of a model are the same but for the order of summing. `of_unit`: see gradient_scale_of.
inline ::testing::AssertionResult same_to_rounding(const Model& model, const Tensor& actual, const Tensor& expected,
                                                   double tolerance = kReordered, double of_unit = 0.01) {
  const Weights a = by_name(model.parameters(), actual);
  const Weights b = by_name(model.parameters(), expected);
  for (const auto& [name, values] : b) {
    const auto result = ops::close(a.at(name), values, Array{tolerance * gradient_scale_of(model, b, name, of_unit)});
    if (!result) return ::testing::AssertionFailure() << name << ": " << result.message();
  }
  return ::testing::AssertionSuccess();
}

/// Compares some elements of every tensor with (loss(w + h) - loss(w - h)) / 2h of the reference: the largest, and others at
/// random (all of a small tensor). In double precision, h = 1e-5 leaves an error of about h^2 times the third derivative and
/// 1e-16 / h times the loss: 1e-9 here.
class GradientCheck {
 public:
  /// Relative to gradient_scale_of: the rounding of fp32. Each of some thirty ops of forward and backward contributes
  /// ops::sum_error, 2e-6 or so, with random signs: 1e-5; and three times as much where softmax or a norm magnifies it.
  static constexpr double kTolerance = 3e-5;

  GradientCheck(const ModelSection& config, const Model& model, const ModelInput& input, std::size_t elements_of_tensor = 24)
      : model_(model),
        input_(input),
        elements_of_tensor_(elements_of_tensor),
        reference_(config, by_name(model.parameters(), model.parameters().flat_values())) {}

  ::testing::AssertionResult accepts(const Tensor& flat) {
    const Weights gradients = by_name(model_.parameters(), flat);
    for (const auto& [name, gradient] : gradients) {
      const double tolerance = kTolerance * gradient_scale_of(model_, gradients, name);
      for (const std::size_t i : elements(gradient)) {
        const double expected = difference(name, i);
        if (!(std::abs(gradient[i] - expected) <= tolerance)) {  // true for NaN
          return ::testing::AssertionFailure()
                 << name << "[" << i << "] is " << gradient[i] << ", by differences " << expected << " +- " << tolerance;
        }
      }
    }
    return ::testing::AssertionSuccess();
  }

 private:
  std::set<std::size_t> elements(const Array& gradient) const {
    std::set<std::size_t> chosen;
    std::size_t top = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      if (!(std::abs(gradient[i]) <= std::abs(gradient[top]))) top = i;
      if (gradient.size() <= elements_of_tensor_) chosen.insert(i);
    }
    chosen.insert(top);
    if (gradient.size() > elements_of_tensor_) {
      const auto random = ops::random_indices(static_cast<Count>(elements_of_tensor_), static_cast<Count>(gradient.size()), 77);
      chosen.insert(random.begin(), random.end());
    }
    return chosen;
  }

  double difference(const std::string& name, std::size_t i) {
    const auto [known, is_new] = differences_.try_emplace({name, i}, 0.0);
    if (is_new) {
      constexpr double kStep = 1e-5;
      double& weight = reference_.weights.at(name)[i];
      const double before = weight;
      weight = before + kStep;
      const double above = reference_.loss(input_);
      weight = before - kStep;
      const double below = reference_.loss(input_);
      weight = before;
      known->second = (above - below) / (2.0 * kStep);
    }
    return known->second;
  }

  const Model& model_;
  ModelInput input_;
  std::size_t elements_of_tensor_;
  ReferenceModel reference_;
  std::map<std::pair<std::string, std::size_t>, double> differences_;  // already computed, for the next call
};

}  // namespace cohort::test
