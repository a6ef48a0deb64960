#include "preflight/measurements_json.hpp"

#include <array>
#include <nlohmann/json.hpp>

namespace cohort::preflight {
namespace {

using nlohmann::ordered_json;

template <class Value>
ordered_json maybe(const std::optional<Value>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

template <class Value>
std::optional<Value> maybe(const ordered_json& json) {
  return json.is_null() ? std::nullopt : std::optional<Value>(json.get<Value>());
}

ordered_json json_of(const Gpu& gpu) {
  return {{"pci_id", gpu.pci_id},
          {"name", gpu.name},
          {"problem", gpu.problem},
          {"to_device_bytes_per_s", gpu.to_device},
          {"from_device_bytes_per_s", gpu.from_device},
          {"memory_bytes_per_s", gpu.memory},
          {"celsius", maybe(gpu.celsius)},
          {"clock_mhz", maybe(gpu.clock_mhz)},
          {"max_clock_mhz", maybe(gpu.max_clock_mhz)},
          {"slowed", gpu.slowed},
          {"slowed_by_fault", gpu.slowed_by_fault},
          {"uncorrected_errors", maybe(gpu.uncorrected_errors)},
          {"remap_pending", gpu.remap_pending},
          {"remap_failed", gpu.remap_failed}};
}

Gpu gpu_of(const ordered_json& json) {
  Gpu gpu;
  json.at("pci_id").get_to(gpu.pci_id);
  json.at("name").get_to(gpu.name);
  json.at("problem").get_to(gpu.problem);
  json.at("to_device_bytes_per_s").get_to(gpu.to_device);
  json.at("from_device_bytes_per_s").get_to(gpu.from_device);
  json.at("memory_bytes_per_s").get_to(gpu.memory);
  gpu.celsius = maybe<int>(json.at("celsius"));
  gpu.clock_mhz = maybe<int>(json.at("clock_mhz"));
  gpu.max_clock_mhz = maybe<int>(json.at("max_clock_mhz"));
  json.at("slowed").get_to(gpu.slowed);
  json.at("slowed_by_fault").get_to(gpu.slowed_by_fault);
  gpu.uncorrected_errors = maybe<Count>(json.at("uncorrected_errors"));
  json.at("remap_pending").get_to(gpu.remap_pending);
  json.at("remap_failed").get_to(gpu.remap_failed);
  return gpu;
}

ordered_json json_of(const GpuPair& pair) {
  return {{"from", pair.from}, {"to", pair.to}, {"peer_access", pair.peer_access}, {"bytes_per_s", pair.speed}};
}

GpuPair pair_of(const ordered_json& json) {
  return {json.at("from").get<std::string>(), json.at("to").get<std::string>(), json.at("peer_access").get<bool>(),
          json.at("bytes_per_s").get<double>()};
}

ordered_json json_of(const Link& link) {
  return {{"a", link.a}, {"b", link.b}, {"latency_s", link.latency}, {"bytes_per_s", link.speed}};
}

Link link_of(const ordered_json& json) {
  return {json.at("a").get<int>(), json.at("b").get<int>(), json.at("latency_s").get<double>(),
          json.at("bytes_per_s").get<double>()};
}

ordered_json json_of(const Disk& disk) {
  return {{"folder", disk.folder},
          {"problem", disk.problem},
          {"write_bytes_per_s", disk.write},
          {"read_bytes_per_s", disk.read},
          {"free_bytes", disk.free}};
}

Disk disk_of(const ordered_json& json) {
  return {json.at("folder").get<std::string>(), json.at("problem").get<std::string>(), json.at("write_bytes_per_s").get<double>(),
          json.at("read_bytes_per_s").get<double>(), json.at("free_bytes").get<Bytes>()};
}

template <class Item>
ordered_json list_of(const std::vector<Item>& items) {
  ordered_json list = ordered_json::array();
  for (const Item& item : items) list.push_back(json_of(item));
  return list;
}

template <class Read>
auto items_of(const ordered_json& list, const Read& read) {
  std::vector<decltype(read(list))> items;
  for (const ordered_json& item : list) items.push_back(read(item));
  return items;
}

// The plain members of a node, and their names in JSON.
constexpr std::array<std::pair<const char*, std::string Node::*>, 8> kTexts{{{"host", &Node::host},
                                                                             {"program", &Node::program},
                                                                             {"mpi", &Node::mpi},
                                                                             {"driver", &Node::driver},
                                                                             {"driver_cuda", &Node::driver_cuda},
                                                                             {"runtime_cuda", &Node::runtime_cuda},
                                                                             {"nccl", &Node::nccl},
                                                                             {"transports", &Node::transports}}};
constexpr std::array<std::pair<const char*, Bytes Node::*>, 4> kSizes{{{"memory_total_bytes", &Node::memory_total},
                                                                       {"memory_available_bytes", &Node::memory_available},
                                                                       {"shm_total_bytes", &Node::shm_total},
                                                                       {"shm_free_bytes", &Node::shm_free}}};

}  // namespace

ordered_json to_json(const Node& node) {
  ordered_json json{{"number", node.number}, {"ranks", node.ranks}, {"cores", node.cores}};
  for (const auto& [name, member] : kTexts) json[name] = node.*member;
  for (const auto& [name, member] : kSizes) json[name] = node.*member;
  json["open_files"] = maybe(node.open_files);
  json["locked_memory_bytes"] = maybe(node.locked_memory);
  json["fabric"] = node.fabric;
  json["clock_offset_s"] = node.clock_offset;
  json["clock_error_s"] = node.clock_error;
  json["disk"] = node.disk ? json_of(*node.disk) : ordered_json(nullptr);
  json["links"] = list_of(node.links);
  json["expected_gpus"] = maybe(node.expected_gpus);
  json["no_gpu"] = node.no_gpu;
  json["gpus"] = list_of(node.gpus);
  json["gpu_pairs"] = list_of(node.pairs);
  return json;
}

Node node_from_json(const ordered_json& json) {
  Node node;
  json.at("number").get_to(node.number);
  json.at("ranks").get_to(node.ranks);
  json.at("cores").get_to(node.cores);
  for (const auto& [name, member] : kTexts) json.at(name).get_to(node.*member);
  for (const auto& [name, member] : kSizes) json.at(name).get_to(node.*member);
  node.open_files = maybe<Count>(json.at("open_files"));
  node.locked_memory = maybe<Bytes>(json.at("locked_memory_bytes"));
  json.at("fabric").get_to(node.fabric);
  json.at("clock_offset_s").get_to(node.clock_offset);
  json.at("clock_error_s").get_to(node.clock_error);
  if (!json.at("disk").is_null()) node.disk = disk_of(json.at("disk"));
  node.links = items_of(json.at("links"), link_of);
  node.expected_gpus = maybe<int>(json.at("expected_gpus"));
  json.at("no_gpu").get_to(node.no_gpu);
  node.gpus = items_of(json.at("gpus"), gpu_of);
  node.pairs = items_of(json.at("gpu_pairs"), pair_of);
  return node;
}

}  // namespace cohort::preflight
