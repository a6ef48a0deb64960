#include "plan/drawing/machine_drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/svg_picture.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

// Lengths in pixels.
constexpr double kLeft = 70.0, kTop = 64.0, kPlotWidth = 400.0, kPlotHeight = 320.0;
constexpr double kBetween = 90.0, kBarsWidth = 400.0, kRight = 24.0, kBottom = 84.0;
constexpr const char* kInk = "#1a1a1a";
constexpr const char* kGrid = "#dddddd";
constexpr const char* kWeak = "#2563b0";
constexpr const char* kStrong = "#d95f0e";

struct Part {
  std::string name;
  const char* colour;
  double seconds;
};

// The parts of a step in the order of the bars.
std::vector<Part> parts_of(const StepSplit& split) {
  return {{"matrix products", "#2563b0", split.products},
          {"attention", "#6a4ca3", split.attention},
          {"element-wise", "#2a9d8f", split.pointwise},
          {"optimizer", "#8ab17d", split.optimizer},
          {"communication", "#d95f0e", split.communicating()},
          {"host copies", "#e9c46a", split.host_copies},
          {"bubble", "#bbbbbb", split.bubble}};
}

class MachinePicture : private SvgPicture {
 public:
  explicit MachinePicture(const ScalingCurve& curve) : curve_(curve) {
    for (const auto* points : {&curve.weak, &curve.strong}) {
      for (const ScalingPoint& point : *points) {
        least_ranks_ = std::min(least_ranks_, static_cast<double>(point.ranks));
        most_ranks_ = std::max(most_ranks_, static_cast<double>(point.ranks));
        least_speed_ = std::min(least_speed_, point.tokens_per_second);
        most_speed_ = std::max(most_speed_, ideal(point.ranks));
      }
    }
    most_ranks_ = std::max(most_ranks_, 2.0 * least_ranks_);
    most_speed_ = std::max(most_speed_, 2.0 * least_speed_);
  }

  std::string draw(std::string_view title) {
    const double width = kLeft + kPlotWidth + kBetween + kBarsWidth + kRight;
    begin(width, kTop + kPlotHeight + kBottom, 12, curve_.weak.size() * 12);
    text(kLeft, 22, "start", title, 15);
    axes();
    line(ideal_line(), "#888888", "6 4");
    draw_curve(curve_.strong, kStrong);
    draw_curve(curve_.weak, kWeak);
    legend_of_curves();
    bars();
    return end();
  }

 private:
  double ideal(double ranks) const {
    const ScalingPoint& first = curve_.weak.front();
    return first.tokens_per_second / first.ranks * ranks;
  }
  double x_of(double ranks) const {
    return kLeft + kPlotWidth * std::log(ranks / least_ranks_) / std::log(most_ranks_ / least_ranks_);
  }
  double y_of(double speed) const {
    return kTop + kPlotHeight * (1.0 - std::log(speed / least_speed_) / std::log(most_speed_ / least_speed_));
  }

  void text(double x, double y, const char* anchor, std::string_view words, int size = 12) {
    add("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\" fill=\"{}\">{}</text>\n", x, y, anchor, size, kInk,
        xml_escaped(words));
  }

  void axes() {
    // NOLINTBEGIN(bugprone-float-loop-counter): powers of 2 and of 10 are exact
    for (double ranks = least_ranks_; ranks <= most_ranks_ * 1.001;
         ranks *= std::max(2.0, std::pow(2.0, std::round(std::log2(most_ranks_ / least_ranks_) / 7.0)))) {
      const double x = x_of(ranks);
      add("<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"{3}\"/>", x, kTop, kTop + kPlotHeight, kGrid);
      text(x, kTop + kPlotHeight + 18, "middle", fmt::format("{:.0f}", ranks));
    }
    for (double speed = std::pow(10.0, std::ceil(std::log10(least_speed_))); speed <= most_speed_; speed *= 10.0) {
      const double y = y_of(speed);
      add("<line x1=\"{1}\" y1=\"{0:.1f}\" x2=\"{2}\" y2=\"{0:.1f}\" stroke=\"{3}\"/>", y, kLeft, kLeft + kPlotWidth, kGrid);
      text(kLeft - 6, y + 4, "end", human_count(speed));
    }
    // NOLINTEND(bugprone-float-loop-counter)
    text(kLeft + kPlotWidth / 2, kTop + kPlotHeight + 38, "middle", "ranks");
    text(kLeft - 6, kTop - 10, "end", "tokens/s");
  }

