#include "data/foreign/npy_header.hpp"

#include <array>
#include <charconv>
#include <cstring>
#include <string>
#include <system_error>

#include "base/error.hpp"

namespace cohort {
namespace {

constexpr Bytes kLongestHeader = 1 << 20;  // header of a plain array; NumPy's own limit is 10,000

// What stands behind 'KEY': in the dictionary, up to the comma that ends it, or within the parentheses.
std::string_view value_of(std::string_view dictionary, std::string_view key) {
  const std::size_t at = dictionary.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) return {};
  std::string_view value = dictionary.substr(at + key.size() + 3);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value.substr(0, value.starts_with('(') ? value.find(')') : value.find(','));
}

Count elements_of(std::string_view shape, const std::string& path) {
  Count elements = 1;
  shape.remove_prefix(std::min<std::size_t>(shape.size(), 1));  // (
  while (true) {
    shape.remove_prefix(std::min(shape.find_first_not_of(" ,"), shape.size()));
    if (shape.empty()) return elements;
    Count size = 0;
    const auto [end, error] = std::from_chars(shape.data(), shape.data() + shape.size(), size);
    if (error != std::errc{} || size < 0 || __builtin_mul_overflow(elements, size, &elements))
      fail(ExitCode::data, "{}: its header has an impossible shape", path);
    shape.remove_prefix(static_cast<std::size_t>(end - shape.data()));
  }
}

StoredId stored_as(std::string_view descr, const std::string& path) {
  if (descr.size() == 5 && (descr.starts_with("'<") || descr.starts_with("'|")) && (descr[2] == 'u' || descr[2] == 'i') &&
      (descr[3] == '1' || descr[3] == '2' || descr[3] == '4' || descr[3] == '8'))
    return {descr[3] - '0', descr[2] == 'i'};
  fail(ExitCode::data, "{}: its elements are {}; ids are integers, little-endian: save them with .astype('<u4') or such", path,
       descr);
}

}  // namespace

NpyHeader read_npy_header(const StoredBytes& file) {
  std::array<char, 12> start{};
  const std::size_t got = file.read_at(0, start);
  if (!std::string_view(start.data(), got).starts_with(kNpyMagic))
    fail(ExitCode::data, "{}: it does not begin as .npy files do", file.path());
  const bool first_version = start[6] == 1;
  std::uint32_t size = 0;
  std::memcpy(&size, start.data() + 8, first_version ? 2 : 4);
  const Bytes begin = first_version ? 10 : 12;
  if (got < static_cast<std::size_t>(begin) || Bytes{size} > kLongestHeader || file.size() < begin + Bytes{size})
    fail(ExitCode::data, "{}: truncated within its header, or damaged", file.path());
  std::string dictionary(size, '\0');
  file.read_at(begin, dictionary);
  NpyHeader header{.stored = stored_as(value_of(dictionary, "descr"), file.path()),
                   .bytes = begin + Bytes{size},
                   .elements = elements_of(value_of(dictionary, "shape"), file.path())};
  if (value_of(dictionary, "fortran_order") != "False")
    fail(ExitCode::data, "{}: an array in Fortran's order; save it with numpy.ascontiguousarray", file.path());
  return header;
}

}  // namespace cohort
