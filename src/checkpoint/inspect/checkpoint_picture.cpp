#include "checkpoint/inspect/checkpoint_picture.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/svg_picture.hpp"

namespace cohort {
namespace {

// Lengths in pixels.
constexpr double kMargin = 24.0;
constexpr double kLegend = 74.0;  // title, colours, heads of the columns
constexpr double kColumn = 250.0;
constexpr double kLegendWidth = 840.0;
constexpr double kRow = 138.0;
constexpr double kPlotWidth = 226.0;
constexpr double kPlotTop = 20.0;  // below the name of the row
constexpr double kPlotHeight = 76.0;
constexpr double kHeadroom = 14.0;  // above a curve, for its label
constexpr double kBottom = kPlotTop + kPlotHeight;
constexpr double kRoomOfLabels = 60.0;

constexpr const char* kInk = "#1a1a1a";
constexpr const char* kPale = "#666666";

// A colour for the first block, and for the last.
struct Shades {
  int light[3], dark[3];
};
constexpr Shades kWeights{{156, 196, 240}, {16, 64, 138}};
constexpr Shades kSlots{{250, 190, 140}, {176, 62, 4}};
constexpr Shades kSquares{{150, 214, 178}, {16, 96, 60}};

std::string shade_of(const Shades& shades, std::size_t block, std::size_t blocks) {
  const double share = blocks < 2 ? 0.7 : static_cast<double>(block) / static_cast<double>(blocks - 1);
  int mixed[3];
  for (int i = 0; i < 3; ++i)
    mixed[i] = static_cast<int>(std::lround(shades.light[i] + share * (shades.dark[i] - shades.light[i])));
  return fmt::format("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2]);
}

const Shades& shades_of(std::size_t group, const KindPanel& panel) {
  if (group == 0) return kWeights;
  const auto of_squares = [](const TensorStatistics& block) { return block.min >= 0.0 && block.max > 0.0; };
  return std::all_of(panel.statistics.begin(), panel.statistics.end(), of_squares) ? kSquares : kSlots;
}

// "3 NaN 20 % zero" of all blocks.
std::string oddities_of(const TensorStatistics& all) {
  std::string words;
  if (all.nans > 0) words += fmt::format("{} NaN ", all.nans);
  if (all.infinities > 0) words += fmt::format("{} Inf ", all.infinities);
  if (all.zeros > 0)
    words += fmt::format("{:.3g} % zero", 100.0 * static_cast<double>(all.zeros) / static_cast<double>(all.elements));
  return words;
}

class Drawing : private SvgPicture {
 public:
  explicit Drawing(const CheckpointPicture& picture) : picture_(picture), changes_(picture.steps.size() > 1) {}

  std::string draw() {
    const std::size_t columns = picture_.groups.size() + (changes_ ? 1 : 0);
    begin(2.0 * kMargin + std::max(kLegendWidth, kColumn * static_cast<double>(columns)),
          kLegend + kMargin + kRow * static_cast<double>(picture_.rows.size()), 11, 8 * picture_.rows.size() * columns);
    legend();
    for (std::size_t i = 0; i < picture_.rows.size(); ++i) {
      add("<g transform=\"translate({},{})\">", kMargin, kLegend + kRow * static_cast<double>(i));
      row(picture_.rows[i]);
      add("</g>\n");
    }
    return end();
  }

 private:
  void text(double x, double y, std::string_view words, const char* colour = kPale, const char* anchor = "start", int size = 10) {
    add("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" text-anchor=\"{}\" fill=\"{}\">{}</text>", x, y, size, anchor, colour,
        xml_escaped(words));
  }

  static double left_of(std::size_t column) { return kColumn * static_cast<double>(column); }

  void legend() {
    text(kMargin, 24, picture_.title, kInk, "start", 15);
    const std::pair<const Shades*, const char*> kinds[] = {
        {&kWeights, "weights"}, {&kSlots, "optimizer state"}, {&kSquares, "optimizer state, nowhere negative"}};
    constexpr std::size_t kSwatches = 5;
    double x = kMargin;
    for (const auto& [shades, words] : kinds) {
      for (std::size_t i = 0; i < kSwatches; ++i, x += 8.0)
        add("<rect x=\"{}\" y=\"35\" width=\"8\" height=\"9\" fill=\"{}\"/>", x, shade_of(*shades, i, kSwatches));
      text(x + 6.0, 43, words);
      x += 20.0 + 5.6 * static_cast<double>(std::string_view(words).size());
    }
    text(x, 43, "Light: the first block, dark: the last. \"log\": logarithmic away from zero.");
    for (std::size_t i = 0; i < picture_.groups.size(); ++i)
      text(kMargin + left_of(i), 64, picture_.groups[i], kInk, "start", 12);
    if (changes_) text(kMargin + left_of(picture_.groups.size()), 64, "RMS of the weights, by checkpoint", kInk, "start", 12);
  }

  void row(const KindRow& row) {
    text(0, 12, row.name, kInk, "start", 12);
    text(12.0 + 6.6 * static_cast<double>(row.name.size()), 12, row.facts);
    for (std::size_t group = 0; group < row.panels.size(); ++group) {
      if (!row.panels[group]) continue;
      add("<g transform=\"translate({},0)\"><title>{} of {}</title>", left_of(group), xml_escaped(picture_.groups[group]),
          xml_escaped(row.name));
      histograms(*row.panels[group], shades_of(group, *row.panels[group]));
      add("</g>");
    }
    if (!changes_ || row.change.empty()) return;
    add("<g transform=\"translate({},0)\"><title>change of {}</title>", left_of(picture_.groups.size()), xml_escaped(row.name));
    change(row.change);
    add("</g>");
  }

  void histograms(const KindPanel& panel, const Shades& shades) {
    Count tallest = 1;
    for (const Histogram& histogram : panel.histograms) tallest = std::max(tallest, histogram.tallest());
    for (std::size_t block = 0; block < panel.histograms.size(); ++block) {
      const std::vector<Count>& counts = panel.histograms[block].counts;
      const std::string colour = shade_of(shades, block, panel.histograms.size());
      add("<path fill=\"{}\" stroke=\"{}\" d=\"M0,{}", panel.histograms.size() == 1 ? colour : "none", colour, kBottom);
      for (const Count count : counts)
        add("V{:.1f}h{:.3f}", kBottom - kPlotHeight * static_cast<double>(count) / static_cast<double>(tallest),
            kPlotWidth / static_cast<double>(counts.size()));
      add("V{}\"/>", kBottom);
    }
    const TensorStatistics all = merged(panel.statistics);
    text(kPlotWidth, kBottom + 25.0, oddities_of(all), all.finite() < all.elements ? "#c02020" : kPale, "end");
    if (!panel.histograms.empty()) axis(panel.histograms.front().axis);
  }

  void axis(const ValueAxis& axis) {
    base(fmt::format("{:.3g}", axis.low()), fmt::format("{:.3g}", axis.high()));
    const double zero = kPlotWidth * axis.position(0.0);
    const bool shows_zero = axis.low() <= 0.0 && axis.high() >= 0.0;
    if (shows_zero) add("<path stroke=\"{0}\" d=\"M{1:.1f},{2}v5\"/>", kInk, zero, kBottom);
    if (shows_zero && zero > kRoomOfLabels && zero < kPlotWidth - kRoomOfLabels) text(zero, kBottom + 13.0, "0", kPale, "middle");
    if (!axis.linear()) text(0, kBottom + 25.0, "log");
  }

  void base(std::string_view low, std::string_view high) {
    add("<path stroke=\"#888888\" d=\"M0,{0}H{1}\"/>", kBottom, kPlotWidth);
    text(0.0, kBottom + 13.0, low);
    text(kPlotWidth, kBottom + 13.0, high, kPale, "end");
  }

  // From zero to the largest, so that what hardly changes looks it.
  void change(const std::vector<std::vector<double>>& blocks) {
    double largest = 0.0;
    for (const std::vector<double>& block : blocks) largest = std::max(largest, *std::max_element(block.begin(), block.end()));
    const double first = static_cast<double>(picture_.steps.front()), last = static_cast<double>(picture_.steps.back());
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      add("<path fill=\"none\" stroke=\"{}\" d=\"", shade_of(kWeights, block, blocks.size()));
      for (std::size_t i = 0; i < blocks[block].size(); ++i) {
        const double x = kPlotWidth * (static_cast<double>(picture_.steps[i]) - first) / (last - first);
        const double y = kBottom - (largest > 0.0 ? (kPlotHeight - kHeadroom) * blocks[block][i] / largest : 0.0);
        add("{}{:.1f},{:.1f}", i == 0 ? "M" : "L", x, y);
      }
      add("\"/>");
    }
    text(0, kPlotTop + 10.0, fmt::format("{:.3g}", largest));
    base(fmt::format("step {}", picture_.steps.front()), fmt::format("step {}", picture_.steps.back()));
  }

  const CheckpointPicture& picture_;
  bool changes_;
};

}  // namespace

std::string draw_checkpoint(const CheckpointPicture& picture) { return Drawing(picture).draw(); }

}  // namespace cohort
