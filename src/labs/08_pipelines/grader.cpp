// Lab 8: its exercises, what of them a real run can use, and the formulas of its questions.
#include "base/error.hpp"
#include "labs/08_pipelines/pipeline_grades.hpp"

namespace cohort::labs::lab08_pipelines {
namespace {

using pipeline::ScheduleKind;

// In a run with this schedule it is what the engine executes: of all stages, so that what is wrong is seen by all ranks alike.
void use_order(const Library& library, const std::string& name, ScheduleKind kind) {
  auto* order = library.function<Order>(name);
  pipeline::use_own_order(kind, [library, name, order](const pipeline::Schedule& schedule, int rank) {
    std::vector<std::vector<pipeline::Action>> orders;
    try {
      for (int stage = 0; stage < schedule.stages; ++stage) orders.push_back(actions_by(order, schedule, stage));
      check_orders(schedule, orders);
    } catch (const lab::NotWritten&) {
      throw SharedError(ExitCode::usage, name + " is not written yet");
    } catch (const Rejected& error) {
      throw SharedError(ExitCode::unequal, name + ": " + error.what());
    }
    return orders[static_cast<std::size_t>(rank)];
  });
}

Exercise order_exercise(const char* name, const char* task, ScheduleKind kind) {
  return {.name = name,
          .task = task,
          .grade = [=](const Library& library, Grading& grading) { grade_order(library, grading, name, kind); },
          .use = [=](const Library& library) { use_order(library, name, kind); }};
}

double bubble(double stages, double chunks, double micro_batches) {
  return (stages - 1.0) / (chunks * micro_batches + stages - 1.0);
}

}  // namespace

const Lab& lab() {
  static const Lab kLab{
      .number = 8,
      .folder = "08_pipelines",
      .title = "Pipelines and 3D",
      .minutes = 150,
      .run_file = "lab08_pipelines.toml",
      .ranks = 4,
      .exercises = {{.name = "bubble_fraction", .task = "how long a stage waits", .grade = grade_bubble},
                    order_exercise("gpipe_order", "all forwards, then all backwards", ScheduleKind::gpipe),
                    order_exercise("one_f_one_b_order", "a forward and a backward in turn", ScheduleKind::one_f_one_b),
                    {.name = "peak_activations", .task = "what a stage holds", .grade = grade_peak},
                    {.name = "balanced_stages", .task = "layers to stages", .grade = grade_balance},
                    {.name = "mesh_coordinates", .task = "where a rank is", .grade = grade_coordinates},
                    {.name = "mesh_group", .task = "with whom it communicates", .grade = grade_groups},
                    {.name = "choose_layout", .task = "which axis stays within a node", .grade = grade_layout}},
      .questions = {{"q1", [] { return 100.0 * bubble(8, 1, 32); }},
                    {"q2", [] { return 100.0 * bubble(8, 4, 32); }},
                    {"q3", [] { return (8.0 - 1.0) * (1.0 - 0.05) / 0.05; }, 0.001},
                    {"q4", [] { return 3.0 * (1.0 + 2.0) + 8.0 * 2.0 * (1.0 + 2.0); }, 0.001},  // fill and drain; the slow stage
                    {"q5", [] { return 100.0 - 4.0 * 8.0; }, 0.001},  // its dp coordinate is 4, the stride of dp 8
                    {"q6", [] { return 70.0 * 16.0 / (4.0 * 8.0); }}}};
  return kLab;
}

}  // namespace cohort::labs::lab08_pipelines
