// A training step, on a model whose gradients are made up: each micro-batch has those of its mean loss.
#include <array>
#include <cmath>
#include <cohort/lab01_transformer.hpp>
#include <limits>

#include "base/text.hpp"
#include "labs/01_transformer/lab01_cases.hpp"
#include "labs/01_transformer/lab01_grades.hpp"

namespace cohort::labs::lab01_transformer {
namespace {

struct StepCase {
  std::string_view words;
  std::vector<std::int64_t> tokens;  // of each micro-batch
  double magnitude;                  // of gradients
  double clip;
};

const std::array kStepCases{StepCase{"one micro-batch, no clipping", {8}, 1.0, 0.0},
                            StepCase{"four micro-batches of 8 tokens, no clipping", {8, 8, 8, 8}, 1.0, 0.0},
                            StepCase{"micro-batches of 5, 1 and 10 tokens, no clipping", {5, 1, 10}, 1.0, 0.0},
                            StepCase{"micro-batches of 5, 0 and 10 tokens, no clipping", {5, 0, 10}, 1.0, 0.0},
                            StepCase{"two micro-batches, clipped to 0.5", {8, 8}, 1.0, 0.5},
                            StepCase{"micro-batches of 9 and 2 tokens, clipped to 1", {9, 2}, 4.0, 1.0},
                            StepCase{"gradients below clip_norm = 1000", {8, 8}, 1.0, 1000.0},
                            StepCase{"gradients of zero, clip_norm = 1", {8, 8}, 0.0, 1.0},
                            StepCase{"gradients of 1e25, clipped to 1", {8}, 1e25, 1.0}};
constexpr std::size_t kGradients = 13;

class MadeUpTraining : public Training {
 public:
  explicit MadeUpTraining(const StepCase& step) : step_(step), gradients_(std::vector<float>(kGradients, 77.0f)) {}

  int micro_batches() const override { return static_cast<int>(step_.tokens.size()); }
  std::int64_t tokens(int m) const override { return step_.tokens[index(m)]; }
  void zero_gradients() override {
    if (ran_ > 0) reject("zero_gradients() is called between micro-batches, whose gradients are to add up");
    zeroed_ = true;
    for (float& gradient : gradients_.span()) gradient = 0.0f;
  }
  double forward_backward(int m, double scale) override {
    if (tokens(m) == 0) reject("micro-batch {} is run, which has no token that counts: the mean of its loss is NaN", m);
    if (!zeroed_) reject("forward_backward() adds to what the step before has left in the gradients");
    if (steps_ > 0) reject("micro-batch {} is run after optimizer_step(): it belongs to the same step", m);
    ++ran_;
    const std::vector<float> mean = gradients_of(m);
    for (std::size_t i = 0; i < kGradients; ++i) gradients_.span()[i] += static_cast<float>(scale * mean[i]);
    return loss_of(m);
  }
  std::span<float> gradients() override { return gradients_.span(); }
  void optimizer_step(double learning_rate) override {
    ++steps_;
    learning_rate_ = learning_rate;
    stepped_.assign(gradients_.span().begin(), gradients_.span().end());
  }

  double loss_of(int m) const { return 2.0 + 0.5 * m; }
  std::vector<float> gradients_of(int m) const {
    return normal_values(kGradients, 60 + static_cast<std::uint64_t>(m), step_.magnitude);
  }

  /// The mean over the step of losses and of gradients, each micro-batch by its weight.
  double loss(const Doubles& weights) const {
    double sum = 0.0;
    for (int m = 0; m < micro_batches(); ++m) sum += weights[index(m)] * loss_of(m);
    return sum;
  }
  Doubles gradients(const Doubles& weights, double factor) const {
    Doubles sum(kGradients);
    for (int m = 0; m < micro_batches(); ++m) {
      const std::vector<float> mean = gradients_of(m);
      for (std::size_t i = 0; i < kGradients; ++i) sum[i] += factor * weights[index(m)] * mean[i];
    }
    return sum;
  }

