#include "logs/deduplicate.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "watch/diagnosis.hpp"

namespace cohort {
namespace {

constexpr std::size_t kTimeLength = 24;  // of "2025-03-01T12:00:00.250Z"

}  // namespace

void LogDeduplicator::add(LogRecord&& record) {
  while (!held_.empty() && (record.time - held_.front().first.time > kWindow || held_.size() >= kMostHeld)) release();
  const std::string message(record.what());
  if (const auto found = last_.find(message); found != last_.end()) {
    Group& group = held_[static_cast<std::size_t>(found->second - released_)];
    const bool spoke = std::find(group.ranks.begin(), group.ranks.end(), record.rank) != group.ranks.end();
    if (!spoke && group.first.level == record.level && (group.first.message > 0) == (record.message > 0)) {
      group.ranks.push_back(record.rank);
      return;
    }
  }
  last_[message] = released_ + held_.size();
  const int rank = record.rank;
  held_.push_back({std::move(record), {rank}});
}

void LogDeduplicator::release() {
  Group group = std::move(held_.front());
  held_.pop_front();
  const auto found = last_.find(std::string(group.first.what()));
  if (found != last_.end() && found->second == released_) last_.erase(found);
  ++released_;
  if (group.ranks.size() > 1 && group.first.message > 0) {
    std::sort(group.ranks.begin(), group.ranks.end());
    const std::string header =
        fmt::format("{} {} {}: ", group.first.text.substr(0, kTimeLength), name_of(group.first.level), name_ranks(group.ranks));
    group.first.text.replace(0, group.first.message, header);
    group.first.message = header.size();
  }
  sink_(std::move(group.first));
}

void LogDeduplicator::flush() {
  while (!held_.empty()) release();
}

}  // namespace cohort
