// Text in XML documents, such as SVG pictures.
#pragma once

#include <string>
#include <string_view>

namespace cohort {

/// As it stands between tags: & < > written out; control characters, which XML does not allow, become '?'.
std::string xml_escaped(std::string_view text);

}  // namespace cohort
