#include "parallel/pipeline/recorder.hpp"

#include "base/counting_listener.hpp"
#include "observe/clock.hpp"

namespace cohort::pipeline {

void Recorder::begin(Communicator& stages) {
  marks_.clear();
  stages.barrier();
  zero_ = counting_listener() == nullptr ? now() : Moment{};
}

Recorder::Moment Recorder::now() const {
  if (const CountingListener* const listener = counting_listener()) return {listener->now(), nullptr};
  if (device_ == DeviceKind::cpu) return {steady_seconds(), nullptr};
  const auto point = std::make_shared<gpu::Event>(gpu::Event::Kind::timing);
  point->record(gpu::compute_stream());
  return {0.0, point};
}

double Recorder::since_zero(const Moment& moment) const {
  return moment.point == nullptr ? moment.seconds - zero_.seconds : 1e-3 * gpu::milliseconds_between(*zero_.point, *moment.point);
}

std::vector<Event> Recorder::events(int rank) const {
  std::vector<Event> events;
  for (const Mark& mark : marks_) events.push_back({rank, mark.action, since_zero(mark.start), since_zero(mark.end)});
  return events;
}

std::vector<Event> gather_events(Communicator& stages, const std::vector<Event>& own) {
  constexpr std::size_t kNumbers = 5;
  std::vector<double> numbers;
  for (const Event& event : own) {
    const Action& action = event.action;
    for (const double number : {static_cast<double>(action.pass), static_cast<double>(action.micro_batch),
                                static_cast<double>(action.chunk), event.start, event.end})
      numbers.push_back(number);
  }
  std::vector<double> all(numbers.size() * static_cast<std::size_t>(stages.size()));
  stages.all_gather(numbers.data(), all.data(), static_cast<Count>(numbers.size()), DType::f64);
  std::vector<Event> events;
  for (std::size_t i = 0; i < all.size(); i += kNumbers) {
    const Action action{static_cast<Pass>(all[i]), static_cast<int>(all[i + 1]), static_cast<int>(all[i + 2])};
    events.push_back({static_cast<int>(i / numbers.size()), action, all[i + 3], all[i + 4]});
  }
  return events;
}

}  // namespace cohort::pipeline
