#include "whole_step.hpp"

#include <deque>

#include "comm/counting_communicator.hpp"
#include "config/model_rules.hpp"
#include "tensor/counting_scope.hpp"
#include "tensor/memory_account.hpp"
#include "train/input_buffer.hpp"
#include "train/precision.hpp"
#include "train/train_step.hpp"

namespace cohort::test {
namespace {

int first_rank_of(const MeshShape& shape, int stage) {
  AxisValues place(0);
  place[Axis::pp] = stage;
  return shape.rank_of(place);
}

}  // namespace

CountedStep count_whole_step(const RunConfig& config, int stage) {
  const CountingScope counts;
  const MeshShape shape = mesh_shape_of(config.parallel);
  const auto world = make_counting_communicator("world", first_rank_of(shape, stage), shape.world());
  const Mesh mesh(*world, shape, device_of(config));
  CommTrace trace;
  attach(trace, mesh);
  TrainStep train_step(config, mesh);

  const Count samples = config.train.micro_batch;
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(samples * units_per_sample(config.model) / config.parallel.cp));
  const std::vector<Count> slots(static_cast<std::size_t>(samples));
  std::deque<InputBuffer> buffers;
  std::vector<ModelInput> inputs;
  for (Count i = 0; i < config.train.accumulation; ++i) {
    buffers.emplace_back(device_of(config), /*classes=*/1);
    inputs.push_back(buffers.back().put({samples, ids, ids, {}, slots}));
  }

  TapedStep taped;
  taped.micro_batches = config.train.accumulation;
  trace.reset();
  if (train_step.pipeline() != nullptr) train_step.pipeline()->record_next_step();
  StepTimers timers;
  {
    const ListeningScope listens(taped.tape);
    train_step.start_step({.micro_batches = inputs, .own_valid_targets = 1, .global_valid_targets = 1}, timers);
  }
  if (train_step.pipeline() != nullptr) taped.passes = train_step.pipeline()->events();
  const DeviceKind device = device_of(config);
  CountedStep counted{.stage = stage,
                      .memory = kinds_of_memory(device),
                      .host = device == DeviceKind::cpu ? 0 : live_bytes_of_kinds(DeviceKind::cpu),
                      .disk = 0,
                      .arenas = train_step.held_arenas(),
                      .traffic = trace.totals(),
                      .runs = {}};
  counted.runs.push_back(std::move(taped));
  return counted;
}

}  // namespace cohort::test
