#include "commands/bench/watch_cost.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "comm/communicator.hpp"
#include "observe/clock.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {
namespace {

// An entry as communicators make it. Ids of the recorder count operations.
FlightRecorder::Id record_one(const std::shared_ptr<const std::vector<int>>& members) {
  FlightRecorder& recorder = FlightRecorder::of_process();
  const auto id = recorder.begin(
      {.operation = "bench", .group = "data", .members = members, .number = 1, .site = std::source_location::current()});
  recorder.wait(id);
  recorder.finish(id);
  return id;
}

double seconds_of_operation() {
  constexpr int kRecords = 20000;
  const auto members = std::make_shared<const std::vector<int>>(std::vector<int>{0, 1});
  const double begin = steady_seconds();
  for (int i = 0; i < kRecords; ++i) record_one(members);
  return (steady_seconds() - begin) / kRecords;
}

// What the process uses of a core while nobody but its monitor has anything to do.
double share_of_monitor() {
  const auto sleep = [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); };
  sleep(0.3);  // threads that wait for work spin a while before they sleep
  const double begin = steady_seconds();
  const double used = processor_seconds();
  sleep(1.2);
  return (processor_seconds() - used) / (steady_seconds() - begin);
}

}  // namespace

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

WatchCost::WatchCost() : before_(record_one(nullptr)) {}

WatchCost::Result WatchCost::measure(Communicator& world, double steps) const {
  const double operations = static_cast<double>(record_one(nullptr) - before_ - 1) / steps;
  world.barrier();  // nobody sleeps while others still train
  const double share = share_of_monitor();
  return {all_reduce_value(world, operations, ReduceOp::max), all_reduce_value(world, seconds_of_operation(), ReduceOp::max),
          all_reduce_value(world, share, ReduceOp::max)};
}

}  // namespace cohort