  int steps() const { return steps_; }
  double learning_rate() const { return learning_rate_; }
  Guarded stepped() const { return Guarded(stepped_); }
  const Guarded& memory() const { return gradients_; }

 private:
  static std::size_t index(int m) { return static_cast<std::size_t>(m); }

  const StepCase& step_;
  Guarded gradients_;
  bool zeroed_ = false;
  int ran_ = 0, steps_ = 0;
  double learning_rate_ = 0.0;
  std::vector<float> stepped_;
};

double norm_of(const Doubles& values) {
  double squares = 0.0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// By tokens; alike for each micro-batch that has any, which is the mean of means; and 1 for each.
struct Weights {
  Doubles by_tokens, alike, of_all, one;
};

Weights weights_of(const StepCase& step) {
  double tokens = 0.0, used = 0.0;
  for (const std::int64_t count : step.tokens) tokens += static_cast<double>(count), used += count > 0 ? 1.0 : 0.0;
  Weights weights;
  for (const std::int64_t count : step.tokens) {
    const double present = count > 0 ? 1.0 : 0.0;
    weights.by_tokens.push_back(static_cast<double>(count) / tokens);
    weights.alike.push_back(present / used);
    weights.of_all.push_back(present / static_cast<double>(step.tokens.size()));
    weights.one.push_back(present);
  }
  return weights;
}

constexpr std::string_view kMeanOfMeans =
    "that is the mean of the micro-batches' means: one with few tokens weighs as much as one with many";
constexpr std::string_view kSum = "the micro-batches' means are added up, not averaged";

void check_clipping(const StepCase& step, const MadeUpTraining& training, const Weights& weights, double factor) {
  const double clipped = step.clip > 0.0 ? step.clip / norm_of(training.gradients(weights.by_tokens, 1.0)) : 1.0;
  check_values("at optimizer_step(), gradients", training.stepped(), kGradients, training.gradients(weights.by_tokens, factor),
               1e-5,
               {{training.gradients(weights.alike, factor), kMeanOfMeans},
                {training.gradients(weights.of_all, factor), kMeanOfMeans},
                {training.gradients(weights.one, factor), kSum},
                {training.gradients(weights.by_tokens, 1.0), "they have not been clipped"},
                {training.gradients(weights.by_tokens, clipped), "clipping makes gradients smaller, never larger"}});
}

void check_step(const Library& library, const StepCase& step) {
  MadeUpTraining training(step);
  constexpr double kRate = 0.125;
  const StepOutcome found = library.function<decltype(train_step)>("train_step")(training, kRate, step.clip);
  training.memory().check("gradients");
  if (training.steps() != 1) reject("optimizer_step() was called {} times, not once", training.steps());
  if (training.learning_rate() != kRate)
    reject("optimizer_step() got the learning rate {:g}, not {:g}", training.learning_rate(), kRate);
  const Weights weights = weights_of(step);
  check_number("the loss", found.loss, training.loss(weights.by_tokens), 1e-9,
               {{training.loss(weights.alike), kMeanOfMeans},
                {training.loss(weights.of_all), kMeanOfMeans},
                {training.loss(weights.one), kSum}});
  const double norm = norm_of(training.gradients(weights.by_tokens, 1.0));
  const double factor = step.clip > 0.0 && norm > step.clip ? step.clip / norm : 1.0;
  if (std::isinf(found.gradient_norm)) reject("gradient_norm is infinite: the squares of large gradients overflow fp32");
  check_clipping(step, training, weights, factor);
  check_number("gradient_norm", found.gradient_norm, norm, 1e-5,
               {{norm * factor, "that is the norm after clipping"}, {norm * norm, "that is its square"}});
}

}  // namespace

void grade_train_step(const Library& library, Grading& grading) {
  for (const StepCase& step : kStepCases) {
    grading.begin(std::string(step.words));
    check_step(library, step);
  }
}

}  // namespace cohort::labs::lab01_transformer
