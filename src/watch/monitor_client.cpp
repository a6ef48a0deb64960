// The monitor's thread on the other ranks, which reports to rank 0 and watches that it is there.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include "observe/clock.hpp"
#include "observe/log.hpp"
#include "watch/monitor.hpp"
#include "watch/process_state.hpp"

namespace cohort {

using Json = nlohmann::json;

namespace {

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace

bool Monitor::answer(const std::string& line) {
  if (line == "report") {
    const RankReport own = report();
    server_.send(Json{{"report", to_json(own)}}.dump());
    try_to_dump(own);
  } else if (line.starts_with("look ")) {
    std::int64_t process = 0;
    std::from_chars(line.data() + 5, line.data() + line.size(), process);
    server_.send(Json{{"process", process}, {"state", process_state(process)}}.dump());
  } else if (line == "end") {
    sleep_for(3.0);  // the job ends from rank 0; if not
    options_.end_job();
  }
  return line != "bye";
}

void Monitor::run_client() {
  double heard = steady_seconds(), last = heard, told = 0.0;
  while (!ending_) {
    wait_for_input({wake_[0], server_.descriptor()}, interval());
    const double now = steady_seconds();
    if (now - last > 5.0 * interval() + 1.0) heard = now;  // this process was suspended
    last = now;
    const std::vector<std::string> lines = server_.receive();
    if (!lines.empty()) heard = now;
    for (const std::string& line : lines) {
      if (!answer(line)) return;
    }
    if (timeout_ > 0.0 && (!server_.is_open() || now - heard > limit()))
      return end_without_rank_0(!server_.is_open(), now - heard);
    if (!server_.is_open()) return;
    if (now - told > interval()) {
      server_.send(beat());
      told = now;
    }
  }
}

// Rank 1 speaks, or rank 2 if rank 1 cannot; the rest end when nobody has ended them.
void Monitor::end_without_rank_0(bool gone, double silence) {
  try_to_dump(report());
  // Time for the others to find out and to write their dumps, too.
  sleep_for((gone ? 0.0 : interval()) + 0.2 + 2.0 * std::min(options_.rank - 1, 2));
  if (ending_) return;  // the process ends in order
  if (options_.rank <= 2) {
    const std::string state = rank_0_.host == options_.host ? process_state(rank_0_.process) : "";
    look_up(rank_0_, 0);
    RankView view{rank_0_, gone ? RankView::Link::gone : RankView::Link::silent, silence, state};
    const std::string text = describe(view, static_cast<std::size_t>(options_.size));
    log_error(text);
    options_.say(fmt::format("{}\n  rank {} is {}", text, options_.rank, name_step(FlightRecorder::of_process().state().step)));
  }
  options_.end_job();
}

}  // namespace cohort
