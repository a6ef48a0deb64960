#include "parallel/pipeline_training.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/self_communicator.hpp"
#include "optim/clip.hpp"
#include "optim/resident_optimizer.hpp"

namespace cohort::test {
namespace {

constexpr std::uint64_t kSeed = 42;
constexpr double kRate = 1e-2;
// Below the gradient norms of these problems, so that clipping acts, and with it the norm over all stages.
constexpr double kClipNorm = 0.5;

OptimizerSection optimizer_section() {
  OptimizerSection optimizer;
  optimizer.weight_decay = 0.1;
  // Some gradients are zero but for rounding (the keys' bias), and Adam's m / sqrt(v) would blow the rounding up to whole steps.
  optimizer.epsilon = 1e-3;
  return optimizer;
}

// Memory that activations will lie in, full of a value that would show in every result.
void dirty(Arena& arena, unsigned seed) {
  const Arena::Scope scope(arena);
  std::vector<float> junk(1 << 20, 1e3f * static_cast<float>(seed + 1));
  const Shape shape{static_cast<Count>(junk.size())};
  arena.take(shape).copy_from(Tensor::wrap(junk.data(), shape));
}

std::vector<float> copy_of(const Tensor& tensor) {
  const Tensor host = tensor.to_host();
  return {host.f32(), host.f32() + host.elements()};
}

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

double sum_over(Communicator& group, double value) { return all_reduce_value(group, value, ReduceOp::sum); }

double largest_of(const std::vector<float>& values) {
  double largest = 0.0;
  for (const float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

double finite_or_infinity(double value) { return std::isfinite(value) ? value : std::numeric_limits<double>::infinity(); }

double worst_difference(const WholeTensors& values, const WholeTensors& wanted) {
  constexpr double kFloor = 0.1;
  double floor = 0.0, worst = 0.0;
  for (const auto& [name, tensor] : wanted) floor = std::max(floor, kFloor * largest_of(tensor));
  for (const auto& [name, tensor] : wanted) {
    const double largest = std::max(floor, largest_of(tensor));
    for (std::size_t i = 0; i < tensor.size(); ++i)
      worst = std::max(worst, finite_or_infinity(std::abs(static_cast<double>(values.at(name)[i]) - tensor[i]) / largest));
  }
  return worst;
}

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

struct Setting {
  Communicator& world;  // of the host
  Communicator& gradient;
  Communicator& stages;
  Communicator& host_stages;
  int dp_rank = 0;
};

PipelineTraining train(const Setting& at, const PipelineLayout& layout, bool with_engine, const PipelineOptions& options) {
  const ModelSection section = pipeline_section(layout.model);
  const std::unique_ptr<Model> whole = declare_model(section);
  const std::vector<ChunkSpec> chunks =
      with_engine ? options.chunks(section, layout.schedule, at.stages.rank()) : std::vector<ChunkSpec>{};
  const auto model = declare_decoder(section, test_placement(), TensorParallel::none(), chunks);
  if (!is_sharded(layout.strategy)) model->parameters().allocate(kSeed, test_placement());
  ParallelSection parallel;
  parallel.data = layout.strategy;
  parallel.bucket_mib = 4.0 / 1024;
  parallel.wrap = layout.wrap;
  const auto strategy = make_data_parallel(parallel, section, kSeed, *model, at.gradient);
  const PipelineParts parts{*model, layout.schedule, at.stages, at.host_stages};
  std::unique_ptr<pipeline::Engine> engine;
  if (with_engine) {
    engine = options.make ? options.make(parts)
                          : std::make_unique<pipeline::Engine>(*model, layout.schedule, at.stages, at.host_stages);
    strategy->use(*engine);
    if (options.before_steps) options.before_steps(*engine, at.stages);
  }
  const ResidentOptimizer optimizer(strategy->owned(), optimizer_section());
  const ops::Exec exec{.device = test_device()};
  Arena activations("test.activations", test_device());
  dirty(activations, options.unrelated_seed);
  const StepScalars scalars(test_device());
  StepTimers timers;
  const Assembly assembly(at.world, *strategy, whole->parameters(), at.dp_rank == 0);
  PipelineTraining training;
  for (Count step = 0; step < kPipelineSteps; ++step) {
    const GlobalBatch batch({layout.model, Ignored::uneven, kPipelineSamples}, step);
    DeviceInputs inputs;
    const auto part = inputs.put(batch.part(at.dp_rank, layout.dp, layout.schedule.micro_batches));
    const double inverse = 1.0 / static_cast<double>(batch.valid_targets());
    scalars.begin();
    const StepContext context{.exec = exec,
                              .activations = &activations,
                              .loss_sum = scalars.own_loss(),
                              .training = true,
                              .seed = kSeed,
                              .step = static_cast<std::uint32_t>(step)};
    strategy->accumulate_gradients(context, part, static_cast<float>(inverse), timers);
    const double loss = sum_over(at.world, *scalars.own_loss().to_host().data<double>());
    training.losses.push_back(loss * inverse);
    training.gradients.push_back(assembly.of(&OwnedSegment::gradients, training.copies_agree));
    add_squares(exec, optimizer.owned(), scalars);
    double squares = *scalars.squares().to_host().data<double>();
    // Replicas have the same squares: the sum over all ranks has them dp times.
    squares = sum_over(at.world, squares) / (strategy->shard_group() != nullptr ? 1 : layout.dp);
    scalars.squares().copy_from(Tensor::wrap(&squares, {1}, DType::f64));
    double total = loss;
    scalars.loss().copy_from(Tensor::wrap(&total, {1}, DType::f64));
    decide_update(exec, scalars, 1.0, kClipNorm);
    optimizer.step(exec, kRate, scalars.decisions(), step);
    strategy->weights_changed();
    training.weights.push_back(assembly.of(&OwnedSegment::values, training.copies_agree));
  }
  if (engine && options.after_steps) options.after_steps(*engine, at.stages);
  return training;
}

}  // namespace

PipelineTraining train_pipeline(Communicator& world, const PipelineLayout& layout, const PipelineOptions& options) {
  const Mesh mesh(world, MeshShape(layout.dp, layout.schedule.stages, 1, 1), test_device(), ranks_share_devices(world.size()));
  const Setting at{world, mesh.gradient(), mesh.axis(Axis::pp), mesh.host_axis(Axis::pp), mesh.index(Axis::dp)};
  PipelineTraining training = train(at, layout, true, options);
  training.copies_agree = all_reduce_value(world, std::int64_t{training.copies_agree ? 0 : 1}, ReduceOp::max) == 0;
  return training;
}

PipelineTraining train_whole(const std::string& model) {
  const auto self = make_self_communicator("alone", test_device());
  const auto host = make_self_communicator("alone");
  return train({*host, *self, *self, *host}, {.model = model, .strategy = "monolith"}, false, {});
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
