// Turns what a counting step asks for (base/counting_listener.hpp) into a graph.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/counting_listener.hpp"
#include "models/model.hpp"
#include "plan/graph/step_graph.hpp"

namespace cohort {

class GraphRecorder : public CountingListener {
 public:
  /// Before the step; the model outlives the recording.
  void begin(const Model& model);
  /// After it.
  std::vector<GraphUnit> finish();

  void unit_begins(std::string_view unit, bool backward) override;
  void op(std::string_view name, std::span<const CountedTensor> reads, std::span<const CountedTensor> writes) override;
  void taken(const std::string& label, const void* arena, const CountedTensor& tensor, Bytes in_use) override;
  void rewound(const void* arena, Bytes in_use) override;
  std::size_t communicates(const Operation& operation) override;

 private:
  // An op by its places: of one pass of a unit.
  struct Place {
    std::size_t unit = 0;
    bool backward = false;
    std::size_t op = 0;
  };
  // What an arena has handed out and not got back.
  struct Taken {
    Count id = 0;
    const std::byte* begin = nullptr;
    Bytes bytes = 0;  // with what the arena rounds up by
    Bytes end = 0;    // `in_use` of the arena behind it
    std::size_t unit = 0;
    bool backward = false;
    bool written = false;  // by an op of the pass that took it
    std::size_t op = 0;    // the last of these
  };
  struct ArenaUse {
    std::vector<Taken> live;
    std::vector<Taken> at_peak;  // as of the last rewind beyond a peak
    Bytes peak = 0;
    bool peak_is_new = false;
  };
  struct Written {
    const std::byte* end;
    Place by;
  };

  GraphUnit& unit() { return units_[unit_]; }
  // What belongs to no unit is in one list, in the order of the step.
  static std::vector<GraphOp>& list_of(GraphUnit& unit, bool backward) {
    return backward && !unit.name.empty() ? unit.backward : unit.forward;
  }
  std::vector<GraphOp>& ops() { return list_of(unit(), backward_); }
  // The op of the present pass that is like `op`, which is added if there is none.
  std::size_t place_of(GraphOp op);
  void write(const CountedTensor& tensor, std::size_t op);
  std::vector<GraphOp::Input> producers_of(std::span<const CountedTensor> tensors) const;
  std::vector<std::string> parameters_in(std::span<const CountedTensor> reads, std::span<const CountedTensor> writes) const;
  void keep_what_is_live();  // what forward has taken and not given back is for backward
  static void keep_peak(ArenaUse& use);

  const Model* model_ = nullptr;
  std::vector<GraphUnit> units_;
  std::size_t unit_ = 0;
  bool backward_ = false;
  bool first_pass_ = true;                         // of this unit in this direction: its ops are counted
  std::pair<std::size_t, bool> at_;                // unit and direction
  std::set<std::pair<std::size_t, bool>> passed_;  // likewise: those that were left
  std::map<const void*, ArenaUse> arenas_;
  std::map<const std::byte*, Written> written_;  // by where the tensor begins
  std::set<Count> kept_;                         // what forward keeps
  Count next_id_ = 0;
};

}  // namespace cohort
