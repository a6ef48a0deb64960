// The message trace: how often, and with how much data, each group was asked for each operation since the last reset. It shows
// what a parallel strategy costs: data parallelism must all-reduce every gradient once per step, whatever the number of buckets.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/units.hpp"
#include "comm/communicator.hpp"

namespace cohort {

class CommTrace {
 public:
  struct Totals {
    Count calls = 0;
    Count elements = 0;  // as in CommEvent
    Bytes bytes = 0;     // payload of this rank, as in CommEvent
    int ranks = 1;       // of the group
  };
  /// (group, operation) -> totals.
  using Table = std::map<std::pair<std::string, std::string>, Totals>;

  /// Counts the operations of `comm` from now on, in place of its present observer. The trace may be destroyed first.
  void attach(Communicator& comm);
  /// Forgets what was counted; to be called at each step.
  void reset() { table_->clear(); }

  const Table& totals() const { return *table_; }
  /// Zeros if the group was never asked for the operation.
  Totals totals(const std::string& group, const std::string& operation) const;
  /// Sum over all groups and operations.
  Totals sum() const;
  /// One aligned line for each (group, operation).
  std::string str() const;

 private:
  std::shared_ptr<Table> table_ = std::make_shared<Table>();  // shared with the observers
};

}  // namespace cohort
