#include "hdf5/turn.hpp"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace cohort::hdf5 {
namespace {

/// A ticket lock: tickets are served in the order in which they were drawn.
struct Tickets {
  std::mutex mutex;
  std::condition_variable served;
  std::uint64_t next = 0;     // the next ticket to be drawn
  std::uint64_t serving = 0;  // the ticket whose holder has the turn, or may take it
  std::thread::id owner;      // who has the turn; no thread if nobody has
  int depth = 0;              // nested turns of the owner
};

// Never destroyed: handles in static objects may be closed after all else is gone.
Tickets& tickets() {
  static Tickets& all = *new Tickets;
  return all;
}

}  // namespace

Turn::Turn() {
  Tickets& all = tickets();
  std::unique_lock lock(all.mutex);
  if (all.owner != std::this_thread::get_id()) {
    const std::uint64_t ticket = all.next++;
    all.served.wait(lock, [&] { return all.serving == ticket; });
    all.owner = std::this_thread::get_id();
  }
  ++all.depth;
}

Turn::~Turn() {
  Tickets& all = tickets();
  const std::lock_guard lock(all.mutex);
  if (--all.depth > 0) return;
  all.owner = {};
  ++all.serving;
  all.served.notify_all();
}

}  // namespace cohort::hdf5
