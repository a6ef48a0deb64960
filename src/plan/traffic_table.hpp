// Traffic by group and operation, as it is collected. Internal to the planner.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "plan/traffic.hpp"

namespace cohort {

class TrafficTable {
 public:
  void add(const std::string& group, const std::string& operation, const std::string& purpose, int ranks, Bytes bytes) {
    if (bytes > 0) entry({group, operation, purpose, ranks, 0}).bytes += bytes;
  }
  /// Each entry becomes at least that of `other`.
  void raise(const std::vector<Traffic>& other) {
    for (const Traffic& one : other) {
      Traffic& own = entry(one);
      own.bytes = std::max(own.bytes, one.bytes);
    }
  }
  /// In the order in which they first came.
  const std::vector<Traffic>& entries() const { return entries_; }

 private:
  Traffic& entry(const Traffic& like) {
    for (Traffic& one : entries_) {
      if (one.group == like.group && one.operation == like.operation) return one;
    }
    entries_.push_back(like);
    entries_.back().bytes = 0;
    return entries_.back();
  }

  std::vector<Traffic> entries_;
};

/// The name of the group over which gradients are summed, see Mesh::gradient().
std::string gradient_group(const RunConfig& config);

}  // namespace cohort
