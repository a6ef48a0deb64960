// The bubble, the orders of pipeline stages, and what they hold. Orders are executed in the simulation that `cohort plan` draws.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/error.hpp"
#include "base/text.hpp"
#include "labs/08_pipelines/pipeline_grades.hpp"
#include "parallel/pipeline/timeline.hpp"

namespace cohort::labs::lab08_pipelines {
namespace {

using pipeline::Action;
using pipeline::Pass;
using pipeline::Schedule;
using pipeline::ScheduleKind;

constexpr PipelineAction kNotWritten{PipelinePass::forward, -7};

std::string words_of(const Schedule& schedule) {
  return fmt::format("{}, {}", counted(schedule.stages, "stage"),
                     counted(schedule.micro_batches, "micro-batch", "micro-batches"));
}

std::string name_of(const Action& action) {
  return fmt::format("the {} of micro-batch {}", pipeline::name_of(action.pass), action.micro_batch);
}

std::string without(std::string_view words, std::string text) {
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words)) text.erase(at, words.size());
  return text;
}

// Each pass of each micro-batch once, forward first, both ascending.
void check_order(const Schedule& schedule, int stage, const std::vector<Action>& actions) {
  int forwards = 0, backwards = 0;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (action.micro_batch == kNotWritten.micro_batch) reject("stage {}: action {} is not written", stage, i);
    if (action.micro_batch < 0 || action.micro_batch >= schedule.micro_batches)
      reject("stage {}: action {} is {}, but there are micro-batches 0 to {}", stage, i, name_of(action),
             schedule.micro_batches - 1);
    int& next = action.pass == Pass::forward ? forwards : backwards;
    if (action.micro_batch < next) reject("stage {}: action {} is {}, which it has had before", stage, i, name_of(action));
    if (action.micro_batch > next)
      reject("stage {}: action {} is {}, but that of micro-batch {} comes first: in ascending order", stage, i, name_of(action),
             next);
    ++next;
    if (action.pass == Pass::backward && action.micro_batch >= forwards)
      reject("stage {}: action {} is {}, whose forward comes later: there is nothing to go back through", stage, i,
             name_of(action));
  }
}

// The time of a step in which a forward takes 1 and a backward 2.
double time_of(const Schedule& schedule, const std::vector<std::vector<Action>>& orders) {
  const auto stages = static_cast<std::size_t>(schedule.stages);
  const pipeline::Costs costs{std::vector<double>(stages, 1.0), std::vector<double>(stages, 2.0), 0.0};
  return pipeline::occupation_of(pipeline::simulate(schedule, orders, costs), schedule.stages).total;
}

// What a stage holds at most, and that it begins and goes on as the schedule says.
void check_schedule(const Schedule& schedule, int stage, const std::vector<Action>& actions) {
  const Count most = pipeline::most_in_flight(actions), right = pipeline::most_in_flight(schedule, stage);
  if (most > right)
    reject("stage {} holds the activations of {} micro-batches at once; with {} stages it never needs those of more than {}",
           stage, most, schedule.stages, right);
  const std::vector<Action> own = pipeline::actions_of(schedule, stage);
  const auto [here, there] = std::mismatch(actions.begin(), actions.end(), own.begin());
  if (here == actions.end()) return;
  reject("stage {}: action {} is {}, where {} belongs", stage, here - actions.begin(), name_of(*here), name_of(*there));
}

}  // namespace

std::vector<Action> actions_by(Order* order, const Schedule& schedule, int stage) {
  const auto count = 2 * static_cast<std::size_t>(schedule.micro_batches);
  std::vector<PipelineAction> written(count + 1, kNotWritten);
  order(schedule.stages, stage, schedule.micro_batches, std::span(written).first(count));
  if (written.back().micro_batch != kNotWritten.micro_batch)
    reject("stage {}: something was written to action {}, but there are {}", stage, count, count);
  std::vector<Action> actions;
  for (const PipelineAction& action : std::span(written).first(count))
    actions.push_back({action.pass == PipelinePass::forward ? Pass::forward : Pass::backward, action.micro_batch, 0});
  return actions;
}

void check_orders(const Schedule& schedule, const std::vector<std::vector<Action>>& orders) {
  for (int stage = 0; stage < schedule.stages; ++stage) check_order(schedule, stage, orders[static_cast<std::size_t>(stage)]);
  try {
    time_of(schedule, orders);
  } catch (const Error& error) {
    reject("{}", without(", chunk 0", error.what()));  // the only one there is
  }
}

