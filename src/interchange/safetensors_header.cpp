#include "interchange/safetensors_header.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "base/error.hpp"
#include "base/strict_json.hpp"
#include "base/text.hpp"
#include "interchange/tensor_source.hpp"

namespace cohort {
namespace {

using Json = nlohmann::json;

struct StoredType {
  std::string_view name;
  Bytes bytes;
  std::optional<DType> dtype;  // of those that can be weights
};

constexpr std::array<StoredType, 15> kTypes{{{"F32", 4, DType::f32},
                                             {"BF16", 2, DType::bf16},
                                             {"F16", 2, DType::f16},
                                             {"F64", 8, DType::f64},
                                             {"BOOL", 1, {}},
                                             {"U8", 1, {}},
                                             {"I8", 1, {}},
                                             {"F8_E5M2", 1, {}},
                                             {"F8_E4M3", 1, {}},
                                             {"I16", 2, {}},
                                             {"U16", 2, {}},
                                             {"I32", 4, {}},
                                             {"U32", 4, {}},
                                             {"I64", 8, {}},
                                             {"U64", 8, {}}}};

const StoredType* find_type(std::string_view name) {
  const auto* type = std::find_if(kTypes.begin(), kTypes.end(), [&](const StoredType& t) { return t.name == name; });
  return type == kTypes.end() ? nullptr : type;
}

// A whole number from 0 up; nothing for anything else.
std::optional<Count> count_in(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<std::uint64_t>();
  if (number > static_cast<std::uint64_t>(std::numeric_limits<Count>::max())) return std::nullopt;
  return static_cast<Count>(number);
}

std::vector<Count> counts_in(const Json& value, const char* what, const std::string& where) {
  std::vector<Count> counts;
  bool valid = value.is_array();
  for (std::size_t i = 0; valid && i < value.size(); ++i) {
    const std::optional<Count> count = count_in(value[i]);
    valid = count.has_value();
    if (valid) counts.push_back(*count);
  }
  if (!valid) fail(ExitCode::checkpoint, "{}: {} is not a list of whole numbers below 2^63", where, what);
  return counts;
}

const Json& member(const Json& object, const char* name, const std::string& where) {
  const auto found = object.find(name);
  if (found == object.end()) fail(ExitCode::checkpoint, "{}: {} is missing", where, name);
  return *found;
}

// The shape of a tensor of `element` bytes each; its bytes must not overflow.
Shape parse_shape(const Json& value, Bytes element, const std::string& where) {
  const std::vector<Count> dims = counts_in(value, "shape", where);
  if (dims.size() > Shape::kMaxDims)
    fail(ExitCode::checkpoint, "{}: a shape of {} dims; models have {} at most", where, dims.size(), Shape::kMaxDims);
  Bytes bytes = element;
  for (const Count extent : dims) {
    if (__builtin_mul_overflow(bytes, extent, &bytes))
      fail(ExitCode::checkpoint, "{}: a shape of {} is larger than any file", where, dims);
  }
  return Shape(dims);
}

SafetensorsEntry parse_entry(const std::string& name, const Json& value, Bytes data_bytes, const std::string& file) {
  const std::string where = fmt::format("{}: tensor '{}'", file, name);
  if (!value.is_object()) fail(ExitCode::checkpoint, "{}: its entry in the header is not an object", where);
  SafetensorsEntry entry;
  entry.name = name;
  const Json& dtype = member(value, "dtype", where);
  const StoredType* type = dtype.is_string() ? find_type(dtype.get_ref<const std::string&>()) : nullptr;
  if (type == nullptr) {
    std::vector<std::string> known;
    for (const StoredType& one : kTypes) known.emplace_back(one.name);
    fail(ExitCode::checkpoint, "{}: unknown dtype {}; supported: {}", where, dtype.dump(), join(known));
  }
  entry.dtype = type->name;
  entry.shape = parse_shape(member(value, "shape", where), type->bytes, where);
  const std::vector<Count> offsets = counts_in(member(value, "data_offsets", where), "data_offsets", where);
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    fail(ExitCode::checkpoint, "{}: data_offsets {} are not a start and an end after it", where, offsets);
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  if (entry.end > data_bytes) {
    fail(ExitCode::checkpoint, "{}: ends at byte {} of the data, but the file has {}: truncated or damaged", where, entry.end,
         data_bytes);
  }
  if (const Bytes bytes = entry.shape.elements() * type->bytes; bytes != entry.end - entry.begin) {
    fail(ExitCode::checkpoint, "{}: {} of shape {} are {} bytes, but data_offsets {} hold {}", where, entry.dtype,
         entry.shape.str(), bytes, offsets, entry.end - entry.begin);
  }
  return entry;
}

// One after the other without gap or overlap, from the first byte of the data to the last.
void check_cover(const std::vector<SafetensorsEntry>& entries, Bytes data_bytes, const std::string& file) {
  Bytes end = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != end) {
      fail(ExitCode::checkpoint, "{}: tensor '{}' begins at byte {} of the data, but the one before it ends at {}: {}", file,
           entry.name, entry.begin, end, entry.begin < end ? "they overlap" : "the bytes between belong to no tensor");
    }
    end = entry.end;
  }
  if (end != data_bytes) {
    fail(ExitCode::checkpoint, "{}: the tensors end at byte {} of the data, but the file has {}", file, end, data_bytes);
  }
}

}  // namespace

