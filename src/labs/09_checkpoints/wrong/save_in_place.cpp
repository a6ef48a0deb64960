// save_atomically: is loaded
#include <algorithm>
#include <cmath>
#include <cohort/lab09_checkpoints.hpp>
#include <cstring>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

using cohort::lab::DiskFolder;
using cohort::lab::Link;

// Each part always has the same name: a crash leaves old and new ones mixed.
void save_atomically(DiskFolder& folder, std::span<const std::string> parts) {
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::string name = "part_" + std::to_string(part);
    folder.write(name, parts[part]);
    folder.flush(name);
  }
  folder.write("count", std::to_string(parts.size()));
  folder.flush("count");
  folder.flush_names();
  for (const std::string& name : folder.names()) {
    if (name.starts_with("part_") && std::stoul(name.substr(5)) >= parts.size()) folder.remove(name);
  }
}

bool load_newest(DiskFolder& folder, std::vector<std::string>& parts) {
  if (!folder.exists("count")) return false;
  const std::string count = folder.read("count");
  if (count.empty()) return false;
  parts.clear();
  for (std::size_t part = 0; part < std::stoul(count); ++part) {
    const std::string name = "part_" + std::to_string(part);
    parts.push_back(folder.exists(name) ? folder.read(name) : "");
  }
  return true;
}
