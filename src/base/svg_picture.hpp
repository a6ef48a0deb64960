// What all pictures here are written with: SVG, element by element.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>

#include "base/xml.hpp"

namespace cohort {

class SvgPicture {
 protected:
  /// Starts a picture of so many pixels on white, its text in a sans-serif font of so many pixels. `elements`: about how many
  /// follow.
  void begin(double width, double height, int font_size, std::size_t elements = 0);

  /// Appends an element. Text of others goes through xml_escaped().
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(svg_), format, std::forward<Args>(args)...);
  }

  /// The picture, whole.
  std::string end();

 private:
  std::string svg_;
};

}  // namespace cohort
