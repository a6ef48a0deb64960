// A Link that knows what each rank has heard of. A barrier is proved with it, not timed: a rank may leave when a chain of
// messages has come to it from every other rank.
#pragma once

#include <cohort/lab.hpp>
#include <cstdint>
#include <map>
#include <mutex>
#include <queue>
#include <span>
#include <utility>
#include <vector>

namespace cohort::labs::lab04_nodes {

/// Sets of ranks, one for each rank: of whose entering it has heard.
class Heard {
 public:
  explicit Heard(int ranks) : by_rank_(static_cast<std::size_t>(ranks)) {}

  void enter(int rank) { by_rank_[static_cast<std::size_t>(rank)] = bit(rank); }
  bool has(int rank, int of) const { return (by_rank_[static_cast<std::size_t>(rank)] & bit(of)) != 0; }

  /// What the sender of the next message from `from` to `to` knows travels with it.
  void sends(int from, int to) {
    const std::scoped_lock lock(mutex_);
    under_way_[{from, to}].push(by_rank_[static_cast<std::size_t>(from)]);
  }
  void receives(int from, int to) {
    const std::scoped_lock lock(mutex_);
    std::queue<std::uint64_t>& messages = under_way_[{from, to}];
    if (messages.empty()) return;  // it belongs to another barrier, and says nothing of this one
    by_rank_[static_cast<std::size_t>(to)] |= messages.front();
    messages.pop();
  }

 private:
  static std::uint64_t bit(int rank) { return std::uint64_t{1} << rank; }

  std::mutex mutex_;
  std::map<std::pair<int, int>, std::queue<std::uint64_t>> under_way_;
  std::vector<std::uint64_t> by_rank_;  // each is its own rank's thread's
};

class HeardLink : public lab::Link {
 public:
  HeardLink(lab::Link& link, Heard& heard) : link_(link), heard_(heard) {}

  int rank() const override { return link_.rank(); }
  int ranks() const override { return link_.ranks(); }
  void send(int to, std::span<const float> data) override {
    note(data.size());
    heard_.sends(rank(), to);
    link_.send(to, data);
  }
  void receive(int from, std::span<float> data) override {
    link_.receive(from, data);
    heard_.receives(from, rank());
  }
  void exchange(int to, std::span<const float> sent, int from, std::span<float> received) override {
    note(sent.size());
    heard_.sends(rank(), to);
    link_.exchange(to, sent, from, received);
    heard_.receives(from, rank());
  }
  /// Of the messages that this rank has sent.
  std::size_t longest() const { return longest_; }

 private:
  void note(std::size_t elements) { longest_ = elements > longest_ ? elements : longest_; }

  lab::Link& link_;
  Heard& heard_;
  std::size_t longest_ = 0;
};

}  // namespace cohort::labs::lab04_nodes
