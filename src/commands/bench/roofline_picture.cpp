#include "commands/bench/roofline_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/svg_picture.hpp"

namespace cohort {
namespace {

// Lengths in pixels.
constexpr double kLeft = 70.0, kRight = 290.0, kTop = 50.0, kBottom = 50.0;
constexpr double kPlotWidth = 480.0, kPlotHeight = 320.0;
constexpr double kLine = 17.0;  // of the legend
constexpr const char* kRooflineInk = "#1a1a1a";
constexpr const char* kRooflinePale = "#888888";
constexpr std::array<const char*, 6> kColours{"#2563b0", "#c05a00", "#2e7d32", "#8e24aa", "#c02020", "#00838f"};

// A logarithmic axis of whole decades.
class Decades {
 public:
  Decades(double lowest, double highest)
      : first_(std::floor(std::log10(lowest))), last_(std::max(first_ + 1.0, std::ceil(std::log10(highest)))) {}

  /// 0 at the beginning, 1 at the end.
  double share(double value) const { return std::clamp((std::log10(value) - first_) / (last_ - first_), 0.0, 1.0); }
  int first() const { return static_cast<int>(first_); }
  int last() const { return static_cast<int>(last_); }

 private:
  double first_, last_;
};

class RooflinePicture : private SvgPicture {
 public:
  explicit RooflinePicture(const Roofline& roofline)
      : roofline_(roofline), x_(lowest_x(), 4.0 * highest_x()), y_(1e-9 * lowest_y(), 1.2e-9 * roofline.flops_per_second) {}

  std::string draw(std::string_view title) {
    const double legend = kTop + kLine * static_cast<double>(roofline_.points.size() + 1);
    begin(kLeft + kPlotWidth + kRight, std::max(kTop + kPlotHeight + kBottom, legend), 12);
    text(kLeft, 28.0, "start", title, 15);
    axes();
    roof();
    for (std::size_t i = 0; i < roofline_.points.size(); ++i) point(i);
    return end();
  }

 private:
  double lowest_x() const {
    double lowest = 0.1;
    for (const RooflinePoint& p : roofline_.points) lowest = std::min(lowest, p.intensity());
    return lowest;
  }
  double highest_x() const {
    double highest = roofline_.ridge();
    for (const RooflinePoint& p : roofline_.points) highest = std::max(highest, p.intensity());
    return highest;
  }
  double lowest_y() const {
    double lowest = roofline_.roof(0.1);
    for (const RooflinePoint& p : roofline_.points) lowest = std::min(lowest, p.flops_per_second());
    return lowest;
  }
  double place_x(double intensity) const { return kLeft + kPlotWidth * x_.share(intensity); }
  double place_y(double flops_per_second) const {
    return kTop + kPlotHeight * (1.0 - y_.share(1e-9 * std::max(flops_per_second, 1.0)));
  }

  void text(double x, double y, const char* anchor, std::string_view words, int size = 12) {
    add("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\" fill=\"{}\">{}</text>\n", x, y, anchor, size,
        kRooflineInk, xml_escaped(words));
  }

  void axes() {
    for (int decade = x_.first(); decade <= x_.last(); ++decade) {
      const double at = place_x(std::pow(10.0, decade));
      add("<path stroke=\"#dddddd\" d=\"M{0:.1f},{1}V{2}\"/>\n", at, kTop, kTop + kPlotHeight);
      text(at, kTop + kPlotHeight + 16.0, "middle", fmt::format("{:g}", std::pow(10.0, decade)));
    }
    for (int decade = y_.first(); decade <= y_.last(); ++decade) {
      const double at = place_y(std::pow(10.0, decade + 9));
      add("<path stroke=\"#dddddd\" d=\"M{0},{1:.1f}h{2}\"/>\n", kLeft, at, kPlotWidth);
      text(kLeft - 6.0, at + 4.0, "end", fmt::format("{:g}", std::pow(10.0, decade)));
    }
    text(kLeft + kPlotWidth / 2.0, kTop + kPlotHeight + 38.0, "middle", "operations for each byte moved");
    text(kLeft - 6.0, kTop - 10.0, "end", "GFLOP/s");
  }

  void roof() {
    const double begin = std::pow(10.0, x_.first()), end = std::pow(10.0, x_.last()), ridge = roofline_.ridge();
    add("<path class=\"roof\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
        "d=\"M{:.1f},{:.1f}L{:.1f},{:.1f}L{:.1f},{:.1f}\"/>\n",
        kRooflineInk, place_x(begin), place_y(roofline_.roof(begin)), place_x(ridge), place_y(roofline_.flops_per_second),
        place_x(end), place_y(roofline_.flops_per_second));
    add("<path stroke=\"{0}\" stroke-dasharray=\"4 3\" d=\"M{1:.1f},{2:.1f}V{3}\"/>\n", kRooflinePale, place_x(ridge),
        place_y(roofline_.flops_per_second), kTop + kPlotHeight);
    text(kLeft + kPlotWidth - 4.0, place_y(roofline_.flops_per_second) - 6.0, "end",
         fmt::format("{:.3g} GFLOP/s", 1e-9 * roofline_.flops_per_second));
    const double middle = std::sqrt(begin * ridge);
    text(place_x(middle) - 8.0, place_y(roofline_.roof(middle)) - 8.0, "end",
         fmt::format("{:.3g} GB/s", 1e-9 * roofline_.bytes_per_second));
  }

  void point(std::size_t i) {
    const RooflinePoint& p = roofline_.points[i];
    const char* colour = kColours.at(i % kColours.size());
    const double share = 100.0 * p.flops_per_second() / roofline_.roof(p.intensity());
    add("<g class=\"op\"><title>{}: {:.3g} operations a byte, {:.3g} GFLOP/s, {:.0f} % of the roof</title>", xml_escaped(p.op),
        p.intensity(), 1e-9 * p.flops_per_second(), share);
    const double x = place_x(p.intensity()), y = place_y(p.flops_per_second());
    add("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"8\" fill=\"{}\" fill-opacity=\"0.85\"/>", x, y, colour);
    add("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"9\" fill=\"#ffffff\">{}</text></g>\n", x, y + 3.2,
        i + 1);
    text(kLeft + kPlotWidth + 16.0, kTop + kLine * static_cast<double>(i) + 10.0, "start",
         fmt::format("{}  {}: {:.0f} % of the roof", i + 1, p.op, share), 11);
  }

  const Roofline& roofline_;
  Decades x_, y_;
};

}  // namespace

double Roofline::roof(double intensity) const { return std::min(flops_per_second, bytes_per_second * intensity); }

std::string draw_roofline(const Roofline& roofline, std::string_view title) { return RooflinePicture(roofline).draw(title); }

}  // namespace cohort
