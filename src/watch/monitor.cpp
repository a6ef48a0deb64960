#include "watch/monitor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "observe/clock.hpp"

namespace cohort {
namespace {

using Json = nlohmann::json;

constexpr double kConnectSeconds = 10.0;

// A connection to each rank is an open file, of which many systems let a process have 1024 unless it asks for more.
void allow_connections(int count) {
  constexpr rlim_t kForMpiAndFiles = 128;
  const rlim_t wanted = kForMpiAndFiles + Rendezvous::kMostPending + static_cast<rlim_t>(count);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= wanted) return;
  if (limit.rlim_max < wanted) {
    fail(ExitCode::launch,
         "rank 0 watches {} ranks and needs {} open files for that, but may have {} (ulimit -Hn): raise that limit", count,
         wanted, limit.rlim_max);
  }
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Monitor::Monitor(Options options) : options_(std::move(options)), timeout_(options_.timeout) {
  COHORT_CHECK(pipe(wake_.data()) == 0, "no pipe for the monitor: {}", std::strerror(errno));
  for (const int end : wake_) fcntl(end, F_SETFD, FD_CLOEXEC);
  if (options_.rank != 0 || options_.size == 1) return;
  allow_connections(options_.size);
  rendezvous_ = std::make_unique<Rendezvous>(options_.addresses, options_.size);
  peers_.resize(static_cast<std::size_t>(options_.size));
  peers_[0].expected = false;
}

Monitor::~Monitor() {
  ending_ = true;
  [[maybe_unused]] const ssize_t written = write(wake_[1], "", 1);  // an empty pipe has room for a byte
  if (thread_.joinable()) thread_.join();
  for (Peer& peer : peers_) peer.socket.send("bye");
  server_.send(Json{{"bye", true}}.dump());
  for (const int end : wake_) close(end);
}

std::string Monitor::open() {
  Json json{{"endpoints", Json::array()}, {"token", rendezvous_->token()}, {"host", options_.host}, {"process", getpid()}};
  for (const Endpoint& endpoint : rendezvous_->endpoints()) json["endpoints"].push_back({endpoint.address, endpoint.port});
  thread_ = std::thread([this] { run(&Monitor::run_server); });
  return json.dump();
}

bool Monitor::connect(const std::string& address) {
  const Json json = Json::parse(address);
  rank_0_.host = json.at("host");
  rank_0_.process = json.at("process");
  std::vector<Endpoint> endpoints;
  for (const Json& endpoint : json.at("endpoints")) endpoints.push_back({endpoint.at(0), endpoint.at(1)});
  const Hello hello{options_.rank, options_.host, getpid()};
  server_ =
      LineSocket::connect(endpoints, to_line(hello, json.at("token").get<std::string>()), Rendezvous::kWelcome, kConnectSeconds);
  return server_.is_open();
}

void Monitor::start(const std::vector<int>& unreachable) {
  if (options_.size == 1) return;
  if (options_.rank != 0) {
    if (server_.is_open()) thread_ = std::thread([this] { run(&Monitor::run_client); });
    return;
  }
  liveness_ = std::make_unique<Liveness>(options_.size, steady_seconds());
  for (const int rank : unreachable) liveness_->left(rank, true);
  started_ = true;
}

void Monitor::run(void (Monitor::*loop)()) {
  try {
    (this->*loop)();
  } catch (const std::exception& error) {
    options_.say(fmt::format("warning: rank {} is no longer watched: {}", options_.rank, error.what()));
    server_.send(Json{{"bye", true}}.dump());
    for (Peer& peer : peers_) peer.socket.send("bye");
  }
}

void Monitor::set_folder(const std::filesystem::path& folder) {
  {
    const std::lock_guard lock(folder_mutex_);
    folder_ = folder;
  }
  if (folder.empty()) return;
  std::error_code ignored;  // what cannot be removed is overwritten, or tells its time
  std::filesystem::create_directories(folder, ignored);
  std::filesystem::remove(dump_file(folder, options_.rank), ignored);
  std::filesystem::remove(dump_file(folder, options_.rank) += ".tmp", ignored);  // of one that died while it wrote
  if (options_.rank == 0) remove_verdict(folder, options_.size);
  FlightRecorder::of_process().keep_in(kept_file(folder, options_.rank));
}

void Monitor::look_up(RankReport& report, std::uint64_t changes) const {
  const std::filesystem::path from = folder();
  if (from.empty()) return;
  const std::optional<KeptState> kept = read_kept_state(kept_file(from, report.rank));
  if (!kept || kept->process != report.process || kept->changes <= changes) return;
  report.step = kept->step;
  report.activity = kept->activity;
}

std::filesystem::path Monitor::folder() const {
  const std::lock_guard lock(folder_mutex_);
  return folder_;
}

double Monitor::interval() const { return timeout_ > 0.0 ? std::clamp(timeout_ / 20.0, 0.05, 1.0) : 1.0; }

RankReport Monitor::report() const { return make_report(options_.rank, options_.host, FlightRecorder::of_process()); }

std::string Monitor::beat() const {
  const FlightRecorder::State state = FlightRecorder::of_process().state();
  const std::string doing = state.waiting.empty() ? std::string(state.activity) : "waiting in " + state.waiting.front().str();
  return Json{{"beat", state.progress}, {"step", state.step}, {"doing", doing}, {"changes", state.changes}}.dump();
}

void Monitor::try_to_dump(const RankReport& report) const {
  const std::filesystem::path to = folder();
  if (to.empty()) return;
  try {
    write_dump(to, report, FlightRecorder::of_process());
  } catch (const std::exception&) {  // a full disk may be why the job ends
  }
}

}  // namespace cohort
