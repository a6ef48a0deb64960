#include "runtime/signals.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.hpp"

namespace cohort {
namespace {

constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGUSR1};

std::atomic<int> first_signal{0};
std::atomic<bool> interrupted{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "else not safe in a signal handler");

extern "C" void on_stop_signal(int signal) {
  if (signal == SIGINT && interrupted.exchange(true)) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);  // takes effect when this handler returns
    return;
  }
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
}

extern "C" void on_broken_pipe(int) {}

void catch_signal(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // a read or write in progress goes on
  sigemptyset(&action.sa_mask);
  COHORT_CHECK(sigaction(signal, &action, nullptr) == 0, "cannot catch signal {}: {}", signal, std::strerror(errno));
}

}  // namespace

void install_stop_signals() {
  for (const int signal : kStopSignals) catch_signal(signal, on_stop_signal);
}

// A handler, not SIG_IGN: programs that are started later inherit what is ignored, but no handlers.
void outlive_broken_pipes() { catch_signal(SIGPIPE, on_broken_pipe); }

bool stop_requested() noexcept { return stop_signal() != 0; }

int stop_signal() noexcept { return first_signal.load(std::memory_order_relaxed); }

std::string_view signal_name(int signal) noexcept {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return "no stop signal";
  }
}

void clear_stop_request() noexcept {
  first_signal.store(0);
  interrupted.store(false);
}

}  // namespace cohort
