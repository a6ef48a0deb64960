#include <algorithm>

#include "plan/graph/graph_drawing.hpp"
#include "plan/traffic.hpp"

namespace cohort {
namespace {

// Weights and gradients travel where there is room for them, or a bucket is full, not once in each unit.
bool travels_freely(const GraphOp& op) {
  const std::string purpose = op.group.empty() ? "" : purpose_of(op.group, op.name);
  return purpose == "weights" || purpose == "gradients";
}

// What a strategy adds up of flat gradients, when their message has come.
bool is_of_a_strategy(const GraphOp& op) {
  return op.parameters.empty() && !op.results.empty() &&
         std::all_of(op.results.begin(), op.results.end(), [](const GraphTensor& one) { return one.shape.dims() == 1; });
}

// But for these.
bool same_ops(const GraphUnit& a, const GraphUnit& b, bool backward) {
  const auto ops_of = [&](const GraphUnit& unit) {
    std::vector<const GraphOp*> ops;
    for (const GraphOp& op : backward ? unit.backward : unit.forward) {
      if (!travels_freely(op) && !(backward && is_of_a_strategy(op))) ops.push_back(&op);
    }
    return ops;
  };
  const auto alike = [&](const GraphOp* x, const GraphOp* y) {
    const bool same_results = std::equal(
        x->results.begin(), x->results.end(), y->results.begin(), y->results.end(),
        [](const GraphTensor& one, const GraphTensor& other) { return one.shape == other.shape && one.dtype == other.dtype; });
    const bool same_parameters = std::equal(
        x->parameters.begin(), x->parameters.end(), y->parameters.begin(), y->parameters.end(),
        [&](const std::string& one, const std::string& other) { return name_in_unit(a, one) == name_in_unit(b, other); });
    return x->name == y->name && x->group == y->group && x->given == y->given && x->times == y->times && x->kept == y->kept &&
           same_results && same_parameters;
  };
  const auto first = ops_of(a), second = ops_of(b);
  return std::equal(first.begin(), first.end(), second.begin(), second.end(), alike);
}

void add_traffic(std::vector<GraphTraffic>& sum, const std::vector<GraphTraffic>& more) {
  for (const GraphTraffic& one : more) {
    const auto found = std::find_if(sum.begin(), sum.end(), [&](const GraphTraffic& other) {
      return other.operation == one.operation && other.group == one.group && other.backward == one.backward;
    });
    if (found == sum.end()) {
      sum.push_back(one);
    } else {
      found->calls += one.calls;
      found->bytes += one.bytes;
    }
  }
}

}  // namespace

std::vector<UnitRun> runs_of(const GraphStage& stage) {
  std::vector<UnitRun> runs;
  for (std::size_t u = 0; u < stage.units.size(); ++u) {
    const GraphUnit& unit = stage.units[u];
    const GraphUnit* const before = runs.empty() ? nullptr : &stage.units[runs.back().first];
    const bool joins = before != nullptr && unit.parameters == before->parameters && !unit.name.empty() &&
                       same_ops(*before, unit, false) && same_ops(*before, unit, true);
    if (joins) {
      ++runs.back().count;
      runs.back().title = fmt::format("{} to {}", before->name, unit.name);
    } else {
      runs.push_back({u, 1, unit.name.empty() ? "between units" : unit.name});
    }
    add_traffic(runs.back().traffic, unit.traffic);
  }
  return runs;
}

std::string name_in_unit(const GraphUnit& unit, const std::string& parameter) {
  return parameter.starts_with(unit.name + ".") ? parameter.substr(unit.name.size() + 1) : parameter;
}

std::string parameters_in_words(const GraphUnit& unit, const GraphOp& op) {
  if (op.parameters.empty()) return "";
  const std::size_t more = op.parameters.size() - 1;
  return name_in_unit(unit, op.parameters.front()) + (more > 0 ? fmt::format(" +{}", more) : "");
}

std::string results_in_words(const GraphOp& op) {
  if (op.results.empty()) return "";
  const GraphTensor& first = op.results.front();
  std::string text = first.shape.str();
  if (!first.symbols.empty() && first.symbols != text) text = first.symbols + " = " + text;
  if (op.results.size() > 1) text += fmt::format(" +{}", op.results.size() - 1);
  return text;
}

}  // namespace cohort
