#include "plan/graph/graph_recorder.hpp"

#include <algorithm>

#include "base/work_tape.hpp"
#include "tensor/memory_kind.hpp"

namespace cohort {
namespace {

const std::byte* begin_of(const void* address) { return static_cast<const std::byte*>(address); }

bool overlap(const Tensor& tensor, const CountedTensor& other) {
  if (!tensor.defined()) return false;
  const std::byte *a = begin_of(tensor.raw()), *b = begin_of(other.address);
  return a < b + other.bytes() && b < a + tensor.bytes();
}

bool same_results(const GraphOp& a, const GraphOp& b) {
  return std::equal(a.results.begin(), a.results.end(), b.results.begin(), b.results.end(),
                    [](const GraphTensor& x, const GraphTensor& y) { return x.shape == y.shape && x.dtype == y.dtype; });
}

bool alike(const GraphOp& a, const GraphOp& b) {
  return a.name == b.name && a.group == b.group && a.given == b.given && a.parameters == b.parameters && same_results(a, b);
}

}  // namespace

void GraphRecorder::begin(const Model& model) {
  model_ = &model;
  for (const Unit& unit : model.units()) {
    GraphUnit& made = units_.emplace_back(GraphUnit{.name = unit.name});
    for (const Parameter* parameter : unit.parameters) made.parameters += parameter->elements();
  }
  units_.push_back({});
  at_ = {units_.size() - 1, false};
  unit_begins("", false);
}

void GraphRecorder::unit_begins(std::string_view name, bool backward) {
  passed_.insert(at_);
  const auto found = std::find_if(units_.begin(), units_.end(), [&](const GraphUnit& unit) { return unit.name == name; });
  COHORT_CHECK(found != units_.end(), "a unit '{}' that the model has not", name);
  if (backward && !backward_) keep_what_is_live();
  unit_ = static_cast<std::size_t>(found - units_.begin());
  backward_ = backward;
  at_ = {unit_, backward_};
  first_pass_ = !passed_.contains(at_);
}

void GraphRecorder::keep_what_is_live() {
  for (const auto& [base, use] : arenas_) {
    for (const Taken& taken : use.live) {
      if (!taken.backward) kept_.insert(taken.id);
    }
  }
}

std::size_t GraphRecorder::place_of(GraphOp op) {
  std::vector<GraphOp>& list = ops();
  const auto found = std::find_if(list.begin(), list.end(), [&](const GraphOp& other) { return alike(op, other); });
  if (found == list.end()) {
    list.push_back(std::move(op));
    return list.size() - 1;
  }
  if (first_pass_ || unit().name.empty()) ++found->times;
  return static_cast<std::size_t>(found - list.begin());
}

void GraphRecorder::op(std::string_view name, std::span<const CountedTensor> reads, std::span<const CountedTensor> writes) {
  // As people call them: "gelu", "gelu_backward".
  const auto called = std::string(name.substr(0, name.find("_forward")));
  GraphOp op{.name = called, .parameters = parameters_in(reads, writes), .inputs = producers_of(reads)};
  for (const CountedTensor& tensor : writes) op.results.push_back({tensor.shape, tensor.dtype, ""});
  const std::size_t place = place_of(std::move(op));
  for (const CountedTensor& tensor : writes) write(tensor, place);
}

std::size_t GraphRecorder::communicates(const Operation& operation) {
  // What a block keeps leaves the device: another block will have its place when backward begins (nn/activation_offload.hpp).
  if (operation.group == kHostGroup && !backward_) keep_what_is_live();
  std::vector<GraphTraffic>& traffic = unit().traffic;
  auto found = std::find_if(traffic.begin(), traffic.end(), [&](const GraphTraffic& one) {
    return one.operation == operation.name && one.group == operation.group && one.backward == backward_;
  });
  if (found == traffic.end())
    found = traffic.insert(
        traffic.end(), {std::string(operation.name), operation.group, static_cast<int>(operation.members->size()), backward_});
  ++found->calls;
  found->bytes += operation.bytes;
  const std::size_t place = place_of({.name = std::string(operation.name), .group = operation.group, .given = operation.bytes});
  if (operation.from != nullptr) ops()[place].inputs = producers_of(std::vector<CountedTensor>{{operation.from, {}, DType::u8}});
  if (operation.to != nullptr) write({operation.to, {operation.bytes}, DType::u8}, place);
  return 0;
}

void GraphRecorder::write(const CountedTensor& tensor, std::size_t op) {
  const std::byte *begin = begin_of(tensor.address), *end = begin + tensor.bytes();
  written_.erase(written_.lower_bound(begin), written_.lower_bound(end));
  written_[begin] = {end, {unit_, backward_, op}};
  for (auto& [base, use] : arenas_) {
    for (Taken& taken : use.live) {
      if (taken.unit != unit_ || taken.backward != backward_) continue;
      if (begin < taken.begin || begin >= taken.begin + taken.bytes) continue;
      taken.written = true;
      taken.op = op;
    }
  }
}

std::vector<GraphOp::Input> GraphRecorder::producers_of(std::span<const CountedTensor> tensors) const {
  std::vector<GraphOp::Input> inputs;
  for (const CountedTensor& tensor : tensors) {
    auto found = written_.upper_bound(begin_of(tensor.address));
    if (found == written_.begin()) continue;
    --found;
    const auto& [end, by] = found->second;
    if (begin_of(tensor.address) >= end || by.backward || backward_) continue;
    if (const GraphOp::Input input{by.unit, by.op}; std::find(inputs.begin(), inputs.end(), input) == inputs.end())
      inputs.push_back(input);
  }
  return inputs;
}

std::vector<std::string> GraphRecorder::parameters_in(std::span<const CountedTensor> reads,
                                                      std::span<const CountedTensor> writes) const {
  std::vector<std::string> names;
  if (unit_ >= model_->units().size()) return names;
  for (const Parameter* parameter : model_->units()[unit_].parameters) {
    const auto touches = [&](const Tensor& tensor, std::span<const CountedTensor> others) {
      return std::any_of(others.begin(), others.end(), [&](const CountedTensor& other) { return overlap(tensor, other); });
    };
    if (touches(parameter->compute, reads) || touches(parameter->gradient, writes)) names.push_back(parameter->name);
  }
  return names;
}

void GraphRecorder::taken(const std::string& label, const void* arena, const CountedTensor& tensor, Bytes in_use) {
  if (kind_of_label(label) != MemoryKind::activations) return;
  ArenaUse& use = arenas_[arena];
  const Bytes before = use.live.empty() ? 0 : use.live.back().end;
  use.live.push_back({next_id_++, begin_of(tensor.address), in_use - before, in_use, unit_, backward_});
  if (in_use <= use.peak) return;
  use.peak = in_use;
  use.peak_is_new = true;
}

void GraphRecorder::keep_peak(ArenaUse& use) {
  if (use.peak_is_new) use.at_peak = use.live;
  use.peak_is_new = false;
}

void GraphRecorder::rewound(const void* arena, Bytes in_use) {
  const auto found = arenas_.find(arena);
  if (found == arenas_.end()) return;
  keep_peak(found->second);  // what is live is most as long as nothing was given back
  std::vector<Taken>& live = found->second.live;
  while (!live.empty() && live.back().end > in_use) live.pop_back();
}

std::vector<GraphUnit> GraphRecorder::finish() {
  for (auto& [base, use] : arenas_) {
    keep_peak(use);
    for (const Taken& taken : use.at_peak) {
      GraphUnit& holder = units_[taken.unit];
      if (!kept_.contains(taken.id)) {
        holder.scratch += taken.bytes;
        continue;
      }
      holder.kept += taken.bytes;
      std::vector<GraphOp>& ops = list_of(holder, taken.backward);
      if (taken.written) {
        ops[taken.op].kept += taken.bytes;
        continue;
      }
      const auto memory = std::find_if(ops.begin(), ops.end(), [](const GraphOp& op) { return op.name == "memory"; });
      (memory != ops.end() ? *memory : ops.emplace_back(GraphOp{.name = "memory"})).kept += taken.bytes;
    }
  }
  return std::move(units_);
}

}  // namespace cohort
