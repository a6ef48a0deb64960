#include "labs/02_data_parallel/learners_strategies.hpp"

#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"
#include "parallel/data/bucketed.hpp"
#include "parallel/strategy.hpp"

namespace cohort::labs::lab02_data_parallel {
namespace {

// Replicas on real ranks.
class GroupReplicas : public lab::Replicas {
 public:
  explicit GroupReplicas(Communicator& group) : group_(group) {}

  int rank() const override { return group_.rank(); }
  int ranks() const override { return group_.size(); }
  void all_reduce(std::span<float> data) override { cohort::all_reduce(group_, data, ReduceOp::sum); }
  int begin_all_reduce(std::span<float> data) override {
    requests_.push_back(group_.all_reduce_async(data.data(), static_cast<Count>(data.size()), DType::f32, ReduceOp::sum));
    waited_.push_back(false);
    return static_cast<int>(requests_.size()) - 1;
  }
  void wait(int request) override {
    const auto index = static_cast<std::size_t>(request);
    if (request < 0 || index >= requests_.size())
      throw SharedError(ExitCode::usage,
                        fmt::format("your code waits for request {}: begin_all_reduce has not returned it", request));
    requests_[index].wait();
    waited_[index] = true;
  }

  /// MPI moves data only inside its calls: this is what lets them overlap with backward.
  void move_on() {
    for (Request& request : requests_) request.test();
  }
  /// Before the optimizer. What is still under way would change gradients while they are read.
  void end_step() {
    const auto left = std::count(waited_.begin(), waited_.end(), false);
    for (Request& request : requests_) request.wait();
    requests_.clear();
    waited_.clear();
    if (left > 0)
      throw SharedError(ExitCode::usage,
                        fmt::format("your code waits for all but {} of its all-reduces before the optimizer", left));
  }

 private:
  Communicator& group_;
  std::vector<Request> requests_;
  std::vector<bool> waited_;
};

// All ranks are in the same state, and throw alike.
template <class Call>
void call_learners(const std::string& name, const Call& call) {
  try {
    call();
  } catch (const lab::NotWritten&) {
    throw SharedError(ExitCode::usage, name + " is not written yet");
  }
}

using NaiveDataParallel = void(lab::Replicas&, std::span<const std::span<float>>, std::size_t);

class LearnersNaive : public DataParallel {
 public:
  LearnersNaive(Model& model, Communicator& group, NaiveDataParallel* naive) : DataParallel(model, group), naive_(naive) {}
  std::string_view name() const override { return "naive"; }

 protected:
  // A rank's gradient is its part of a sum here. The learner's function makes means, of as many tokens on each rank.
  void finish_gradients(StepTimers& timers) override {
    const auto scope = timers.scope(Phase::communication);
    std::vector<std::span<float>> gradients;
    for (const Parameter* parameter : model_.parameters().trained()) {
      gradients.push_back(parameter->gradient.span<float>());
      for (float& element : gradients.back()) element *= static_cast<float>(group_.size());
    }
    GroupReplicas replicas(group_);
    call_learners("naive_data_parallel", [&] { naive_(replicas, gradients, 1); });
    replicas.end_step();
  }

 private:
  NaiveDataParallel* naive_;
};

using OnGradientReady = void(lab::Replicas&, std::span<float>, bool, std::vector<int>&);
using BeforeOptimizer = void(lab::Replicas&, std::vector<int>&);

class LearnersHooks : public DataParallel {
 public:
  LearnersHooks(Model& model, Communicator& group, OnGradientReady* ready, BeforeOptimizer* before_optimizer)
      : DataParallel(model, group), ready_(ready), before_optimizer_(before_optimizer), replicas_(group) {}
  std::string_view name() const override { return "hooks"; }

  void grad_ready(Parameter& parameter) override {
    const auto scope = timers().scope(Phase::communication);
    call_learners("on_gradient_ready",
                  [&] { ready_(replicas_, parameter.gradient.span<float>(), last_micro_batch(), requests_); });
    replicas_.move_on();
  }

 protected:
  void finish_gradients(StepTimers& timers) override {
    const auto scope = timers.scope(Phase::communication);
    call_learners("before_optimizer", [&] { before_optimizer_(replicas_, requests_); });
    replicas_.end_step();
  }

 private:
  OnGradientReady* ready_;
  BeforeOptimizer* before_optimizer_;
  GroupReplicas replicas_;
  std::vector<int> requests_;
};

using LearnersBuckets = void(std::span<const std::size_t>, std::size_t, std::size_t, std::span<int>);

// Throws what no bucketed all-reduce can do.
std::vector<std::size_t> checked(const std::vector<int>& buckets) {
  std::vector<std::size_t> checked;
  int last = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const bool fits = i == 0 ? buckets[i] == 0 : buckets[i] == last || buckets[i] == last + 1;
    if (!fits)
      throw SharedError(ExitCode::usage,
                        fmt::format("assign_buckets puts gradient {} into bucket {}: `cohort lab check 2.6`", i, buckets[i]));
    last = buckets[i];
    checked.push_back(static_cast<std::size_t>(last));
  }
  return checked;
}

std::vector<std::size_t> assigned(LearnersBuckets* assign, std::span<const Bytes> gradients, Bytes limit) {
  const std::vector<std::size_t> bytes(gradients.begin(), gradients.end());
  std::vector<int> buckets(bytes.size(), -1);
  const Bytes first_limit = std::min(limit, static_cast<Bytes>(kMiB));  // as DistributedDataParallel has it
  call_learners("assign_buckets",
                [&] { assign(bytes, static_cast<std::size_t>(first_limit), static_cast<std::size_t>(limit), buckets); });
  return checked(buckets);
}

}  // namespace

void use_naive(const Library& library) {
  auto* naive = library.function<NaiveDataParallel>("naive_data_parallel");
  use_own_strategy("naive", [library, naive](const ParallelSection&, Model& model, Communicator& group) {
    return std::make_unique<LearnersNaive>(model, group, naive);
  });
}

void use_hooks(const Library& library) {
  auto* ready = library.function<OnGradientReady>("on_gradient_ready");
  auto* before_optimizer = library.function<BeforeOptimizer>("before_optimizer");
  use_own_strategy("hooks", [library, ready, before_optimizer](const ParallelSection&, Model& model, Communicator& group) {
    return std::make_unique<LearnersHooks>(model, group, ready, before_optimizer);
  });
}

void use_buckets(const Library& library) {
  auto* assign = library.function<LearnersBuckets>("assign_buckets");
  use_own_strategy("bucketed", [library, assign](const ParallelSection& config, Model& model, Communicator& group) {
    const auto limit = static_cast<Bytes>(config.bucket_mib * static_cast<double>(kMiB));
    return std::make_unique<Bucketed>(
        model, group, [assign, limit](std::span<const Bytes> gradients) { return assigned(assign, gradients, limit); });
  });
}

}  // namespace cohort::labs::lab02_data_parallel
