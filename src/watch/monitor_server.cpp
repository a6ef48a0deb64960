// The monitor's thread on rank 0, which judges.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "base/file.hpp"
#include "observe/clock.hpp"
#include "observe/log.hpp"
#include "watch/monitor.hpp"
#include "watch/process_state.hpp"

namespace cohort {

using Json = nlohmann::json;

std::vector<int> Monitor::descriptors() const {
  std::vector<int> all = rendezvous_ ? rendezvous_->descriptors() : std::vector<int>{};
  all.push_back(wake_[0]);
  // Those who are early are heard when the watch begins.
  for (const Peer& peer : peers_) {
    if (started_ && peer.socket.is_open()) all.push_back(peer.socket.descriptor());
  }
  return all;
}

void Monitor::admit(double now) {
  if (!rendezvous_) return;
  const auto wanted = [this](int rank) { return peers_[static_cast<std::size_t>(rank)].expected; };
  for (Rendezvous::Guest& guest : rendezvous_->admit(now, wanted)) {
    Peer& peer = peers_[static_cast<std::size_t>(guest.hello.rank)];
    peer.socket = std::move(guest.socket);
    peer.expected = false;
    peer.report.rank = guest.hello.rank;
    peer.report.host = guest.hello.host;
    peer.report.process = guest.hello.process;
  }
  // Whom start() called unreachable has given up, and whom it did not has been let in.
  if (started_) rendezvous_.reset();
}

bool Monitor::take(int rank, const std::string& line, double now) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  try {
    const Json json = Json::parse(line);
    if (json.contains("beat")) {
      RankReport report = peer.report;
      report.step = json.at("step");
      report.activity = json.at("doing");
      peer.changes = json.at("changes");
      liveness_->heard(rank, json["beat"], now);
      peer.report = std::move(report);
    } else if (json.contains("report")) {
      RankReport report = report_from(json["report"]);
      report.rank = rank;
      peer.report = std::move(report);
      peer.reported = true;
    } else if (json.contains("process")) {
      const std::string state = json.at("state");
      for (Peer& other : peers_) {
        if (other.report.host == peer.report.host && other.report.process == json["process"]) other.process_state = state;
      }
    } else if (json.contains("bye")) {
      liveness_->left(rank, true);
      peer.socket.close();
      return true;
    }
  } catch (const Json::exception& error) {  // it does not count as heard
    if (!std::exchange(peer.garbled, true))
      options_.say(fmt::format("warning: rank {} sent the monitor an unreadable message: {}", rank, error.what()));
  }
  return false;
}

void Monitor::hear(const std::vector<int>& ready, double now) {
  const std::set<int> descriptors(ready.begin(), ready.end());
  for (int rank = 1; rank < options_.size; ++rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (!peer.socket.is_open() || !descriptors.contains(peer.socket.descriptor())) continue;
    const std::vector<std::string> lines = peer.socket.receive();
    const bool ended = !peer.socket.is_open();
    bool in_order = false;
    for (const std::string& line : lines) in_order = take(rank, line, now) || in_order;
    if (ended && !in_order) liveness_->left(rank, false);
  }
}

