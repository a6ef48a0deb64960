#include "base/svg_picture.hpp"

namespace cohort {

void SvgPicture::begin(double width, double height, int font_size, std::size_t elements) {
  constexpr std::size_t kBytesOfAnElement = 250;
  svg_.reserve(kBytesOfAnElement * elements + 4096);
  add("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"{2}\">\n",
      width, height, font_size);
  add("<rect width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#ffffff\"/>\n", width, height);
}

std::string SvgPicture::end() {
  svg_ += "</svg>\n";
  return std::move(svg_);
}

}  // namespace cohort
