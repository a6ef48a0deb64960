// The file of a measured profile.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/strict_json.hpp"
#include "plan/profile.hpp"

namespace cohort {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFormat = "cohort machine profile";
constexpr int kVersion = 1;
constexpr int kDepth = 6;
constexpr const char* kAgain = "write it again with cohort bench calibration FILE";

constexpr std::pair<OpKind, const char*> kKindNames[] = {{OpKind::product, "product"},
                                                         {OpKind::attention, "attention"},
                                                         {OpKind::pointwise, "pointwise"},
                                                         {OpKind::optimizer, "optimizer"}};

std::string name_of_kind(OpKind kind) {
  for (const auto& [known, name] : kKindNames) {
    if (known == kind) return name;
  }
  return {};
}

ordered_json json_of(const OpSample& one) {
  return {{"op", one.op},
          {"kind", name_of_kind(one.kind)},
          {"type", name_of(one.dtype)},
          {"tf32", one.tf32},
          {"m", one.m},
          {"n", one.n},
          {"k", one.k},
          {"flops", one.flops},
          {"bytes", one.bytes},
          {"seconds", one.seconds},
          {"grid", one.grid}};
}

ordered_json json_of(const CollectiveSample& one) {
  return {
      {"operation", one.operation}, {"ranks", one.ranks}, {"nodes", one.nodes}, {"bytes", one.bytes}, {"seconds", one.seconds}};
}

ordered_json json_of(const LinkRates& one) { return {{"hop_seconds", one.hop}, {"bytes_per_second", one.bytes_per_second}}; }

// For profiles of older programs, which do not say what is a grid: the samples of an op in a type are one if each length of a row
// has as many sizes, several.
void recognise_grids(std::vector<OpSample>& samples) {
  std::map<std::tuple<std::string, DType, bool>, std::map<Count, std::set<double>>> sizes;  // of ops, by length
  const auto of = [&](const OpSample& one) -> auto& { return sizes[{one.op, one.dtype, one.tf32}]; };
  for (const OpSample& one : samples) of(one)[one.n].insert(one.bytes);
  for (OpSample& one : samples) {
    const std::size_t of_each = of(one).begin()->second.size();
    one.grid = of_each > 1 && of(one).begin()->first > 0 &&
               std::ranges::all_of(of(one), [&](const auto& length) { return length.second.size() == of_each; });
  }
}

// Reads values and says where one is wrong.
class ProfileReader {
 public:
  explicit ProfileReader(const std::filesystem::path& file) : file_(file) {}

