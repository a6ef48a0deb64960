#include <algorithm>

#include "base/text.hpp"
#include "plan/graph/graph_drawing.hpp"

namespace cohort {
namespace {

// Inside quotes of DOT.
std::string in_quotes(const std::string& text) {
  std::string safe = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') safe += '\\';
    safe += letter;
  }
  return safe + '"';
}

// Lines of a label, each escaped; \n is DOT's.
std::string label_of(const std::vector<std::string>& lines) {
  std::string label = "\"";
  for (const std::string& line : lines) {
    const std::string safe = in_quotes(line);
    label += (label.size() > 1 ? "\\n" : "") + safe.substr(1, safe.size() - 2);
  }
  return label + '"';
}

std::string node_of(int stage, std::size_t unit, std::size_t op) { return fmt::format("s{}u{}o{}", stage, unit, op); }

std::string op_node(const GraphStage& stage, std::size_t unit, std::size_t place) {
  const GraphOp& op = stage.units[unit].forward[place];
  std::vector<std::string> lines{op.times > 1 ? fmt::format("{} x{}", op.name, op.times) : op.name};
  if (!op.group.empty()) lines.push_back(fmt::format("over {}, {}", op.group, human_bytes(op.given)));
  if (const std::string results = results_in_words(op); !results.empty()) lines.push_back(results);
  for (const std::string& parameter : op.parameters) lines.push_back(name_in_unit(stage.units[unit], parameter));
  if (op.kept > 0) lines.push_back("keeps " + human_bytes(op.kept));
  return fmt::format("    {} [label={}{}];\n", node_of(stage.stage, unit, place), label_of(lines),
                     op.group.empty() ? op.kept > 0 ? ", style=filled, fillcolor=\"#dbe9f9\"" : ""
                                      : ", shape=hexagon, style=filled, fillcolor=\"#fde3cf\"");
}

}  // namespace

std::string graph_dot(const GraphTitle& title, const std::vector<GraphStage>& stages) {
  std::string text = fmt::format("digraph cohort {{\n  label={};\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n",
                                 in_quotes(title.run));
  for (const GraphStage& stage : stages) {
    const std::vector<UnitRun> runs = runs_of(stage);
    std::vector<std::size_t> drawn_as(stage.units.size());  // the unit that stands for each
    for (const UnitRun& run : runs) {
      for (std::size_t u = run.first; u < run.first + run.count; ++u) drawn_as[u] = run.first;
      const GraphUnit& unit = stage.units[run.first];
      if (unit.forward.empty()) continue;
      std::string label = stages.size() > 1 ? fmt::format("stage {}: {}", stage.stage, run.title) : run.title;
      if (run.count > 1) label += fmt::format(" ({} alike)", run.count);
      text += fmt::format("  subgraph cluster_s{}u{} {{\n    label={};\n", stage.stage, run.first, in_quotes(label));
      for (std::size_t op = 0; op < unit.forward.size(); ++op) text += op_node(stage, run.first, op);
      text += "  }\n";
    }
    std::vector<std::string> edges;
    for (std::size_t u = 0; u < stage.units.size(); ++u) {
      for (std::size_t op = 0; op < stage.units[u].forward.size(); ++op) {
        for (const GraphOp::Input& input : stage.units[u].forward[op].inputs) {
          edges.push_back(fmt::format("  {} -> {}{};\n", node_of(stage.stage, drawn_as[input.unit], input.op),
                                      node_of(stage.stage, drawn_as[u], op),
                                      drawn_as[input.unit] == drawn_as[u] && input.unit != u ? " [constraint=false]" : ""));
        }
      }
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    for (const std::string& edge : edges) text += edge;
  }
  return text + "}\n";
}

}  // namespace cohort
