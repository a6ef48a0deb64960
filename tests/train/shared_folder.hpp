// A folder that all ranks of a test share; removed when the test ends.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "support/temporary_folder.hpp"

namespace cohort::test {

class SharedFolder {
 public:
  /// Rank 0 makes it. // Collective over: world
  explicit SharedFolder(Communicator& world) : world_(world) {
    std::vector<char> name(4096);
    if (world.rank() == 0) {
      own_.emplace();
      own_->path().string().copy(name.data(), name.size() - 1);
    }
    broadcast(world, std::span<std::uint8_t>(reinterpret_cast<std::uint8_t*>(name.data()), name.size()), 0);
    path_ = name.data();
  }
  /// Rank 0 removes it when all are done with it. // Collective over: world
  ~SharedFolder() { world_.barrier(); }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  Communicator& world_;
  std::optional<TemporaryFolder> own_;  // rank 0
  std::filesystem::path path_;
};

}  // namespace cohort::test
