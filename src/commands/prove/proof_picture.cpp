#include "commands/prove/proof_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/svg_picture.hpp"

namespace cohort {
namespace {

// Lengths in pixels.
constexpr double kMargin = 20.0;
constexpr double kLetter = 6.6;   // of the layouts' names
constexpr double kPanel = 165.0;  // a column of bars, and the room between two
constexpr double kPlot = 140.0;
constexpr double kTop = 72.0;  // title and headings
constexpr double kRow = 22.0;
constexpr double kBar = 12.0;
constexpr double kBottom = 40.0;  // axis

constexpr double kLowest = -10.0;  // decade where the axes begin; what is less has no bar
constexpr const char* kProofInk = "#1a1a1a";
constexpr const char* kProofPale = "#666666";
constexpr const char* kWithin = "#2563b0";
constexpr const char* kBeyond = "#c02020";

struct Measure {
  const char* heading;
  double ProofResult::*difference;
  double allowed;
};

class ProofPicture : private SvgPicture {
 public:
  ProofPicture(const std::vector<ProvedLayout>& layouts, const Tolerance& tolerance)
      : layouts_(layouts),
        measures_{{{"loss", &ProofResult::losses, tolerance.value},
                   {"gradient norm", &ProofResult::norms, tolerance.value},
                   {"gradients", &ProofResult::gradients, tolerance.value},
                   {"weights", &ProofResult::weights, kUpdateTolerance}}},
        bottom_(kTop + kRow * static_cast<double>(layouts.size())) {
    std::size_t longest = 10;
    for (const ProvedLayout& layout : layouts) longest = std::max(longest, layout.name.size());
    names_ = kLetter * static_cast<double>(longest) + 10.0;
    double largest = std::max(tolerance.value, kUpdateTolerance);
    for (const ProvedLayout& layout : layouts) {
      for (const Measure& measure : measures_) {
        const double difference = layout.result.*measure.difference;
        if (std::isfinite(difference)) largest = std::max(largest, difference);
      }
    }
    highest_ = std::ceil(std::log10(largest)) + 1.0;
  }

  std::string draw(std::string_view title) {
    const double width = 2.0 * kMargin + names_ + kPanel * static_cast<double>(measures_.size());
    const double height = bottom_ + kBottom;
    begin(width, height, 12);
    text(kMargin, 26.0, "start", kProofInk, title, 15);
    for (std::size_t row = 0; row < layouts_.size(); ++row)
      text(kMargin, kTop + kRow * static_cast<double>(row) + 14.0, "start", kProofInk, layouts_[row].name);
    for (std::size_t column = 0; column < measures_.size(); ++column) panel(column);
    return end();
  }

 private:
  void text(double x, double y, const char* anchor, const char* colour, std::string_view words, int size = 12) {
    add("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\" fill=\"{}\">{}</text>\n", x, y, anchor, size, colour,
        xml_escaped(words));
  }

  // Of a difference, in pixels; all of the plot for what is not finite.
  double length_of(double difference) const {
    if (!std::isfinite(difference)) return kPlot;
    if (difference <= 0.0) return 0.0;
    return kPlot * std::clamp((std::log10(difference) - kLowest) / (highest_ - kLowest), 0.0, 1.0);
  }

  void panel(std::size_t column) {
    const Measure& measure = measures_.at(column);
    const double left = kMargin + names_ + kPanel * static_cast<double>(column);
    const double allowed = left + length_of(measure.allowed);
    text(left, 50.0, "start", kProofInk, measure.heading);
    text(left, 64.0, "start", kProofPale, fmt::format("allowed {:.0e}", measure.allowed), 10);
    for (std::size_t row = 0; row < layouts_.size(); ++row)
      bar(layouts_[row], measure, left, kTop + kRow * static_cast<double>(row));
    add("<path stroke=\"#888888\" d=\"M{0:.1f},{1}V{2}M{0:.1f},{2}h{3}\" fill=\"none\"/>", left, kTop, bottom_, kPlot);
    add("<path class=\"allowed\" stroke=\"{}\" stroke-dasharray=\"4 3\" d=\"M{:.1f},{}V{}\"/>\n", kBeyond, allowed, kTop,
        bottom_);
    text(left, bottom_ + 15.0, "start", kProofPale, fmt::format("1e{:.0f}", kLowest), 10);
    text(left + kPlot, bottom_ + 15.0, "end", kProofPale, fmt::format("1e{:.0f}", highest_), 10);
  }

  void bar(const ProvedLayout& layout, const Measure& measure, double left, double top) {
    const double difference = layout.result.*measure.difference;
    const bool within = difference <= measure.allowed;  // false for NaN
    const std::string number = difference == 0.0 ? "0" : fmt::format("{:.1e}", difference);
    const double length = length_of(difference);
    add("<g class=\"bar\"><title>{}, {}: {}</title>", xml_escaped(layout.name), measure.heading, number);
    add("<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>", left, top + 4.0, length, kBar,
        within ? kWithin : kBeyond);
    constexpr double kNumber = 50.0;  // room of the number, which stands in the bar if that is long enough, else behind it
    const bool inside = length >= kNumber;
    add("<text x=\"{:.1f}\" y=\"{}\" font-size=\"10\" text-anchor=\"{}\" fill=\"{}\">{}</text></g>\n",
        inside ? left + length - 4.0 : left + length + 4.0, top + 14.0, inside ? "end" : "start", inside ? "#ffffff" : kProofPale,
        number);
  }

  const std::vector<ProvedLayout>& layouts_;
  std::array<Measure, 4> measures_;
  double bottom_;         // of the last row
  double names_ = 0.0;    // width of the layouts' names
  double highest_ = 0.0;  // decade where the axes end
};

}  // namespace

std::string draw_proof(const std::vector<ProvedLayout>& layouts, const Tolerance& tolerance, std::string_view title) {
  return ProofPicture(layouts, tolerance).draw(title);
}

}  // namespace cohort
