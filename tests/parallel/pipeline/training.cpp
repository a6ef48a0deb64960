#include "parallel/pipeline/training.hpp"

#include <algorithm>
#include <cmath>

#include "train/train_step.hpp"

namespace cohort::test {
namespace {

constexpr double kRate = 1e-2;

// What the ranks own, put together by names and places: every element comes from the one rank that counts.
class Assembly {
 public:
  Assembly(Communicator& world, DataParallel& strategy, const ParameterRegistry& whole, bool first_replica)
      : world_(world), strategy_(strategy), whole_(whole), writes_(first_replica || strategy.shard_group() != nullptr) {}

  WholeTensors of(Tensor OwnedSegment::*tensor, bool& copies_agree) const {
    WholeTensors tensors;
    for (const auto& parameter : whole_.all()) tensors[parameter->name].resize(static_cast<std::size_t>(parameter->elements()));
    visit(
        tensor,
        [&](const OwnedPiece& piece, float& element, float value) {
          if (writes_ && piece.parameter->shard.counts) element = value;
        },
        tensors);
    sum_over_ranks(tensors);
    visit(
        tensor, [&](const OwnedPiece&, float element, float value) { copies_agree = copies_agree && element == value; }, tensors);
    return tensors;
  }

 private:
  // All in one message: where ranks share cores, each message costs a turn of every rank.
  void sum_over_ranks(WholeTensors& tensors) const {
    std::vector<float> all;
    for (const auto& [name, values] : tensors) all.insert(all.end(), values.begin(), values.end());
    all_reduce(world_, std::span<float>(all), ReduceOp::sum);
    auto next = all.cbegin();
    for (auto& [name, values] : tensors) {
      const auto end = next + static_cast<std::ptrdiff_t>(values.size());
      std::copy(next, end, values.begin());
      next = end;
    }
  }

  template <class Visit>
  void visit(Tensor OwnedSegment::*tensor, const Visit& visit, WholeTensors& tensors) const {
    for (const OwnedSegment& segment : strategy_.owned()) {
      const std::vector<float> own = copy_of(segment.*tensor);
      for (const OwnedPiece& piece : segment.pieces) {
        const BoxMap map(piece.parameter->global_shape, piece.parameter->box());
        std::vector<float>& values = tensors.at(piece.parameter->name);
        for (Count i = 0; i < piece.elements; ++i)
          visit(piece, values[static_cast<std::size_t>(map.global(piece.begin + i))],
                own[static_cast<std::size_t>(piece.at + i)]);
      }
    }
  }

  Communicator& world_;
  DataParallel& strategy_;
  const ParameterRegistry& whole_;
  bool writes_;
};

}  // namespace

ModelSection pipeline_section(const std::string& kind) {
  ModelSection section = model_section(kind);
  section.layers = kind == "gpt2" ? 8 : 7;
  section.init_std = 0.15;
  if (section.kv_heads == 0) section.kv_heads = section.heads;
  return section;
}

std::string PipelineLayout::str() const {
  return fmt::format("{}, dp {}, pp {}, {}, chunks {}, micro-batches {}, {}", model, dp, schedule.stages, name_of(schedule.kind),
                     schedule.chunks, schedule.micro_batches, strategy);
}

namespace {

PipelineTraining train(const PipelineLayout& layout, const Mesh& mesh, bool pipelined, const PipelineOptions& options) {
  const ModelSection section = pipeline_section(layout.model);
  const std::unique_ptr<Model> whole = declare_model(section);
  const int dp = mesh.size(Axis::dp), micro_batches = pipelined ? layout.schedule.micro_batches : 1;
  ParallelSection parallel;
  parallel.data = layout.strategy;
  parallel.bucket_mib = 4.0 / 1024;
  parallel.wrap = layout.wrap;
  parallel.schedule = name_of(layout.schedule.kind);
  parallel.chunks = layout.schedule.chunks;
  const RunConfig config = step_config(section, mesh, kPipelineSamples / (dp * micro_batches), micro_batches, parallel, kRate);
  StepParts parts;
  if (pipelined) {
    parts.declare_model = [&](TensorParallel& whole_matrices) {
      return declare_decoder(config.model, test_storage(), whole_matrices,
                             options.chunks(config.model, layout.schedule, mesh.index(Axis::pp)));
    };
    parts.engine = [&](Decoder& model, const pipeline::Schedule& schedule, Communicator& stages, Communicator& host_stages) {
      return options.make ? options.make({model, schedule, stages, host_stages})
                          : std::make_unique<pipeline::Engine>(model, schedule, stages, host_stages);
    };
  }
  TrainStep train_step(config, mesh, parts);
  pipeline::Engine* const engine = train_step.pipeline();
  if (engine != nullptr && options.before_steps) options.before_steps(*engine, mesh.axis(Axis::pp));
  dirty(train_step.activations(), options.unrelated_seed);
  StepTimers timers;
  const Assembly assembly(mesh.world(), train_step.strategy(), whole->parameters(), mesh.index(Axis::dp) == 0);
  PipelineTraining training;
  for (Count step = 0; step < kPipelineSteps; ++step) {
    const GlobalBatch batch({layout.model, Ignored::uneven, kPipelineSamples}, step);
    DeviceInputs inputs;
    const auto part = batch.part(mesh.index(Axis::dp), dp, micro_batches);
    const auto on_device = inputs.put(part);
    Count own_targets = 0;
    for (const ModelInput& input : part) own_targets += count_valid_targets(input);
    train_step.compute_gradients({step, on_device, own_targets, batch.valid_targets()}, timers);
    training.gradients.push_back(assembly.of(&OwnedSegment::gradients, training.copies_agree));
    train_step.update(timers);
    training.losses.push_back(train_step.finish_step(timers).loss);
    training.weights.push_back(assembly.of(&OwnedSegment::values, training.copies_agree));
  }
  if (engine != nullptr && options.after_steps) options.after_steps(*engine, mesh.axis(Axis::pp));
  return training;
}

}  // namespace

PipelineTraining train_pipeline(Communicator& world, const PipelineLayout& layout, const PipelineOptions& options) {
  const std::unique_ptr<Mesh> mesh = mesh_of(world, MeshShape(layout.dp, layout.schedule.stages, 1, 1));
  PipelineTraining training = train(layout, *mesh, true, options);
  training.copies_agree = all_reduce_value(world, std::int64_t{training.copies_agree ? 0 : 1}, ReduceOp::max) == 0;
  return training;
}

PipelineTraining train_whole(const std::string& model) {
  return train({.model = model, .strategy = "monolith"}, *Alone().mesh, false, {});
}

std::string PipelineDistance::str() const {
  return fmt::format("losses {:.2e}, gradients {:.2e}, weights {:.2e}, copies {}", losses, gradients, weights,
                     copies_agree ? "alike" : "DIFFER");
}

PipelineDistance distance(const PipelineTraining& training, const PipelineTraining& yardstick) {
  PipelineDistance distance{.copies_agree = training.copies_agree};
  for (std::size_t step = 0; step < yardstick.losses.size(); ++step) {
    const double wanted = yardstick.losses[step];
    distance.losses = std::max(distance.losses, finite_or_infinity(std::abs(training.losses[step] - wanted) / wanted));
    distance.gradients = std::max(distance.gradients, worst_difference(training.gradients[step], yardstick.gradients[step]));
    distance.weights = std::max(distance.weights, worst_difference(training.weights[step], yardstick.weights[step]));
  }
  return distance;
}

}  // namespace cohort::test
