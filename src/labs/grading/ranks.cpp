#include "labs/grading/ranks.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "base/text.hpp"
#include "labs/grading/grading.hpp"

namespace cohort::labs {
namespace {

// How ranks leave what they wait in when the run has failed elsewhere.
struct Abandoned {};

// How far a rank is: a message counts one in the first, its elements in the second.
using Times = std::array<Count, 2>;

Times later(const Times& a, const Times& b) { return {std::max(a[0], b[0]), std::max(a[1], b[1])}; }

// One direction of what a rank waits for.
struct Half {
  int partner = 0;
  std::size_t elements = 0;
  const float* source = nullptr;  // of what is sent
  float* target = nullptr;        // of what is received
  bool done = false;
};

struct RankState {
  std::optional<Half> sending, receiving;
  Times begun{}, now{};
  Count messages = 0, elements = 0;
  bool returned = false;
  std::exception_ptr error;

  bool waits() const { return (sending && !sending->done) || (receiving && !receiving->done); }
};

class Network {
 public:
  explicit Network(int ranks) : states_(static_cast<std::size_t>(ranks)) {}

  int ranks() const { return static_cast<int>(states_.size()); }

  // Returns when both are done.
  void pass(int rank, std::optional<Half> sending, std::optional<Half> receiving) {
    std::unique_lock lock(mutex_);
    RankState& self = states_[static_cast<std::size_t>(rank)];
    check(rank, sending, "send to");
    check(rank, receiving, "receive from");
    self.sending = sending;
    self.receiving = receiving;
    self.begun = self.now;
    if (sending) match(rank, sending->partner);
    if (receiving) match(receiving->partner, rank);
    fail_if_all_wait();
    moved_.wait(lock, [&] { return !self.waits() || failure_; });
    if (self.waits()) {
      self.sending.reset();  // what they point to goes with the stack of this rank
      self.receiving.reset();
      throw Abandoned();
    }
    self.sending.reset();
    self.receiving.reset();
  }

  void returned(int rank, std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    RankState& self = states_[static_cast<std::size_t>(rank)];
    self.returned = true;
    self.error = std::move(error);
    // Those who wait for it wait in vain: what it threw says more than that.
    if (self.error && !failure_) failure_ = "a rank has thrown";
    fail_if_all_wait();
    moved_.notify_all();
  }

  Traffic result() const {
    Traffic traffic;
    for (const RankState& state : states_) {
      traffic.messages_in_turn = std::max(traffic.messages_in_turn, state.now[0]);
      traffic.elements_in_turn = std::max(traffic.elements_in_turn, state.now[1]);
      traffic.messages_sent.push_back(state.messages);
      traffic.elements_sent.push_back(state.elements);
    }
    return traffic;
  }

  void rethrow() const {
    for (const RankState& state : states_) {
      if (state.error) std::rethrow_exception(state.error);
    }
    if (failure_) throw Rejected(*failure_);
  }

 private:
  void check(int rank, const std::optional<Half>& half, const char* what) const {
    if (!half) return;
    if (half->partner < 0 || half->partner >= ranks())
      reject("rank {} wants to {} rank {}: of {} there are only ranks 0 to {}", rank, what, half->partner,
             counted(ranks(), "rank"), ranks() - 1);
    if (half->partner == rank) reject("rank {} wants to {} itself", rank, what);
  }

  // Carries the message from `from` to `to` if both are there for it.
  void match(int from, int to) {
    RankState& sender = states_[static_cast<std::size_t>(from)];
    RankState& receiver = states_[static_cast<std::size_t>(to)];
    if (!sender.sending || sender.sending->done || sender.sending->partner != to) return;
    if (!receiver.receiving || receiver.receiving->done || receiver.receiving->partner != from) return;
    Half& out = *sender.sending;
    Half& in = *receiver.receiving;
    if (out.elements != in.elements) {
      failure_ = fmt::format("rank {} sends {} to rank {}, which wants to receive {}", from,
                             counted(static_cast<Count>(out.elements), "element"), to, in.elements);
      moved_.notify_all();
      return;
    }
    std::copy_n(out.source, out.elements, in.target);
    Times end = later(sender.begun, receiver.begun);
    end[0] += 1;
    end[1] += static_cast<Count>(out.elements);
    sender.now = later(sender.now, end);
    receiver.now = later(receiver.now, end);
    ++sender.messages;
    sender.elements += static_cast<Count>(out.elements);
    out.done = in.done = true;
    moved_.notify_all();
  }

  // No rank that could go on is left: what is possible was matched before.
  void fail_if_all_wait() {
    std::string waits;
    for (int rank = 0; rank < ranks(); ++rank) {
      const RankState& state = states_[static_cast<std::size_t>(rank)];
      if (!state.returned && !state.waits()) return;
      if (state.returned) continue;
      if (state.sending && !state.sending->done)
        waits += fmt::format("; rank {} waits to send to rank {}", rank, gone(state.sending->partner));
      if (state.receiving && !state.receiving->done)
        waits += fmt::format("; rank {} waits to receive from rank {}", rank, gone(state.receiving->partner));
    }
    if (waits.empty() || failure_) return;
    failure_ = "all ranks wait for each other, for ever: " + waits.substr(2);
    moved_.notify_all();
  }

  std::string gone(int partner) const {
    return fmt::format("{}{}", partner, states_[static_cast<std::size_t>(partner)].returned ? ", which has returned" : "");
  }

  std::mutex mutex_;
  std::condition_variable moved_;
  std::vector<RankState> states_;
  std::optional<std::string> failure_;
};

class CountedLink : public lab::Link {
 public:
  CountedLink(Network& network, int rank) : network_(network), rank_(rank) {}
  int rank() const override { return rank_; }
  int ranks() const override { return network_.ranks(); }
  void send(int to, std::span<const float> data) override {
    network_.pass(rank_, Half{.partner = to, .elements = data.size(), .source = data.data()}, std::nullopt);
  }
  void receive(int from, std::span<float> data) override {
    network_.pass(rank_, std::nullopt, Half{.partner = from, .elements = data.size(), .target = data.data()});
  }
  void exchange(int to, std::span<const float> sent, int from, std::span<float> received) override {
    network_.pass(rank_, Half{.partner = to, .elements = sent.size(), .source = sent.data()},
                  Half{.partner = from, .elements = received.size(), .target = received.data()});
  }

 private:
  Network& network_;
  int rank_;
};

void run_rank(Network& network, int rank, const std::function<void(lab::Link&)>& work) {
  std::exception_ptr error;
  try {
    CountedLink link(network, rank);
    work(link);
  } catch (const Abandoned&) {
  } catch (...) {
    error = std::current_exception();
  }
  network.returned(rank, std::move(error));
}

}  // namespace

Traffic run_ranks(int ranks, const std::function<void(lab::Link&)>& work) {
  Network network(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { run_rank(network, rank, work); });
  for (std::thread& thread : threads) thread.join();
  network.rethrow();
  return network.result();
}

}  // namespace cohort::labs
