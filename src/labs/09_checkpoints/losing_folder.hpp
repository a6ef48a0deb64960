// A folder that loses power at any point, and then shows any of the states that <cohort/lab09_checkpoints.hpp> allows.
#pragma once

#include <cohort/lab09_checkpoints.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "labs/grading/grading.hpp"

namespace cohort::labs::lab09_checkpoints {

/// What stops a save. No std::exception, so that a learner who catches those does not survive it.
struct PowerLost {};

class LosingFolder : public lab::DiskFolder {
 public:
  /// What happened to content that was not flushed.
  enum class Content { lost, half, whole };

  void write(const std::string& name, std::string_view content) override {
    act(fmt::format("write(\"{}\")", name));
    if (content.size() > largest_write)
      reject("a write of {} bytes: a rank writes its part alone, {} at most", content.size(), largest_write);
    auto& file = names_[name];
    if (!file) {
      file = std::make_shared<File>();
      pending_.push_back({.name = name, .file = file, .gone = std::nullopt});
    }
    file->content = content;
    file->is_flushed = false;
  }
  void flush(const std::string& name) override {
    File& file = *found(name, "flush");
    act(fmt::format("flush(\"{}\")", name));
    file.flushed = file.content;
    file.is_flushed = true;
  }
  void flush_names() override {
    act("flush_names()");
    on_disk_ = names_;
    pending_.clear();
  }
  void rename(const std::string& from, const std::string& to) override {
    const std::shared_ptr<File> file = found(from, "rename");
    act(fmt::format("rename(\"{}\", \"{}\")", from, to));
    if (from == to) return;
    names_[to] = file;
    names_.erase(from);
    pending_.push_back({.name = to, .file = file, .gone = from});
  }
  void remove(const std::string& name) override {
    found(name, "remove");
    act(fmt::format("remove(\"{}\")", name));
    names_.erase(name);
    pending_.push_back({.name = {}, .file = nullptr, .gone = name});
  }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const auto& [name, file] : names_) all.push_back(name);
    return all;
  }
  bool exists(const std::string& name) override { return names_.count(name) != 0; }
  std::string read(const std::string& name) override { return found(name, "read")->content; }

  /// How many states the names can be in after a crash now; the last of them is that of all.
  std::size_t name_states() const { return std::size_t{1} << std::min<std::size_t>(pending_.size(), kMostFree); }

  /// The folder after a crash now: of the pending changes of names those are on the disk whose bit is set in `state`.
  LosingFolder after_crash(std::size_t state, Content content) const {
    LosingFolder folder;
    std::map<const File*, std::shared_ptr<File>> copies;
    auto names = on_disk_;
    // Of very many changes the first ones are taken as done: their combinations would be too many.
    const std::size_t done = pending_.size() > kMostFree ? pending_.size() - kMostFree : 0;
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      if (i >= done && ((state >> (i - done)) & 1U) == 0) continue;
      if (pending_[i].gone) names.erase(*pending_[i].gone);
      if (pending_[i].file) names[pending_[i].name] = pending_[i].file;
    }
    for (const auto& [name, file] : names) {
      auto& copy = copies[file.get()];
      if (!copy) copy = std::make_shared<File>(file->crashed(content));
      folder.names_[name] = copy;
    }
    folder.on_disk_ = folder.names_;
    return folder;
  }

  int actions = 0;                // that have changed something
  int power_lost_at = -1;         // before this action; -1: never
  std::size_t largest_write = 0;  // in bytes
  std::string last_action = "its begin";

 private:
  static constexpr std::size_t kMostFree = 7;  // pending changes whose 2^7 combinations are tried

  struct File {
    std::string content, flushed;
    bool is_flushed = false;

    File crashed(Content what) const {
      std::string left = is_flushed || what == Content::whole ? content
                         : what == Content::lost              ? flushed
                                                              : content.substr(0, content.size() / 2);
      return {.content = left, .flushed = left, .is_flushed = true};
    }
  };
  struct Change {
    std::string name;
    std::shared_ptr<File> file;       // that the name is given to; null: to none
    std::optional<std::string> gone;  // the name that goes
  };

  void act(const std::string& words) {
    if (actions == power_lost_at) throw PowerLost();
    ++actions;
    last_action = words;
  }
  const std::shared_ptr<File>& found(const std::string& name, const char* what) const {
    const auto file = names_.find(name);
    if (file == names_.end()) throw std::runtime_error(fmt::format("{}: there is no file \"{}\"", what, name));
    return file->second;
  }

  std::map<std::string, std::shared_ptr<File>> names_, on_disk_;
  std::vector<Change> pending_;
};

}  // namespace cohort::labs::lab09_checkpoints
