// What a step asks of a machine, in the order in which the step's own code asks for it: the work of its ops and its collectives.
// Read by who predicts how long the step takes (plan/replay.hpp).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/counting_listener.hpp"

namespace cohort {

/// The group of copies between this rank's device and its host (nn/activation_offload.hpp), of which it is the only member.
inline constexpr std::string_view kHostGroup = "host";

/// A collective, the receiving end of a message, or a copy from or to the host, that begins.
struct CollectiveStart {
  std::string_view operation;  // "all_reduce", ... as CommEvent has them
  std::string group;
  std::shared_ptr<const std::vector<int>> members;  // the ranks of the group by their numbers in the job
  Bytes bytes = 0;                                  // as CommEvent has them
  std::size_t id = 0;                               // of its wait
};

/// The step goes on when that collective is done.
struct CollectiveWait {
  std::size_t id = 0;
};

/// The entries from `begin` to before `end`, which come earlier on the tape, once more (base/counted_sections.hpp). None of them
/// is such an entry, and each collective of them is awaited among them, so that it may have the same id again.
struct TakenAgain {
  std::size_t begin = 0, end = 0;
};

using WorkEntry = std::variant<OpWork, CollectiveStart, CollectiveWait, TakenAgain>;

/// What is sent is on the tape of who receives it and waits.
class WorkTape : public CountingListener {
 public:
  void work(const OpWork& work) override { entries_.emplace_back(work); }
  std::size_t communicates(const Operation& one) override {
    if (one.name == "send" || (one.members->size() == 1 && one.group != kHostGroup)) return 0;
    entries_.emplace_back(CollectiveStart{one.name, one.group, one.members, one.bytes, ++last_id_});
    return last_id_;
  }
  void waits(std::size_t id) override { entries_.emplace_back(CollectiveWait{id}); }
  void take_again(TakenAgain entries) { entries_.emplace_back(entries); }
  /// In entries.
  double now() const override { return static_cast<double>(entries_.size()); }

  const std::vector<WorkEntry>& entries() const { return entries_; }

 private:
  std::vector<WorkEntry> entries_;
  std::size_t last_id_ = 0;
};

}  // namespace cohort