void Monitor::run_server() {
  while (!started_ && !ending_) {
    wait_for_input(descriptors(), 0.05);
    admit(steady_seconds());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // a core is not a stranger's who never stops sending
  }
  double last = steady_seconds();
  double told = 0.0;
  while (!ending_) {
    const std::vector<int> ready = wait_for_input(descriptors(), interval());
    const double now = steady_seconds();
    // It did not run for far longer than it asked for: all were suspended, or this host was too busy to judge others.
    if (now - last > 5.0 * interval() + 1.0) {
      liveness_->pardon(now);
      resumed_ = now;
    }
    last = now;
    admit(now);
    hear(ready, now);
    liveness_->heard(0, FlightRecorder::of_process().progress(), now);
    if (now - told > interval()) {
      for (Peer& peer : peers_) peer.socket.send("tick");
      told = now;
    }
    if (timeout_ > 0.0 && liveness_->is_lost(limit(), now)) return conclude(now);
    // So that a thousand ranks wake this thread some fifty times a second and not a thousand times.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void Monitor::ask_for_reports(double seconds, double now) {
  for (int rank = 1; rank < options_.size; ++rank) {
    peers_[static_cast<std::size_t>(rank)].socket.send("report");
    if (liveness_->link(rank, limit(), now) == RankView::Link::heard) continue;
    // Somebody who shares its host can say what became of its process.
    const RankReport& lost = peers_[static_cast<std::size_t>(rank)].report;
    if (lost.host == options_.host) {
      peers_[static_cast<std::size_t>(rank)].process_state = process_state(lost.process);
      continue;
    }
    const auto neighbour = std::find_if(peers_.begin(), peers_.end(), [&](const Peer& peer) {
      return peer.socket.is_open() && peer.report.host == lost.host && peer.report.process != lost.process;
    });
    if (neighbour != peers_.end()) neighbour->socket.send(fmt::format("look {}", lost.process));
  }
  const double end = now + seconds;
  const auto all_reported = [&] {
    for (int rank = 1; rank < options_.size; ++rank) {
      const bool heard = liveness_->link(rank, limit(), now) == RankView::Link::heard;
      if (heard && peers_[static_cast<std::size_t>(rank)].socket.is_open() && !peers_[static_cast<std::size_t>(rank)].reported)
        return false;
    }
    return true;
  };
  while (steady_seconds() < end && !all_reported()) {
    hear(wait_for_input(descriptors(), 0.05), steady_seconds());
  }
}

void Monitor::conclude(double now) {
  peers_[0].report = report();
  // What the launcher does about a process that has ended leaves a second at most; nobody is in a hurry otherwise.
  const bool one_is_gone = [&] {
    for (int rank = 0; rank < options_.size; ++rank) {
      if (liveness_->link(rank, limit(), now) == RankView::Link::gone) return true;
    }
    return false;
  }();
  // The others have ended because this rank was stopped; what they found is right, and what it looks like from here is not.
  constexpr double kOthersNeed = 10.0;
  if (one_is_gone && now - resumed_ < kOthersNeed) return options_.end_job();
  ask_for_reports(one_is_gone ? 0.3 : std::min(2.0, 0.1 * timeout_), now);
  std::vector<RankView> views;
  for (int rank = 0; rank < options_.size; ++rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (rank != 0 && !peer.reported) look_up(peer.report, peer.changes);
    // All ranks of a lost node, also those whose silence began a moment later.
    const double silence = peer.reported ? limit() : std::min(limit(), 4.0 * interval());
    views.push_back(
        {peer.report, liveness_->link(rank, silence, now), liveness_->seconds_since_heard(rank, now), peer.process_state});
  }
  const Diagnosis diagnosis = diagnose(views, liveness_->seconds_still(now));
  const std::filesystem::path to = folder();
  log_error(diagnosis.text);
  options_.say(diagnosis.text +
               (to.empty() ? "" : fmt::format("\n  What each rank did last: cohort doctor {}", to.parent_path().string())));
  try_to_dump(peers_[0].report);
  if (!to.empty()) {
    Json verdict{{"time", utc_timestamp()}, {"text", diagnosis.text}, {"culprits", diagnosis.culprits}, {"ranks", Json::array()}};
    for (const RankView& view : views) {
      Json json = to_json(view.report);
      json["link"] = view.link == RankView::Link::heard ? "heard" : view.link == RankView::Link::silent ? "silent" : "gone";
      verdict["ranks"].push_back(std::move(json));
    }
    try {
      write_file_atomically(to / "verdict.json", verdict.dump(1) + "\n");
    } catch (const std::exception&) {  // it was said on the console
    }
  }
  for (Peer& peer : peers_) peer.socket.send("end");
  options_.end_job();
}

}  // namespace cohort
