#include "checkpoint/inspect/histogram_picture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/svg_picture.hpp"
#include "checkpoint/format/format.hpp"

namespace cohort {
namespace {

// Lengths in pixels.
constexpr double kMargin = 24.0;
constexpr double kTitle = 44.0;
constexpr double kPanelWidth = 250.0;
constexpr double kPanelHeight = 150.0;
constexpr double kPlotWidth = 226.0;
constexpr double kPlotTop = 36.0;  // below the name and the facts
constexpr double kPlotHeight = 76.0;

constexpr std::size_t kMostLetters = 38;  // of a name, in the width of a panel
constexpr std::size_t kFewPanels = 32;    // that four columns show well
constexpr const char* kInk = "#1a1a1a";
constexpr const char* kPale = "#666666";

const char* colour_of(const HistogramPanel& panel) {
  if (panel.name.starts_with(kModelGroup) || panel.name.starts_with(kMasterGroup)) return "#2563b0";
  const bool of_squares = panel.statistics.min >= 0.0 && panel.statistics.max > 0.0;
  return of_squares ? "#2f855a" : "#d95f0e";
}

/// The end of a long name says more than its begin.
std::string shortened(const std::string& name) {
  return name.size() <= kMostLetters ? name : "..." + name.substr(name.size() - kMostLetters + 3);
}

class Picture : private SvgPicture {
 public:
  explicit Picture(std::size_t panels) : columns_(std::clamp<std::size_t>(panels, 1, panels <= kFewPanels ? 4 : 8)) {
    rows_ = (panels + columns_ - 1) / columns_;
  }

  std::string draw(const std::vector<HistogramPanel>& panels, std::string_view title) {
    const double width = 2.0 * kMargin + kPanelWidth * static_cast<double>(columns_);
    const double height = kTitle + kMargin + kPanelHeight * static_cast<double>(rows_);
    begin(width, height, 11);
    add("<text x=\"{}\" y=\"26\" font-size=\"15\" fill=\"{}\">{}</text>\n", kMargin, kInk, xml_escaped(title));
    for (std::size_t i = 0; i < panels.size(); ++i) {
      const std::size_t row = i / columns_, column = i % columns_;
      add("<g transform=\"translate({},{})\">", kMargin + kPanelWidth * static_cast<double>(column),
          kTitle + kPanelHeight * static_cast<double>(row));
      panel(panels[i]);
      add("</g>\n");
    }
    return end();
  }

 private:
  void panel(const HistogramPanel& panel) {
    const TensorStatistics& statistics = panel.statistics;
    add("<title>{}: {}, mean {:.4g}, standard deviation {:.4g}, norm {:.6g}</title>", xml_escaped(panel.name),
        xml_escaped(panel.facts), statistics.mean, statistics.deviation, statistics.norm);
    add("<text y=\"12\" fill=\"{}\">{}</text>", kInk, xml_escaped(shortened(panel.name)));
    add("<text y=\"26\" font-size=\"10\" fill=\"{}\">{}  std {:.3g}</text>", kPale, xml_escaped(panel.facts),
        statistics.deviation);
    oddities(statistics);
    bars(panel);
    axis(panel.histogram.axis);
  }

  void oddities(const TensorStatistics& statistics) {
    std::string words;
    if (statistics.nans > 0) words += fmt::format("{} NaN ", statistics.nans);
    if (statistics.infinities > 0) words += fmt::format("{} Inf ", statistics.infinities);
    const bool broken = !words.empty();
    if (statistics.zeros > 0) {
      words +=
          fmt::format("{:.3g} % zero", 100.0 * static_cast<double>(statistics.zeros) / static_cast<double>(statistics.elements));
    }
    if (words.empty()) return;
    add("<text x=\"{}\" y=\"26\" font-size=\"10\" text-anchor=\"end\" fill=\"{}\">{}</text>", kPlotWidth,
        broken ? "#c02020" : kPale, words);
  }

  /// One outline for all bars.
  void bars(const HistogramPanel& panel) {
    const Count tallest = panel.histogram.tallest();
    const double bottom = kPlotTop + kPlotHeight;
    if (tallest > 0) {
      const double width = kPlotWidth / static_cast<double>(panel.histogram.counts.size());
      add("<path fill=\"{}\" fill-opacity=\"0.75\" d=\"M0,{}", colour_of(panel), bottom);
      for (const Count count : panel.histogram.counts) {
        add("V{:.1f}h{:.3f}", bottom - kPlotHeight * static_cast<double>(count) / static_cast<double>(tallest), width);
      }
      add("V{}z\"/>", bottom);
    }
    add("<path stroke=\"#888888\" d=\"M0,{0}H{1}\"/>", bottom, kPlotWidth);
  }

  void axis(const ValueAxis& axis) {
    const double bottom = kPlotTop + kPlotHeight;
    const auto label = [&](double x, const char* anchor, const std::string& text) {
      add("<text x=\"{:.1f}\" y=\"{}\" font-size=\"10\" text-anchor=\"{}\" fill=\"{}\">{}</text>", x, bottom + 13.0, anchor,
          kPale, text);
    };
    label(0.0, "start", fmt::format("{:.3g}", axis.low()));
    label(kPlotWidth, "end", fmt::format("{:.3g}", axis.high()));
    const double zero = kPlotWidth * axis.position(0.0);
    const bool shows_zero = axis.low() <= 0.0 && axis.high() >= 0.0;
    if (shows_zero) add("<path stroke=\"{0}\" d=\"M{1:.1f},{2}v5\"/>", kInk, zero, bottom);
    constexpr double kRoomOfLabels = 60.0;
    if (shows_zero && zero > kRoomOfLabels && zero < kPlotWidth - kRoomOfLabels) label(zero, "middle", "0");
    if (!axis.linear()) {
      add("<text x=\"{}\" y=\"{}\" font-size=\"10\" text-anchor=\"end\" fill=\"{}\">log</text>", kPlotWidth, kPlotTop + 8.0,
          kPale);
    }
  }

  std::size_t columns_;
  std::size_t rows_;
};

}  // namespace

std::string draw_histograms(const std::vector<HistogramPanel>& panels, std::string_view title) {
  return Picture(panels.size()).draw(panels, title);
}

}  // namespace cohort
