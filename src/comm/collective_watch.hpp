// Watches the operations that this process has in flight, so that a lost or stuck peer becomes an error that names the operation
// instead of a program that waits forever. It knows no library and no device: the operations answer for themselves.
//
// An operation's time runs from the moment at which nothing on this rank holds it back: those before it are done and its own
// inputs are there. From then on it waits only for other ranks, so a long computation that was queued before it does not count.
// Time is noticed when check() is called; a rank that was busy elsewhere meanwhile starts the clock later, never earlier.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/units.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {

/// What messages say of an operation.
struct CollectiveFacts {
  const char* operation;  // "all_reduce", ...
  std::string group;
  int rank = 0;
  int size = 1;
  Count elements = 0;
  DType dtype = DType::f32;
  Count number = 0;  // among the collectives of its group, from 1: the same on all ranks, so that their messages can be compared
  int more = 0;      // operations that were started together with it
  FlightRecorder::Id record = FlightRecorder::kNone;

  /// "all_reduce of 12345 fp32 on group 'dp' (number 87), rank 1 of 2".
  std::string str() const;
};

class InFlight {
 public:
  explicit InFlight(CollectiveFacts facts) : records({facts.record}), facts_(std::move(facts)) {}
  virtual ~InFlight() = default;
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  const CollectiveFacts& facts() const { return facts_; }
  /// Everything on this rank that it has to wait for has happened, apart from the operations before it.
  virtual bool may_run() const = 0;
  virtual bool done() const = 0;

  /// Those of the flight recorder that are finished when this is done.
  std::vector<FlightRecorder::Id> records;

 protected:
  CollectiveFacts facts_;
};

class CollectiveWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// Ten minutes unless set: longer than anything that one rank does while the others wait, such as writing a checkpoint.
  static constexpr double kDefaultSeconds = 600.0;
  /// Throws Error(internal) unless `seconds` is positive.
  void set_timeout(double seconds);
  double timeout() const { return timeout_; }

  /// Operations run one after another, in the order in which they are added.
  void add(std::shared_ptr<const InFlight> operation) { operations_.push_back(std::move(operation)); }
  /// Forgets what is done. Throws Error(internal) naming the operation and this rank if the oldest one is not done within the
  /// timeout.
  void check(Clock::time_point now = Clock::now());
  /// As of the last check().
  bool idle() const { return operations_.empty(); }
  /// The oldest one that was not done at the last check(); null if there is none.
  const InFlight* oldest() const { return operations_.empty() ? nullptr : operations_.front().get(); }
  void clear();

 private:
  std::deque<std::shared_ptr<const InFlight>> operations_;
  std::optional<Clock::time_point> waiting_since_;  // of the oldest
  double timeout_ = kDefaultSeconds;
};

}  // namespace cohort
