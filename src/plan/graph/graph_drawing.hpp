// Drawings of a graph: text for the terminal, SVG, and DOT for Graphviz. Units that are alike, such as the blocks of a decoder,
// are drawn once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/graph/size_names.hpp"
#include "plan/graph/step_graph.hpp"

namespace cohort {

/// Neighbouring units with the same ops.
struct UnitRun {
  std::size_t first = 0, count = 1;        // places in GraphStage::units
  std::string title = {};                  // "blocks.0 to blocks.11"
  std::vector<GraphTraffic> traffic = {};  // of all of them
};
std::vector<UnitRun> runs_of(const GraphStage& stage);

/// A parameter's name within its unit: "attention.query.weight".
std::string name_in_unit(const GraphUnit& unit, const std::string& parameter);
/// "[BT, C] = [1024, 128]" of the first result, and how many more there are; "" of an op without results.
std::string results_in_words(const GraphOp& op);

/// "attention.query.weight +5": the first, and how many more there are.
std::string parameters_in_words(const GraphUnit& unit, const GraphOp& op);

/// What all drawings begin with, and what they are of.
struct GraphTitle {
  std::string run;              // "gpt2, 940.80K parameters; dp 2 x pp 1 x cp 1 x tp 1, zero1, fp32"
  std::vector<SizeName> sizes;  // of the model
};

/// At most about 100 columns wide. Ends with a newline.
std::string graph_text(const GraphTitle& title, const std::vector<GraphStage>& stages);
std::string graph_svg(const GraphTitle& title, const std::vector<GraphStage>& stages);
std::string graph_dot(const GraphTitle& title, const std::vector<GraphStage>& stages);

}  // namespace cohort
