#include "watch/monitor.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/error.hpp"
#include "observe/clock.hpp"

namespace cohort {
namespace {

using Json = nlohmann::json;

constexpr double kConnectSeconds = 10.0;

std::uint64_t random_token() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) ^ device();
}

// A connection to each rank is an open file, of which many systems let a process have 1024 unless it asks for more.
void allow_connections(int count) {
  const rlim_t wanted = 128 + static_cast<rlim_t>(count);  // 128: for MPI, HDF5 and logs
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= wanted) return;
  if (limit.rlim_max < wanted) {
    fail(ExitCode::launch,
         "rank 0 watches {} ranks, for which it needs {} open files, and may have {} (ulimit -Hn): raise that limit", count,
         wanted, limit.rlim_max);
  }
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Monitor::Monitor(Options options) : options_(std::move(options)), timeout_(options_.timeout), wake_(eventfd(0, EFD_CLOEXEC)) {
  if (options_.rank != 0 || options_.size == 1) return;
  token_ = random_token();
  allow_connections(options_.size);
  listener_ = std::make_unique<LineListener>();
  peers_.resize(static_cast<std::size_t>(options_.size));
}

Monitor::~Monitor() {
  ending_ = true;
  eventfd_write(wake_, 1);
  if (thread_.joinable()) thread_.join();
  for (Peer& peer : peers_) peer.socket.send("bye");
  server_.send(Json{{"bye", true}}.dump());
  close(wake_);
}

std::string Monitor::address() const {
  return Json{{"addresses", own_addresses()},
              {"port", listener_->port()},
              {"token", token_},
              {"host", options_.host},
              {"process", getpid()}}
      .dump();
}

bool Monitor::connect(const std::string& address) {
  const Json json = Json::parse(address);
  rank_0_.host = json.at("host");
  rank_0_.process = json.at("process");
  auto addresses = json.at("addresses").get<std::vector<std::string>>();
  if (rank_0_.host != options_.host) addresses.pop_back();  // another host's 127.0.0.1
  server_ = LineSocket::connect(addresses, json.at("port"), kConnectSeconds);
  return server_.send(Json{{"hello", json.at("token")}, {"rank", options_.rank}, {"report", to_json(report())}}.dump());
}

void Monitor::start(const std::vector<int>& unreachable) {
  if (options_.size == 1) return;
  if (options_.rank != 0) {
    if (server_.is_open()) thread_ = std::thread([this] { run(&Monitor::run_client); });
    return;
  }
  attendance_ = std::make_unique<Attendance>(options_.size, steady_seconds());
  for (const int rank : unreachable) attendance_->left(rank, true);
  thread_ = std::thread([this] { run(&Monitor::run_server); });
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
  const std::lock_guard lock(folder_mutex_);
  folder_ = folder;
  if (options_.rank == 0 && !folder.empty()) remove_dumps(folder);
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
  return Json{{"beat", state.progress}, {"step", state.step}, {"doing", doing}}.dump();
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
