#include "interchange/strict_json.hpp"

#include <set>
#include <vector>

#include "base/error.hpp"

namespace cohort {

using Json = nlohmann::json;

Json parse_strict_json(std::string_view text, const std::string& where, int depth) {
  std::vector<std::set<std::string>> names(static_cast<std::size_t>(depth) + 1);
  const auto watch = [&](int level, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
      if (level >= depth) fail(ExitCode::checkpoint, "{} is nested deeper than {} levels", where, depth);
      names[static_cast<std::size_t>(level) + 1].clear();
    }
    if (event == Json::parse_event_t::key) {
      const auto& name = value.get_ref<const std::string&>();
      if (!names[static_cast<std::size_t>(level)].insert(name).second) {
        fail(ExitCode::checkpoint, "{} has '{}' twice", where, name);
      }
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& error) {
    fail(ExitCode::checkpoint, "{} is not JSON: {}", where, error.what());
  }
}

}  // namespace cohort
