#include "labs/02_data_parallel/simulated_replicas.hpp"

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "labs/grading/grading.hpp"

namespace cohort::labs {
namespace {

// How ranks leave what they wait in when the run has failed elsewhere.
struct Abandoned {};

// The k-th all-reduce of every rank.
struct Sum {
  int first_rank;  // who began it first
  std::size_t elements;
  std::vector<std::vector<float>> parts;  // by rank
  int begun = 0;
  std::vector<float> value;  // when all ranks have begun it
};

class Network {
 public:
  explicit Network(int ranks) : states_(static_cast<std::size_t>(ranks)) {}

  int ranks() const { return static_cast<int>(states_.size()); }

  /// Returns its number on that rank.
  std::size_t begin(int rank, std::span<const float> data) {
    const std::scoped_lock lock(mutex_);
    if (failed_) throw Abandoned();
    const std::size_t number = states_[index(rank)].begun++;
    if (number == sums_.size()) sums_.push_back({rank, data.size(), std::vector<std::vector<float>>(states_.size()), 0, {}});
    Sum& sum = sums_[number];
    if (sum.elements != data.size())
      reject("all-reduce {} is of {} elements on rank {} and of {} on rank {}: all ranks sum the same, in the same order",
             number + 1, sum.elements, sum.first_rank, data.size(), rank);
    sum.parts[index(rank)].assign(data.begin(), data.end());
    if (++sum.begun == ranks()) {
      add(sum);
      moved_.notify_all();
    }
    return number;
  }

  std::vector<float> wait(int rank, std::size_t number) {
    std::unique_lock lock(mutex_);
    RankState& self = states_[index(rank)];
    self.waits_for = number;
    fail_if_all_wait();
    moved_.wait(lock, [&] { return done(number) || failed_; });
    if (!done(number)) throw Abandoned();
    self.waits_for.reset();
    return sums_[number].value;
  }

  void returned(int rank, std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    RankState& self = states_[index(rank)];
    self.returned = true;
    self.waits_for.reset();
    self.error = std::move(error);
    if (self.error) failed_ = true;
    fail_if_all_wait();
    moved_.notify_all();
  }

  void rethrow() const {
    for (const RankState& state : states_) {
      if (state.error) std::rethrow_exception(state.error);
    }
    if (hang_) throw Rejected(*hang_);
  }

 private:
  struct RankState {
    std::size_t begun = 0;
    std::optional<std::size_t> waits_for;
    bool returned = false;
    std::exception_ptr error;
  };

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  bool done(std::size_t number) const { return sums_[number].begun == ranks(); }

  static void add(Sum& sum) {
    for (std::size_t i = 0; i < sum.elements; ++i) {
      double value = 0.0;
      for (const std::vector<float>& part : sum.parts) value += part[i];
      sum.value.push_back(static_cast<float>(value));
    }
  }

  void fail_if_all_wait() {
    const auto stands = [&](const RankState& state) { return state.returned || (state.waits_for && !done(*state.waits_for)); };
    if (failed_ || !std::all_of(states_.begin(), states_.end(), stands)) return;
    for (int rank = 0; rank < ranks(); ++rank) {
      if (!states_[index(rank)].waits_for) continue;
      const std::size_t number = *states_[index(rank)].waits_for;
      int absent = 0;
      while (states_[index(absent)].begun > number) ++absent;
      hang_ = fmt::format("the ranks hang: rank {} waits for its all-reduce {}, in which rank {} takes no part", rank, number + 1,
                          absent);
      failed_ = true;
      return moved_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable moved_;
  std::vector<RankState> states_;
  std::vector<Sum> sums_;
  bool failed_ = false;
  std::optional<std::string> hang_;
};

class SimulatedReplicas : public lab::Replicas {
 public:
  SimulatedReplicas(Network& network, int rank) : network_(network), rank_(rank) {}

  int rank() const override { return rank_; }
  int ranks() const override { return network_.ranks(); }
  void all_reduce(std::span<float> data) override { wait(begin_all_reduce(data)); }
  int begin_all_reduce(std::span<float> data) override {
    requests_.push_back({network_.begin(rank_, data), data, {data.begin(), data.end()}, false});
    return static_cast<int>(requests_.size()) - 1;
  }
  void wait(int request) override {
    if (request < 0 || request >= static_cast<int>(requests_.size()))
      reject("rank {} waits for request {}: begin_all_reduce has returned none of that number", rank_, request);
    Request& one = requests_[static_cast<std::size_t>(request)];
    if (one.waited) return;
    const std::vector<float> sum = network_.wait(rank_, one.number);
    for (std::size_t i = 0; i < one.data.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(one.data[i]) != std::bit_cast<std::uint32_t>(one.begun_with[i]))
        reject("on rank {}, element {} was written while its all-reduce was under way", rank_, i);
    }
    std::copy(sum.begin(), sum.end(), one.data.begin());
    one.waited = true;
  }

 private:
  struct Request {
    std::size_t number;
    std::span<float> data;
    std::vector<float> begun_with;
    bool waited;
  };

  Network& network_;
  int rank_;
  std::vector<Request> requests_;
};

void run_rank(Network& network, int rank, const std::function<void(lab::Replicas&)>& work) {
  SimulatedReplicas replicas(network, rank);
  std::exception_ptr error;
  try {
    work(replicas);
  } catch (const Abandoned&) {
  } catch (...) {
    error = std::current_exception();
  }
  network.returned(rank, error);
}

}  // namespace

void run_replicas(int ranks, const std::function<void(lab::Replicas&)>& work) {
  Network network(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { run_rank(network, rank, work); });
  for (std::thread& thread : threads) thread.join();
  network.rethrow();
}

}  // namespace cohort::labs