std::optional<DType> dtype_of_safetensors(std::string_view name) {
  const StoredType* type = find_type(name);
  return type == nullptr ? std::nullopt : type->dtype;
}

std::string_view safetensors_name_of(DType dtype) {
  for (const StoredType& type : kTypes) {
    if (type.dtype == dtype) return type.name;
  }
  COHORT_CHECK(false, "{} weights", name_of(dtype));
}

SafetensorsHeader parse_safetensors_header(std::string_view json, Bytes data_bytes, const std::string& file) {
  if (!json.starts_with('{')) fail(ExitCode::checkpoint, "{}: not a safetensors file: its header does not begin with '{{'", file);
  constexpr int kDepth = 3;  // the header, an entry, a list in it
  const Json parsed = parse_strict_json(json, file + ": the header", kDepth);
  const std::size_t tensors = parsed.size() - parsed.count("__metadata__");
  if (tensors > kMaxSafetensorsTensors) {
    fail(ExitCode::checkpoint, "{}: {} tensors, more than the {} that one file may have", file, tensors, kMaxSafetensorsTensors);
  }
  SafetensorsHeader header;
  for (const auto& [name, value] : parsed.items()) {
    if (name != "__metadata__") {
      header.entries.push_back(parse_entry(name, value, data_bytes, file));
      continue;
    }
    if (!value.is_object()) fail(ExitCode::checkpoint, "{}: __metadata__ is not an object", file);
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail(ExitCode::checkpoint, "{}: '{}' in __metadata__ is not a string", file, key);
      header.metadata[key] = text.get<std::string>();
    }
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  check_cover(header.entries, data_bytes, file);
  return header;
}

std::string format_safetensors_header(const SafetensorsHeader& header) {
  // Member by member: an ordered_json looks through all of its names for each new one.
  std::string members;
  const auto add = [&](const std::string& name, const nlohmann::ordered_json& value) {
    members += (members.empty() ? "" : ",") + Json(name).dump() + ":" + value.dump();
  };
  if (!header.metadata.empty()) add("__metadata__", header.metadata);
  for (const SafetensorsEntry& entry : header.entries) {
    add(entry.name, {{"dtype", entry.dtype}, {"shape", entry.shape.vector()}, {"data_offsets", {entry.begin, entry.end}}});
  }
  std::string text = "{" + members + "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string bytes(sizeof(length), '\0');
  for (std::size_t i = 0; i < sizeof(length); ++i) bytes[i] = static_cast<char>(length >> (8 * i) & 0xffu);
  return bytes + text;
}

}  // namespace cohort
