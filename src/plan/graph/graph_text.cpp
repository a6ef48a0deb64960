#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "base/work_tape.hpp"
#include "plan/graph/graph_drawing.hpp"
#include "plan/traffic.hpp"

namespace cohort {
namespace {

std::string times_in_words(Count times) { return times > 1 ? fmt::format(" x{}", times) : ""; }

std::string op_line(const GraphUnit& unit, const GraphOp& op) {
  const std::string name = op.name + times_in_words(op.times);
  const std::string what =
      op.group.empty() ? results_in_words(op) : fmt::format("over {}, {} given", op.group, human_bytes(op.given));
  std::string line = fmt::format("  {:<22} {:<34} {:>10}  {}", name, what, op.kept > 0 ? human_bytes(op.kept) : "",
                                 parameters_in_words(unit, op));
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// Names in the order of the first of each, wrapped.
std::string backward_lines(const GraphUnit& unit) {
  std::vector<std::string> order;
  std::map<std::string, Count> times;
  for (const GraphOp& op : unit.backward) {
    if (!op.group.empty() || op.name == "memory") continue;
    if (times[op.name] == 0) order.push_back(op.name);
    times[op.name] += op.times;
  }
  std::string text, line = "  backward:";
  for (const std::string& name : order) {
    const std::string word = fmt::format(" {}{}{}", name, times_in_words(times[name]), &name == &order.back() ? "" : ",");
    if (line.size() + word.size() > 98) {
      text += line + "\n";
      line = "           ";
    }
    line += word;
  }
  return order.empty() ? "" : text + line + "\n";
}

std::string traffic_lines(const std::vector<GraphTraffic>& traffic) {
  std::string text;
  for (const GraphTraffic& one : traffic) {
    if (one.ranks == 1 || one.bytes <= kNumbersOfAStep || one.operation == "recv") continue;
    text += fmt::format("  {} {} over {} ({}): {} a step, {}\n", one.backward ? "backward:" : "forward: ", one.operation,
                        one.group, purpose_of(one.group, one.operation), counted(one.calls, "call"), human_bytes(one.bytes));
  }
  return text;
}

std::string unit_text(const GraphStage& stage, const UnitRun& run) {
  const GraphUnit& unit = stage.units[run.first];
  const bool is_nothing = unit.forward.empty() && unit.backward.empty() && traffic_lines(run.traffic).empty();
  if (is_nothing && unit.name.empty()) return "";
  std::string text = "\n" + run.title;
  if (run.count > 1) text += fmt::format(", {} alike, of each", run.count);
  if (unit.parameters > 0) text += fmt::format(": {} parameters", human_count(static_cast<double>(unit.parameters)));
  text += '\n';
  for (const GraphOp& op : unit.forward) text += op_line(unit, op);
  text += backward_lines(unit);
  if (run.count > 1 && !traffic_lines(run.traffic).empty()) text += "  of all of them:\n";
  return text + traffic_lines(run.traffic);
}

std::string activations_text(const GraphStage& stage) {
  Bytes kept = 0, scratch = 0;
  const GraphUnit* most = nullptr;
  for (const GraphUnit& unit : stage.units) {
    kept += unit.kept;
    scratch += unit.scratch;
    if (most == nullptr || unit.scratch > most->scratch) most = &unit;
  }
  std::string text =
      fmt::format("\nactivations of a rank: {} = {} kept for backward", human_bytes(kept + scratch), human_bytes(kept));
  if (scratch > 0)
    text += fmt::format(" + {} scratch ({})", human_bytes(scratch), most->name.empty() ? "between units" : most->name);
  return text + "\n";
}

}  // namespace

std::string graph_text(const GraphTitle& title, const std::vector<GraphStage>& stages) {
  std::string text = title.run + "\nsizes:";
  for (const SizeName& size : title.sizes) text += fmt::format(" {} = {}", size.symbols, size.value);
  text += fmt::format("\n\n  {:<22} {:<34} {:>10}  {}\n", "op", "result", "kept", "parameters");
  for (const GraphStage& stage : stages) {
    if (stages.size() > 1) text += fmt::format("\n== pipeline stage {} ==\n", stage.stage);
    for (const UnitRun& run : runs_of(stage)) text += unit_text(stage, run);
    text += activations_text(stage);
  }
  Table table({"group", "operation", "for", "ranks", "calls", "given"});
  bool any = false, host = false;
  for (const GraphTraffic& one : traffic_of(stages)) {
    if (one.operation == "recv" || one.bytes <= kNumbersOfAStep) continue;
    any = true;
    host = host || one.group == kHostGroup;
    table.add({one.group, one.operation, purpose_of(one.group, one.operation), fmt::format("{}", one.ranks),
               fmt::format("{}", one.calls), human_bytes(one.bytes)});
  }
  if (!any) return text + "\nNothing goes between ranks.\n";
  return fmt::format("{}\nBetween ranks{} in a step, of the rank that sends most:\n{}", text, host ? ", and with the host," : "",
                     table.str(3));
}

}  // namespace cohort
