#include "checkpoint/format/part_json.hpp"

#include <stdexcept>

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

TensorPart run_of(const Json& json, const Shape& shape, const Box& box) {
  return {shape, box, json.at("begin").get<Count>(), json.at("elements").get<Count>()};
}

}  // namespace

void add_part(Json& json, const TensorPart& part) {
  if (!part.box_is_tensor()) {
    json["start"] = part.box().start;
    json["count"] = part.box().count;
  }
  json["begin"] = part.begin();
  json["elements"] = part.elements();
}

TensorPart part_from(const Json& json, const Shape& shape) {
  Box box = Box::whole(shape);
  if (json.contains("start")) box = {json["start"].get<std::vector<Count>>(), json.at("count").get<std::vector<Count>>()};
  return run_of(json, shape, box);
}

TensorPart part_from_range(const Json& json, const Shape& shape) {
  Box box = Box::whole(shape);
  if (json.contains("range")) {
    const auto [dim, begin, end] = json["range"].get<std::array<Count, 3>>();
    if (dim < 0 || dim >= shape.dims()) throw std::invalid_argument("a range in a dim that does not exist");
    box = Box::range(shape, static_cast<int>(dim), begin, end);
  }
  return run_of(json, shape, box);
}

}  // namespace cohort
