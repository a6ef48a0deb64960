// A run's folder as a run writes it, for tests that read one.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/units.hpp"
#include "support/temporary_folder.hpp"

namespace cohort::test {

class RunFolder {
 public:
  explicit RunFolder(const std::string& name = "run") : path_(folder_ / name) { make_folders(path_); }
  const std::filesystem::path& path() const { return path_; }
  /// Appends to a file of the folder.
  void append(const std::string& file, const std::string& text) const { std::ofstream(path_ / file, std::ios::app) << text; }
  /// A record of metrics.jsonl for each loss, from step `first` on.
  void losses(const std::vector<double>& losses, Count first = 1) const {
    for (const double loss : losses)
      append("metrics.jsonl",
             fmt::format("{{\"step\":{},\"loss\":{},\"tokens\":10,\"seconds\":{{\"step\":0.5,\"forward\":0.25}}}}\n", first++,
                         loss));
  }

 private:
  TemporaryFolder folder_;
  std::filesystem::path path_;
};

}  // namespace cohort::test
