#include "runtime/signals.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

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

// Handlers of this thread run on a stack of their own. On the stack that computes, the kernel's record of the interrupted
// registers would overwrite what oneDNN's AVX-512 products (2.7, Debian 12) keep below the stack pointer, beyond the 128 bytes
// that the ABI leaves them: the heap is damaged then. The monitor's and other threads call no such products.
void use_own_stack() {
  static std::array<char, std::size_t{256} * 1024> memory;  // the record has 3 to 11 KiB
  stack_t stack = {};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  COHORT_CHECK(sigaltstack(&stack, nullptr) == 0, "no stack for the handlers of signals: {}", std::strerror(errno));
}

void catch_signal(int signal, void (*handler)(int)) {
  static std::once_flag once;
  std::call_once(once, use_own_stack);
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // a read or write in progress continues
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