  std::vector<std::pair<double, double>> ideal_line() const {
    const double first = curve_.weak.front().ranks;
    return {{x_of(first), y_of(ideal(first))}, {x_of(most_ranks_), y_of(ideal(most_ranks_))}};
  }

  void line(const std::vector<std::pair<double, double>>& points, const char* colour, const char* dashes = "") {
    add("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\" points=\"", colour, dashes);
    for (const auto& [x, y] : points) add("{:.1f},{:.1f} ", x, y);
    add("\"/>\n");
  }

  void draw_curve(const std::vector<ScalingPoint>& points, const char* colour) {
    std::vector<std::pair<double, double>> places;
    for (const ScalingPoint& point : points) places.emplace_back(x_of(point.ranks), y_of(point.tokens_per_second));
    line(places, colour);
    for (std::size_t i = 0; i < points.size(); ++i) {
      add("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"><title>{} ranks: {} tokens/s, {:.0f} % "
          "efficiency</title></circle>\n",
          places[i].first, places[i].second, colour, points[i].ranks, human_count(points[i].tokens_per_second),
          100.0 * points[i].efficiency);
    }
    if (!points.empty())
      text(places.back().first - 4, places.back().second + 34, "end", fmt::format("{:.0f} %", 100.0 * points.back().efficiency));
  }

  void legend_of_curves() {
    const double y = kTop + kPlotHeight + 62;
    double x = kLeft;
    for (const auto& [colour, words] :
         {std::pair{kWeak, "global batch grows (weak)"}, {kStrong, "global batch fixed (strong)"}}) {
      add("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"10\" fill=\"{}\"/>", x, y - 9, colour);
      text(x + 20, y, "start", words);
      x += 190.0;
    }
  }

  // Of the weak curve: all steps do the same work on a rank.
  void bars() {
    const double left = kLeft + kPlotWidth + kBetween;
    double longest = 0.0;
    for (const ScalingPoint& point : curve_.weak) longest = std::max(longest, point.time.seconds);
    const double height = kPlotHeight / static_cast<double>(curve_.weak.size());
    text(left, kTop - 10, "start", "a step by what it spends its time on (weak), ms");
    for (std::size_t i = 0; i < curve_.weak.size(); ++i) {
      const ScalingPoint& point = curve_.weak[i];
      const double y = kTop + height * static_cast<double>(i);
      double x = left;
      text(left - 6, y + height / 2 + 4, "end", std::to_string(point.ranks));
      for (const Part& part : parts_of(point.time.split)) {
        const double width = (kBarsWidth - 60.0) * part.seconds / longest;
        add("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"><title>{} ranks, {}: {:.3g} "
            "ms</title></rect>\n",
            x, y + 1.5, std::max(width, 0.0), std::max(height - 3.0, 1.0), part.colour, point.ranks, part.name,
            1e3 * part.seconds);
        x += width;
      }
      text(x + 6, y + height / 2 + 4, "start", fmt::format("{:.4g}", 1e3 * point.time.seconds));
    }
    legend_of_bars(left);
  }

  // Of the parts that some bar has.
  void legend_of_bars(double left) {
    StepSplit all;
    for (const ScalingPoint& point : curve_.weak) all = all.plus(point.time.split, 1.0);
    double x = left, y = kTop + kPlotHeight + 24;
    for (const Part& part : parts_of(all)) {
      if (part.seconds == 0.0) continue;
      add("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"10\" fill=\"{}\"/>", x, y - 9, part.colour);
      text(x + 20, y, "start", part.name);
      x += 130.0;
      if (x > left + 300.0) {
        x = left;
        y += 20.0;
      }
    }
  }

  const ScalingCurve& curve_;
  double least_ranks_ = 1e18, most_ranks_ = 1.0, least_speed_ = 1e300, most_speed_ = 0.0;
};

}  // namespace

std::string draw_machine_plan(const ScalingCurve& curve, std::string_view title) { return MachinePicture(curve).draw(title); }

}  // namespace cohort
