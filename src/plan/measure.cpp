#include "plan/measure.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "comm/trace.hpp"
#include "observe/timers.hpp"
#include "tensor/memory_account.hpp"
#include "train/counted_step.hpp"
#include "train/precision.hpp"
#include "train/step_batches.hpp"
#include "train/train_step.hpp"

namespace cohort {
namespace {

void read_trace(const CommTrace& trace, Measurement& own) {
  own.traffic.clear();
  for (const auto& [key, totals] : trace.totals()) {
    const auto& [group, operation] = key;
    if (operation != "recv" && totals.bytes > 0) own.traffic.push_back({group, operation, totals.calls, totals.bytes});
  }
}

Measurement measure_this_rank(const RunConfig& config, const RunData& data, Communicator& world, Count steps) {
  reset_memory_peaks();
  const Mesh mesh(world, mesh_shape_of(config.parallel), device_of(config), config.device.share);
  CommTrace trace;
  attach(trace, mesh);
  TrainStep train_step(config, mesh);
  // As on a GPU, where it is done already: the ends of several pieces are waste that belongs to no step.
  if (train_step.device() == DeviceKind::cpu) train_step.reserve(count_step(config, mesh.index(Axis::pp)).arenas);
  const Sampler sampler = sampler_of(config, *data.dataset);
  StepBatches batches(*data.dataset, sampler, config.train,
                      BatchShare::of(mesh, train_step.ring() ? &train_step.ring()->split() : nullptr), train_step.device());
  StepTimers timers;
  Measurement own;
  for (Count step = 0; step < steps; ++step) {
    batches.load(step);
    const Count targets = all_reduce_value(mesh.host_gradient(), batches.valid_targets(), ReduceOp::sum);
    if (train_step.pipeline() != nullptr && step + 1 == steps) train_step.pipeline()->record_next_step();
    trace.reset();
    timers.begin_step();
    train_step.run({step, batches.inputs(), batches.valid_targets(), targets}, timers);
    own.step_seconds = timers.step_seconds();
    read_trace(trace, own);
  }
  const KindsOfMemory memory = kinds_of_memory(train_step.device());
  own.memory = memory.kinds;
  own.arenas = memory.arenas;
  own.others = memory.others;
  if (train_step.pipeline() != nullptr) own.events = gather_events(mesh.host_axis(Axis::pp), train_step.pipeline()->events());
  for (const Bytes bytes : own.memory.values) own.total += bytes;
  return own;
}

// One line for each number, and back: "memory KIND BYTES", "other BYTES LABEL", "traffic CALLS BYTES OPERATION GROUP".
std::string to_text(const Measurement& own) {
  std::string text = fmt::format("seconds {}\narenas {}\ntotal {}\n", own.step_seconds, own.arenas, own.total);
  for (const MemoryKind kind : kMemoryKinds) text += fmt::format("memory {} {}\n", static_cast<int>(kind), own.memory[kind]);
  for (const auto& [label, bytes] : own.others) text += fmt::format("other {} {}\n", bytes, label);
  for (const MeasuredTraffic& one : own.traffic)
    text += fmt::format("traffic {} {} {} {}\n", one.calls, one.bytes, one.operation, one.group);
  return text;
}

MeasuredTraffic& entry(std::vector<MeasuredTraffic>& traffic, const std::string& group, const std::string& operation) {
  const auto same = [&](const MeasuredTraffic& one) { return one.group == group && one.operation == operation; };
  const auto found = std::find_if(traffic.begin(), traffic.end(), same);
  return found != traffic.end() ? *found : traffic.emplace_back(MeasuredTraffic{group, operation, 0, 0});
}

void raise(Measurement& largest, const std::string& text) {
  const auto more = [](auto& value, auto other) { value = std::max(value, other); };
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    const auto number = [&](std::size_t word) -> Bytes { return std::strtoll(words.at(word).c_str(), nullptr, 10); };
    if (words[0] == "seconds") more(largest.step_seconds, std::strtod(words.at(1).c_str(), nullptr));
    if (words[0] == "arenas") more(largest.arenas, number(1));
    if (words[0] == "total") more(largest.total, number(1));
    if (words[0] == "memory") more(largest.memory.values.at(static_cast<std::size_t>(number(1))), number(2));
    if (words[0] == "other") more(largest.others[line.substr(line.find(' ', words[0].size() + 1) + 1)], number(1));
    if (words[0] != "traffic") continue;
    MeasuredTraffic& one = entry(largest.traffic, words.at(4), words.at(3));
    more(one.calls, number(1));
    more(one.bytes, number(2));
  }
}

}  // namespace

Measurement measure(const RunConfig& config, const RunData& data, Communicator& world, Count steps) {
  COHORT_CHECK(steps >= 2, "{} steps to measure", steps);
  const Measurement own = measure_this_rank(config, data, world, steps);
  Measurement largest;
  largest.events = own.events;
  for (int rank = 0; rank < world.size(); ++rank) raise(largest, broadcast_text(world, to_text(own), rank));
  return largest;
}

}  // namespace cohort
