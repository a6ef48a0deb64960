// Hooks are right if each gradient's all-reduce begins in its own hook of the last micro-batch, nobody waits before backward has
// ended, and all are waited for before the optimizer.
#include <algorithm>
#include <cohort/lab02_data_parallel.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "labs/02_data_parallel/data_parallel_graders.hpp"
#include "labs/02_data_parallel/simulated_replicas.hpp"
#include "labs/grading/guarded.hpp"

namespace cohort::labs::lab02_data_parallel {
namespace {

using OnGradientReady = void(lab::Replicas&, std::span<float>, bool, std::vector<int>&);
using BeforeOptimizer = void(lab::Replicas&, std::vector<int>&);

struct Hooks {
  OnGradientReady* on_gradient_ready;
  BeforeOptimizer* before_optimizer;
};

struct Shape {
  int ranks;
  int micro_batches;
  std::vector<std::size_t> gradients;  // elements, in the order of backward
};

// What a micro-batch adds to an element: small whole numbers, whose sums are exact in fp32.
float added(int step, int micro_batch, int rank, std::size_t gradient, std::size_t element) {
  return static_cast<float>(1 + step + 3 * micro_batch + 7 * rank + 5 * static_cast<int>(gradient) +
                            static_cast<int>(element % 11));
}

// Watches what the hooks of a rank do, and when.
class WatchedReplicas : public lab::Replicas {
 public:
  explicit WatchedReplicas(lab::Replicas& inner) : inner_(inner) {}

  void in_hook(std::size_t gradient, int micro_batch, int micro_batches, std::span<float> data) {
    gradient_ = gradient;
    micro_batch_ = micro_batch;
    last_ = micro_batch == micro_batches;
    data_ = data;
    begun_ = 0;
    in_backward_ = true;
  }
  /// Rejects if the hook of a last micro-batch has begun nothing, where there is something to sum.
  void hook_returned() const {
    if (last_ && begun_ == 0 && ranks() > 1 && !data_.empty())
      reject(
          "on rank {}, no all-reduce begins when gradient {} is ready for the last time: what begins after backward hides behind "
          "nothing",
          rank(), gradient_);
  }
  void backward_ended() { in_backward_ = false; }

  int rank() const override { return inner_.rank(); }
  int ranks() const override { return inner_.ranks(); }
  void all_reduce(std::span<float> data) override {
    check_no_wait("calls all_reduce, which waits");
    inner_.all_reduce(data);
  }
  int begin_all_reduce(std::span<float> data) override {
    if (in_backward_) check_begin(data);
    ++begun_;
    return inner_.begin_all_reduce(data);
  }
  void wait(int request) override {
    check_no_wait("waits");
    inner_.wait(request);
  }

 private:
  void check_no_wait(const char* what) const {
    if (in_backward_)
      reject("on rank {}, the hook of gradient {} {}: backward of the earlier layers stands still meanwhile", rank(), gradient_,
             what);
  }
  void check_begin(std::span<float> data) const {
    if (!last_)
      reject(
          "on rank {}, an all-reduce of gradient {} begins in micro-batch {}, which is not the last: what is added later is not "
          "in it",
          rank(), gradient_, micro_batch_);
    if (begun_ > 0) reject("on rank {}, the hook of gradient {} begins two all-reduces", rank(), gradient_);
    if (data.data() != data_.data() || data.size() != data_.size())
      reject("on rank {}, what is summed when gradient {} is ready is not that gradient", rank(), gradient_);
  }

  lab::Replicas& inner_;
  std::size_t gradient_ = 0;
  int micro_batch_ = 0, begun_ = 0;
  bool last_ = false, in_backward_ = false;
  std::span<float> data_;
};

void check_sums(const Shape& shape, int step, int rank, const std::vector<Guarded>& gradients) {
  for (std::size_t g = 0; g < gradients.size(); ++g) {
    gradients[g].check(fmt::format("on rank {}, gradient {}", rank, g));
    for (std::size_t i = 0; i < gradients[g].size(); ++i) {
      float sum = 0.0f, own = 0.0f;
      for (int r = 0; r < shape.ranks; ++r) {
        for (int m = 1; m <= shape.micro_batches; ++m) sum += added(step, m, r, g, i);
      }
      for (int m = 1; m <= shape.micro_batches; ++m) own += added(step, m, rank, g, i);
      const float found = gradients[g][i];
      if (found == sum) continue;
      const char* what = found == own ? "that is the rank's own part: nobody has waited for the sum"
                         : found * static_cast<float>(shape.ranks) == sum
                             ? "it was divided by the number of ranks, but the parts were scaled before backward"
                             : "that is no sum of the parts";
      reject(
          "in step {}, on rank {}, gradient {}, element {} is {} when the optimizer reads it, and the sum over the ranks is {}: "
          "{}",
          step, rank, g, i, found, sum, what);
    }
  }
}

// Two steps of one rank: the second finds what the first has left in `requests`.
void run_steps(const Hooks& hooks, const Shape& shape, lab::Replicas& replicas) {
  WatchedReplicas watched(replicas);
  std::vector<int> requests;
  for (int step = 1; step <= 2; ++step) {
    std::vector<Guarded> gradients;
    for (const std::size_t elements : shape.gradients) gradients.emplace_back(std::vector<float>(elements));
    for (int m = 1; m <= shape.micro_batches; ++m) {
      for (std::size_t g = 0; g < gradients.size(); ++g) {
        const std::span<float> data = gradients[g].span();
        for (std::size_t i = 0; i < data.size(); ++i) data[i] += added(step, m, watched.rank(), g, i);
        watched.in_hook(g, m, shape.micro_batches, data);
        hooks.on_gradient_ready(watched, data, m == shape.micro_batches, requests);
        watched.hook_returned();
      }
    }
    watched.backward_ended();
    hooks.before_optimizer(watched, requests);
    check_sums(shape, step, watched.rank(), gradients);
    if (!requests.empty())
      reject("on rank {}, before_optimizer leaves {} in `requests`: in the next step it would wait for them again",
             watched.rank(), counted(static_cast<std::int64_t>(requests.size()), "request"));
  }
}

}  // namespace

void grade_hooks(const Library& library, Grading& grading) {
  const Hooks hooks{library.function<OnGradientReady>("on_gradient_ready"),
                    library.function<BeforeOptimizer>("before_optimizer")};
  for (const int ranks : {2, 1, 4, 3}) {
    for (const int micro_batches : {1, 3}) {
      for (const std::vector<std::size_t>& gradients : {std::vector<std::size_t>{4, 2}, {1}, {}, {7, 0, 33, 2, 100}}) {
        grading.begin(fmt::format("{}, {} and {}", counted(ranks, "rank"), counted(micro_batches, "micro-batch", "micro-batches"),
                                  counted(static_cast<std::int64_t>(gradients.size()), "gradient")));
        run_replicas(ranks, [&](lab::Replicas& replicas) { run_steps(hooks, {ranks, micro_batches, gradients}, replicas); });
      }
    }
  }
}

}  // namespace cohort::labs::lab02_data_parallel