void grade_order(const Library& library, Grading& grading, const char* name, ScheduleKind kind) {
  auto* order = library.function<Order>(name);
  for (const auto& [stages, micro_batches] :
       std::vector<std::pair<int, int>>{{2, 3}, {4, 8}, {1, 2}, {3, 3}, {4, 2}, {4, 1}, {8, 5}, {6, 24}}) {
    const Schedule schedule{kind, stages, 1, micro_batches};
    grading.begin(words_of(schedule));
    std::vector<std::vector<Action>> orders;
    for (int stage = 0; stage < stages; ++stage) orders.push_back(actions_by(order, schedule, stage));
    check_orders(schedule, orders);
    for (int stage = 0; stage < stages; ++stage) check_schedule(schedule, stage, orders[static_cast<std::size_t>(stage)]);
  }
}

void grade_bubble(const Library& library, Grading& grading) {
  auto* bubble = library.function<double(int, int, int)>("bubble_fraction");
  for (const auto& [stages, chunks, micro_batches] :
       std::vector<std::array<int, 3>>{{4, 1, 8}, {1, 1, 3}, {4, 2, 8}, {2, 1, 1}, {8, 4, 16}, {16, 1, 512}}) {
    grading.begin(fmt::format("{}, {}, {}", counted(stages, "stage"), counted(chunks, "chunk"),
                              counted(micro_batches, "micro-batch", "micro-batches")));
    const double waiting = stages - 1, work = static_cast<double>(chunks) * micro_batches;
    const double found = bubble(stages, chunks, micro_batches), right = waiting / (work + waiting);
    const auto is = [&](double value) { return std::fabs(found - value) <= 1e-12; };  // of rounding
    if (is(right)) continue;
    std::string words;
    if (is(waiting / work)) words = ": that is of the time of the work alone; the step is longer, by the bubble itself";
    if (is(waiting / (micro_batches + waiting))) words = ": with more chunks the pipeline fills in smaller pieces";
    if (is(1.0 - right)) words = ": that is the share in which it is busy";
    if (is(0.0)) words = ": whole numbers divide without a remainder";
    reject("{:.6g} of the time is idle, it says, where {:.6g} is{}", found, right, words);
  }
}

void grade_peak(const Library& library, Grading& grading) {
  auto* peak = library.function<int(std::span<const PipelineAction>)>("peak_activations");
  const auto check = [&](const std::string& words, const std::vector<Action>& actions) {
    grading.begin(words);
    std::vector<PipelineAction> given;
    for (const Action& action : actions)
      given.push_back({action.pass == Pass::forward ? PipelinePass::forward : PipelinePass::backward, action.micro_batch});
    const int found = peak(given);
    const auto right = static_cast<int>(pipeline::most_in_flight(actions));
    if (found == right) return;
    const auto ahead = static_cast<int>(
        std::find_if(actions.begin(), actions.end(), [](const Action& one) { return one.pass == Pass::backward; }) -
        actions.begin());
    std::string why;
    if (found == static_cast<int>(actions.size()) / 2) why = ": that is how many forwards there are; backwards free room";
    if (found == 0) why = ": that is what is left at the end";
    if (found == right - 1) why = ": what a backward works on is held while it runs, too";
    if (found == ahead && ahead < right) why = ": more come into flight after the first backward";
    reject("{} at most, it says, where {} are in flight at once{}", found, right, why);
  };
  check("no action", {});
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
    for (const int stage : {0, 2, 3}) {
      const Schedule schedule{kind, 4, 1, 6};
      check(fmt::format("stage {} of {} under {}", stage, words_of(schedule), pipeline::name_of(kind)),
            pipeline::actions_of(schedule, stage));
    }
  }
  std::vector<Action> waves;  // two forwards, two backwards, four forwards, a backward ...
  for (const auto& [pass, micro_batch] : std::vector<std::pair<Pass, int>>{{Pass::forward, 0},
                                                                           {Pass::forward, 1},
                                                                           {Pass::backward, 1},
                                                                           {Pass::forward, 2},
                                                                           {Pass::forward, 3},
                                                                           {Pass::forward, 4},
                                                                           {Pass::backward, 0},
                                                                           {Pass::backward, 2},
                                                                           {Pass::backward, 4},
                                                                           {Pass::backward, 3}})
    waves.push_back({pass, micro_batch, 0});
  check("forwards and backwards of 5 micro-batches in waves", waves);
}

}  // namespace cohort::labs::lab08_pipelines
