#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/svg_picture.hpp"
#include "plan/drawing/drawing.hpp"
#include "plan/drawing/extent.hpp"

namespace cohort::pipeline {
namespace {

// Lengths in pixels.
constexpr double kLeft = 80.0;  // rank labels
constexpr double kRight = 30.0;
constexpr double kTop = 70.0;  // title and legend
constexpr double kBottom = 40.0;
constexpr double kRow = 30.0;
constexpr double kBox = 24.0;
constexpr double kOfAction = 18.0;  // an action of mean length, if the picture stays within the widths below
constexpr double kNarrowest = 800.0;
constexpr double kWidest = 8000.0;
constexpr double kDigit = 6.8;

struct Colour {
  int red, green, blue;
};
constexpr Colour kForward{37, 99, 176};
constexpr Colour kBackward{217, 95, 14};

/// How much of the colour a chunk has, the rest being white: later chunks are darker.
double strength_of(int chunk, int chunks) { return chunks == 1 ? 0.55 : 0.3 + 0.6 * chunk / (chunks - 1); }

std::string fill_of(Pass pass, int chunk, int chunks) {
  const Colour colour = pass == Pass::forward ? kForward : kBackward;
  const double strength = strength_of(chunk, chunks);
  const auto mix = [&](int part) { return static_cast<int>(std::lround(255.0 + strength * (part - 255))); };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(colour.red), mix(colour.green), mix(colour.blue));
}

std::string_view ink_on(int chunk, int chunks) { return strength_of(chunk, chunks) > 0.6 ? "#ffffff" : "#1a1a1a"; }

class Svg : private SvgPicture {
 public:
  Svg(const std::vector<Event>& events, std::string_view unit) : extent_(extent_of(events)), unit_(xml_escaped(unit)) {
    const double wanted = extent_.mean > 0.0 ? kOfAction * extent_.total / extent_.mean : kNarrowest;
    plot_ = std::clamp(wanted, kNarrowest, kWidest);
    bottom_ = kTop + kRow * static_cast<double>(extent_.rows.size());
  }

  std::string draw(const std::vector<Event>& events, std::string_view title) {
    const double width = kLeft + plot_ + kRight;
    const double height = bottom_ + kBottom;
    begin(width, height, 12, events.size());
    add("<text x=\"{}\" y=\"22\" font-size=\"15\" fill=\"#1a1a1a\">{}</text>\n", kLeft, xml_escaped(title));
    legend();
    rows();
    axis();
    for (const Event& event : events) box(event);
    return end();
  }

 private:
  double x_of(double time) const { return extent_.total > 0.0 ? kLeft + plot_ * (time - extent_.start) / extent_.total : kLeft; }

  /// "forward" and a box of each chunk's shade, and the same for backward.
  void legend() {
    constexpr double kSwatch = 18.0;
    double x = kLeft;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      add("<text x=\"{}\" y=\"49\" fill=\"#1a1a1a\">{}</text>", x, name_of(pass));
      x += 70.0;
      for (int chunk = 0; chunk < extent_.chunks; ++chunk, x += kSwatch) {
        add("<rect x=\"{}\" y=\"36\" width=\"{}\" height=\"{}\" fill=\"{}\"/>", x, kSwatch, kSwatch,
            fill_of(pass, chunk, extent_.chunks));
        if (extent_.chunks == 1) continue;
        add("<text x=\"{}\" y=\"49\" text-anchor=\"middle\" fill=\"{}\">{}</text>", x + kSwatch / 2.0,
            ink_on(chunk, extent_.chunks), chunk);
      }
      x += 24.0;
    }
    add("\n<text x=\"{}\" y=\"49\" fill=\"#1a1a1a\">numbers in the rows: micro-batches; {}grey: idle</text>\n", x,
        extent_.chunks == 1 ? "" : "shades: model chunks; ");
  }

  void rows() {
    for (const auto& [rank, row] : extent_.rows) {
      const double y = kTop + kRow * row;
      add("<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#1a1a1a\">rank {}</text>", kLeft - 8.0, y + 16.0, rank);
      add("<rect x=\"{}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"#eeeeee\"/>\n", kLeft, y, plot_, kBox);
    }
  }

  void axis() {
    if (extent_.total <= 0.0) return;
    constexpr double kBetweenMarks = 80.0;
    const double step = axis_step(extent_.total, static_cast<int>(plot_ / kBetweenMarks));
    for (int mark = 0; mark * step <= extent_.total * (1.0 + 1e-9); ++mark) {
      const double x = x_of(extent_.start + mark * step);
      add("<line x1=\"{0:.2f}\" y1=\"{1}\" x2=\"{0:.2f}\" y2=\"{2}\" stroke=\"#888888\"/>", x, kTop, bottom_ + 4.0);
      add("<text x=\"{:.2f}\" y=\"{}\" text-anchor=\"middle\" fill=\"#1a1a1a\">{:g} {}</text>\n", x, bottom_ + 20.0, mark * step,
          unit_);
    }
  }

  void box(const Event& event) {
    const auto& [pass, micro_batch, chunk] = event.action;
    const double x = x_of(event.start);
    const double width = x_of(event.end) - x;
    const double y = kTop + kRow * extent_.rows.at(event.rank);
    add("<g><title>rank {}, {} of micro-batch {}, chunk {}: {:g} to {:g} {}</title>", event.rank, name_of(pass), micro_batch,
        chunk, event.start - extent_.start, event.end - extent_.start, unit_);
    add("<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\" stroke=\"#ffffff\" stroke-width=\"0.5\"/>", x, y,
        width, kBox, fill_of(pass, chunk, extent_.chunks));
    const std::string number = std::to_string(micro_batch);
    if (kDigit * static_cast<double>(number.size()) + 2.0 <= width) {
      add("<text x=\"{:.2f}\" y=\"{}\" text-anchor=\"middle\" fill=\"{}\">{}</text>", x + width / 2.0, y + 16.0,
          ink_on(chunk, extent_.chunks), number);
    }
    add("</g>\n");
  }

  Extent extent_;
  std::string unit_;
  double plot_ = 0.0;    // width of the rows
  double bottom_ = 0.0;  // of the last row
};

}  // namespace

std::string draw_svg(const std::vector<Event>& events, std::string_view title, std::string_view unit) {
  return Svg(events, unit).draw(events, title);
}

}  // namespace cohort::pipeline
