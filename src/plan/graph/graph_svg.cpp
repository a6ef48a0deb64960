#include <algorithm>

#include "base/svg_picture.hpp"
#include "base/text.hpp"
#include "plan/graph/graph_drawing.hpp"
#include "plan/traffic.hpp"

namespace cohort {
namespace {

// Lengths in pixels.
constexpr double kWidth = 1000.0;
constexpr double kLeft = 30.0;
constexpr double kTop = 70.0;
constexpr double kRow = 20.0;
constexpr double kGap = 18.0;   // between units
constexpr double kBar = 180.0;  // of the op that keeps most
constexpr const char* kInk = "#1a1a1a";

class GraphSvg : private SvgPicture {
 public:
  std::string draw(const GraphTitle& title, const std::vector<GraphStage>& stages) {
    for (const GraphStage& stage : stages) {
      runs_.push_back(runs_of(stage));
      for (const GraphUnit& unit : stage.units) {
        for (const GraphOp& op : unit.forward) most_kept_ = std::max(most_kept_, op.kept);
      }
    }
    double height = kTop + kGap;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      height += kRow;
      for (const UnitRun& run : runs_[s]) height += height_of(stages[s], run);
    }
    begin(kWidth, height, 12);
    text(kLeft, 24, 15, title.run);
    std::string sizes;
    for (const SizeName& size : title.sizes) sizes += fmt::format("{} = {}   ", size.symbols, size.value);
    text(kLeft, 46, 12, sizes + "   bars: kept until backward;  orange: between ranks");
    double y = kTop;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      text(kLeft, y + 14, 13,
           fmt::format("{}activations of a rank {}", stages.size() > 1 ? fmt::format("pipeline stage {}: ", stages[s].stage) : "",
                       human_bytes(stages[s].activations())));
      y += kRow;
      for (const UnitRun& run : runs_[s]) y += unit(stages[s], run, y);
    }
    return end();
  }

 private:
  static std::vector<const GraphTraffic*> shown(const UnitRun& run) {
    std::vector<const GraphTraffic*> traffic;
    for (const GraphTraffic& one : run.traffic) {
      if (one.ranks > 1 && one.bytes > kNumbersOfAStep && one.operation != "recv") traffic.push_back(&one);
    }
    return traffic;
  }
  static double height_of(const GraphStage& stage, const UnitRun& run) {
    const std::size_t ops = stage.units[run.first].forward.size(), traffic = shown(run).size();
    return ops + traffic == 0 ? 0.0 : kRow * static_cast<double>(ops + traffic + 1) + kGap;
  }

  void text(double x, double y, int size, const std::string& words) {
    add("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\">{}</text>\n", x, y, size, kInk, xml_escaped(words));
  }

  // Returns its height.
  double unit(const GraphStage& stage, const UnitRun& run, double y) {
    const double height = height_of(stage, run);
    if (height == 0.0) return 0.0;
    const GraphUnit& unit = stage.units[run.first];
    add("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"6\" fill=\"#f6f7f9\" stroke=\"#c5ccd3\"/>\n", kLeft, y,
        kWidth - 2 * kLeft, height - kGap + 4);
    text(kLeft + 10, y + 15, 13,
         fmt::format(
             "{}{}{}", run.title, run.count > 1 ? fmt::format(" ({} alike)", run.count) : "",
             unit.parameters > 0 ? fmt::format(": {} parameters", human_count(static_cast<double>(unit.parameters))) : ""));
    double row = y + kRow;
    for (const GraphOp& op : unit.forward) {
      op_row(unit, op, row);
      row += kRow;
    }
    for (const GraphTraffic* one : shown(run)) {
      add("<rect x=\"{}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"#d95f0e\"/>", kLeft + 14, row + 5);
      text(kLeft + 30, row + 14, 12,
           fmt::format("{}: {} over {} ({}), {} a step, {}", one->backward ? "backward" : "forward", one->operation, one->group,
                       purpose_of(one->group, one->operation), counted(one->calls, "call"), human_bytes(one->bytes)));
      row += kRow;
    }
    return height;
  }

  void op_row(const GraphUnit& unit, const GraphOp& op, double y) {
    std::vector<std::string> parameters;
    for (const std::string& name : op.parameters) parameters.push_back(name_in_unit(unit, name));
    add("<g><title>{}</title>", xml_escaped(join(parameters)));
    add("<rect x=\"{}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{}\"/>", kLeft + 14, y + 5,
        op.group.empty() ? "#2563b0" : "#d95f0e");
    const std::string times = op.times > 1 ? fmt::format(" x{}", op.times) : "";
    text(kLeft + 30, y + 14, 12, op.name + times);
    text(kLeft + 190, y + 14, 12,
         op.group.empty() ? results_in_words(op) : fmt::format("over {}, {} given", op.group, human_bytes(op.given)));
    text(kLeft + 480, y + 14, 11, parameters_in_words(unit, op));
    if (op.kept > 0) {
      const double width = kBar * static_cast<double>(op.kept) / static_cast<double>(most_kept_);
      add("<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"12\" fill=\"#8db4e2\"/>", kLeft + 690, y + 4, width);
      text(kLeft + 690 + width + 6, y + 14, 11, human_bytes(op.kept));
    }
    add("</g>\n");
  }

  std::vector<std::vector<UnitRun>> runs_;
  Bytes most_kept_ = 1;
};

}  // namespace

std::string graph_svg(const GraphTitle& title, const std::vector<GraphStage>& stages) { return GraphSvg().draw(title, stages); }

}  // namespace cohort