  MachineProfile read() {
    const nlohmann::json json = parse_strict_json(read_file(file_, "machine profile"), file_.string(), kDepth, ExitCode::config);
    if (!json.is_object() || !json.contains("format") || json["format"] != kFormat)
      refuse(fmt::format("not a machine profile: no \"format\": \"{}\"", kFormat));
    if (const auto version = at(json, "version"); version != kVersion)
      refuse(fmt::format("version {} of the format, and this program reads {}", version.dump(), kVersion));
    MachineProfile profile;
    profile.measured = true;
    profile.name = text(json, "name");
    profile.basis = text(json, "basis");
    profile.device = device(text(json, "device"));
    profile.memory = static_cast<Bytes>(number(json, "memory_bytes", 0.0));
    if (json.contains("host_memory_bytes")) profile.host_memory = static_cast<Bytes>(number(json, "host_memory_bytes", 0.0));
    profile.ranks_per_node = static_cast<int>(number(json, "ranks_per_node", 1.0, 1e6));
    profile.hidden = number(json, "hidden_share", 0.0, 1.0);
    profile.node = link(at(json, "node_link"));
    profile.network = link(at(json, "network_link"));
    if (json.contains("host_bytes_per_second")) profile.host_bytes_per_second = number(json, "host_bytes_per_second", 0.0);
    for (const auto& one : list(json, "ops")) profile.ops.push_back(op(one));
    if (!profile.ops.empty() && !list(json, "ops").front().contains("grid")) recognise_grids(profile.ops);
    for (const auto& one : list(json, "collectives")) profile.collectives.push_back(collective(one));
    for (const char* needed : {"linear_forward", "attention_forward", "add"}) {
      const bool there =
          std::any_of(profile.ops.begin(), profile.ops.end(), [&](const OpSample& one) { return one.op == needed; });
      if (!there) refuse(fmt::format("no measurement of {}", needed));
    }
    return profile;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { fail(ExitCode::config, "{}: {}; {}", file_.string(), what, kAgain); }
  const nlohmann::json& at(const nlohmann::json& json, const char* key) const {
    if (!json.is_object() || !json.contains(key)) refuse(fmt::format("no \"{}\"", key));
    return json[key];
  }
  const nlohmann::json& list(const nlohmann::json& json, const char* key) const {
    if (!at(json, key).is_array()) refuse(fmt::format("\"{}\" is no list", key));
    return json[key];
  }
  std::string text(const nlohmann::json& json, const char* key) const {
    if (!at(json, key).is_string()) refuse(fmt::format("\"{}\" is no text", key));
    return json[key].get<std::string>();
  }
  double number(const nlohmann::json& json, const char* key, double low, double high = 1e30) const {
    const nlohmann::json& value = at(json, key);
    const double number = value.is_number() ? value.get<double>() : std::nan("");
    if (!(number >= low && number <= high))
      refuse(fmt::format("\"{}\" is {}: a number from {} to {} is expected", key, value.dump(), low, high));
    return number;
  }
  DeviceKind device(const std::string& name) const {
    if (name != "cpu" && name != "cuda") refuse(fmt::format("\"device\" is \"{}\": cpu or cuda is expected", name));
    return name == "cuda" ? DeviceKind::gpu : DeviceKind::cpu;
  }
  LinkRates link(const nlohmann::json& json) const {
    return {number(json, "hop_seconds", 0.0), number(json, "bytes_per_second", 0.0)};
  }
  OpSample op(const nlohmann::json& json) const {
    OpSample sample;
    sample.op = text(json, "op");
    const std::string kind = text(json, "kind");
    bool known = false;
    for (const auto& [one, name] : kKindNames) {
      if (name != kind) continue;
      sample.kind = one;
      known = true;
    }
    if (!known) refuse(fmt::format("op kind \"{}\" is not known", kind));
    sample.dtype = dtype_from_name(text(json, "type"));
    sample.tf32 = at(json, "tf32") == true;
    for (const auto& [key, count] : {std::pair{"m", &OpSample::m}, {"n", &OpSample::n}, {"k", &OpSample::k}})
      sample.*count = static_cast<Count>(number(json, key, 0.0, 1e15));
    sample.flops = number(json, "flops", 0.0);
    sample.bytes = number(json, "bytes", 1.0);
    sample.seconds = number(json, "seconds", 1e-12, 1e6);
    sample.grid = json.contains("grid") && json["grid"] == true;
    if (sample.grid && sample.n < 1) refuse(fmt::format("{} is measured in a grid, but not on rows: its \"n\" is 0", sample.op));
    return sample;
  }
  CollectiveSample collective(const nlohmann::json& json) const {
    return {text(json, "operation"), static_cast<int>(number(json, "ranks", 2.0, 1e9)),
            static_cast<int>(number(json, "nodes", 1.0, 1e9)), static_cast<Bytes>(number(json, "bytes", 1.0)),
            number(json, "seconds", 1e-12, 1e6)};
  }

  std::filesystem::path file_;
};

}  // namespace

std::string to_json(const MachineProfile& profile) {
  ordered_json json{{"format", kFormat},
                    {"version", kVersion},
                    {"name", profile.name},
                    {"basis", profile.basis},
                    {"device", profile.device == DeviceKind::gpu ? "cuda" : "cpu"},
                    {"memory_bytes", profile.memory},
                    {"host_memory_bytes", profile.host_memory},
                    {"ranks_per_node", profile.ranks_per_node},
                    {"hidden_share", profile.hidden},
                    {"node_link", json_of(profile.node)},
                    {"network_link", json_of(profile.network)},
                    {"host_bytes_per_second", profile.host_bytes_per_second},
                    {"collectives", ordered_json::array()},
                    {"ops", ordered_json::array()}};
  for (const CollectiveSample& one : profile.collectives) json["collectives"].push_back(json_of(one));
  for (const OpSample& one : profile.ops) json["ops"].push_back(json_of(one));
  return json.dump(1) + "\n";
}

MachineProfile read_profile(const std::filesystem::path& file) { return ProfileReader(file).read(); }

}  // namespace cohort
