#include "labs/06_memory/memory_activations.hpp"

#include <algorithm>
#include <cmath>
#include <cohort/lab06_memory.hpp>
#include <limits>
#include <set>
#include <vector>

#include "base/text.hpp"
#include "labs/grading/guarded.hpp"

namespace cohort::labs::lab06_memory {
namespace {

// A chain that computes nothing, but knows what is held, and how often a layer has computed.
class CountingChain : public Chain {
 public:
  explicit CountingChain(int layers) : forwards_(static_cast<std::size_t>(layers), 0), next_(layers - 1), held_{0} {}

  int layers() const override { return static_cast<int>(forwards_.size()); }
  void forward(int layer) override {
    check_layer(layer, "forward");
    if (!held_.contains(layer)) reject("forward({}) needs activation {}, which is not held", layer, layer);
    ++forwards_[static_cast<std::size_t>(layer)];
    hold(layer + 1);
  }
  void backward(int layer) override {
    check_layer(layer, "backward");
    if (computed_ < layers()) reject("backward({}) before activation {}, from which the loss is", layer, layers());
    if (layer != next_)
      reject("backward({}), but {}", layer, next_ < 0 ? "all layers had theirs" : fmt::format("layer {} comes next", next_));
    if (!held_.contains(layer)) reject("backward({}) needs activation {}, which is not held", layer, layer);
    --next_;
  }
  void drop(int activation) override {
    if (held_.erase(activation) == 0) reject("drop({}), which is not held", activation);
  }

  void check(int every) const {
    const int layers = this->layers(), allowed = (layers + every - 1) / every + every;
    if (next_ >= 0) reject("it returns before the backward of layer {}", next_);
    if (most_ > allowed)
      reject("{} activations are held at the same time{}: ceil({} / {}) + {} = {} are enough", most_,
             most_ == layers + 1 ? ", so all of them" : "", layers, every, every, allowed);
    for (std::size_t layer = 0; layer < forwards_.size(); ++layer) {
      if (forwards_[layer] > 2)
        reject("layer {} computes {} times: what a segment computes again serves its whole backward", layer, forwards_[layer]);
    }
    for (const int activation : held_) {
      if (activation != 0) reject("activation {} is still held when it returns", activation);
    }
  }

 private:
  void check_layer(int layer, const char* call) const {
    if (layer < 0 || layer >= layers()) reject("{}({}), but layers go from 0 to {}", call, layer, layers() - 1);
  }
  void hold(int activation) {
    held_.insert(activation);
    computed_ = std::max(computed_, activation);
    most_ = std::max(most_, static_cast<int>(held_.size()));
  }

  std::vector<int> forwards_;
  int next_;  // backward
  int computed_ = 0, most_ = 1;
  std::set<int> held_;
};

}  // namespace

void grade_recompute(const Library& library, Grading& grading) {
  auto* recompute = library.function<void(Chain&, int)>("recompute_segments");
  for (const int layers : {12, 1, 2, 16, 7, 100}) {
    for (const int every : {3, 1, 2, 4, 5, 10, layers, layers + 3}) {
      grading.begin(fmt::format("{}, every = {}", counted(layers, "layer"), every));
      CountingChain chain(layers);
      recompute(chain, every);
      chain.check(every);
    }
  }
}

namespace {

struct Batches {
  std::vector<std::vector<float>> gradients;
  std::vector<MicroBatch> micro_batches;
};

Batches batches_of(const std::vector<std::int64_t>& tokens, std::size_t elements) {
  Batches batches;
  for (std::size_t b = 0; b < tokens.size(); ++b) {
    std::vector<float>& gradient = batches.gradients.emplace_back(elements);
    for (std::size_t i = 0; i < elements; ++i)
      gradient[i] = tokens[b] == 0 ? std::nanf("") : static_cast<float>((i + 2 * b) % 5) - 1.5f;
  }
  for (std::size_t b = 0; b < tokens.size(); ++b) {
    const double loss = tokens[b] == 0 ? std::numeric_limits<double>::quiet_NaN() : 2.0 + static_cast<double>(b);
    batches.micro_batches.push_back({tokens[b], loss, batches.gradients[b]});
  }
  return batches;
}

struct Mean {
  double by_tokens = 0.0, by_batches = 0.0, sum = 0.0;
};

Mean mean_of(const Batches& batches, const std::function<double(const MicroBatch&)>& value) {
  Mean mean;
  double tokens = 0.0;
  for (const MicroBatch& batch : batches.micro_batches) {
    if (batch.tokens == 0) continue;
    tokens += static_cast<double>(batch.tokens);
    mean.by_tokens += static_cast<double>(batch.tokens) * value(batch);
    mean.sum += value(batch);
  }
  mean.by_tokens = tokens > 0.0 ? mean.by_tokens / tokens : 0.0;
  mean.by_batches = mean.sum / std::max(1.0, static_cast<double>(batches.micro_batches.size()));
  return mean;
}

void check_mean(const std::string& what, double found, const Mean& mean) {
  const auto is = [&](double value) { return std::fabs(found - value) <= 1e-5; };  // fp32 sums of values below 10
  if (is(mean.by_tokens)) return;
  if (std::isnan(found)) reject("{} is NaN: a micro-batch without tokens must not count", what);
  reject("{} is {:g}{}", what, found,
         is(mean.by_batches) ? ", the mean of the micro-batches' means: those with fewer tokens count too much"
         : is(mean.sum)      ? ", the sum of the micro-batches' means: as if the batch were that many times larger"
                             : ", not the mean over all tokens");
}

void check_accumulate(double (*accumulate)(std::span<const MicroBatch>, std::span<float>),
                      const std::vector<std::int64_t>& tokens, std::size_t elements) {
  const Batches batches = batches_of(tokens, elements);
  Guarded gradient(std::vector<float>(elements, 3.0f));  // of the step before
  const double loss = accumulate(batches.micro_batches, gradient.span());
  gradient.check("gradient");
  for (std::size_t i = 0; i < elements; ++i) {
    const Mean mean = mean_of(batches, [&](const MicroBatch& batch) { return batch.gradient[i]; });
    if (std::fabs(gradient[i] - mean.by_tokens - 3.0) <= 1e-5) reject("gradient {} still has what was in it before", i);
    check_mean(fmt::format("gradient {}", i), gradient[i], mean);
  }
  check_mean("the loss", loss, mean_of(batches, [](const MicroBatch& batch) { return batch.loss; }));
}

}  // namespace

void grade_accumulate(const Library& library, Grading& grading) {
  auto* accumulate = library.function<double(std::span<const MicroBatch>, std::span<float>)>("accumulate");
  const std::vector<std::vector<std::int64_t>> cases{{8, 8}, {100, 20}, {1, 1000, 30}, {5}, {7, 0, 3}, {0, 0}, {}, {0}};
  for (const std::vector<std::int64_t>& tokens : cases) {
    for (const std::size_t elements : {std::size_t{6}, std::size_t{1}, std::size_t{0}}) {
      grading.begin(fmt::format("micro-batches of {} tokens, {}",
                                tokens.empty() ? "no" : fmt::format("{}", fmt::join(tokens, ", ")),
                                counted(static_cast<Count>(elements), "parameter")));
      check_accumulate(accumulate, tokens, elements);
    }
  }
}

}  // namespace cohort::labs::lab06_memory
