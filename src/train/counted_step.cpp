#include "train/counted_step.hpp"

#include <optional>
#include <set>

#include "base/counted_sections.hpp"
#include "comm/counting_communicator.hpp"
#include "config/model_rules.hpp"
#include "config/pipeline.hpp"
#include "nn/counted_blocks.hpp"
#include "parallel/pipeline/messages.hpp"
#include "parallel/pipeline/stages.hpp"
#include "tensor/counting_scope.hpp"
#include "tensor/memory_account.hpp"
#include "train/input_buffer.hpp"
#include "train/precision.hpp"
#include "train/ranks_to_count.hpp"

namespace cohort {
namespace {

// A micro-batch of this rank, of zeros: what tokens it has changes nothing that is counted. It lies where a run puts it.
class CountedInput {
 public:
  explicit CountedInput(const RunConfig& config)
      : samples_(config.train.micro_batch),
        ids_(static_cast<std::size_t>(samples_ * units_per_sample(config.model) / config.parallel.cp)),
        features_(attention_of(config.model) ? 0 : static_cast<std::size_t>(samples_ * config.model.inputs)),
        slots_(static_cast<std::size_t>(samples_)),
        first_keys_(config.data.documents == "separate" ? static_cast<std::size_t>(samples_ * config.model.context) : 0),
        positions_(first_keys_.empty() ? 0 : ids_.size()),
        buffer_(device_of(config), /*classes=*/1) {}

  ModelInput put() { return buffer_.put({samples_, ids_, ids_, features_, slots_, {first_keys_, positions_}}); }

 private:
  Count samples_;
  std::vector<std::int32_t> ids_;
  std::vector<float> features_;
  std::vector<Count> slots_;
  std::vector<std::int32_t> first_keys_, positions_;
  InputBuffer buffer_;
};

// table += times * more
void add(CommTrace::Table& table, const CommTrace::Table& more, Count times) {
  for (const auto& [key, totals] : more) {
    CommTrace::Totals& sum = table[key];
    sum.calls += times * totals.calls;
    sum.elements += times * totals.elements;
    sum.bytes += times * totals.bytes;
    sum.ranks = totals.ranks;
  }
}

// Of a step that is taped, with its traffic.
class TapedSections : public CountedSections {
 public:
  TapedSections(WorkTape& tape, const CommTrace& trace) : tape_(tape), trace_(trace) {}

  void begin_section() override {
    begin_ = tape_.entries().size();
    before_ = trace_.totals();
  }
  std::optional<std::size_t> end_section() override {
    const TakenAgain entries{begin_, tape_.entries().size()};
    if (!stands_alone(entries)) return std::nullopt;
    CommTrace::Table traffic = trace_.totals();
    add(traffic, before_, -1);
    sections_.push_back({entries, std::move(traffic)});
    return sections_.size() - 1;
  }
  void take_again(std::size_t section) override {
    tape_.take_again(sections_[section].entries);
    add(traffic_, sections_[section].traffic, 1);
  }

  /// Of all that was taken again.
  const CommTrace::Table& traffic() const { return traffic_; }

 private:
  struct Section {
    TakenAgain entries;
    CommTrace::Table traffic;
  };

  // It waits for its own collectives, and for all of them.
  bool stands_alone(TakenAgain entries) const {
    std::set<std::size_t> under_way;
    for (std::size_t i = entries.begin; i < entries.end; ++i) {
      const WorkEntry& entry = tape_.entries()[i];
      if (const auto* const start = std::get_if<CollectiveStart>(&entry)) under_way.insert(start->id);
      const auto* const wait = std::get_if<CollectiveWait>(&entry);
      if (wait != nullptr && under_way.erase(wait->id) == 0) return false;
    }
    return under_way.empty();
  }

  WorkTape& tape_;
  const CommTrace& trace_;
  std::size_t begin_ = 0;
  CommTrace::Table before_;
  std::vector<Section> sections_;
  CommTrace::Table traffic_;
};

// One rank of a mesh that is not there, and its step.
class Counting {
 public:
  Counting(const RunConfig& config, int stage, int rank)
      : config_(config),
        shape_(mesh_shape_of(config.parallel)),
        world_(make_counting_communicator("world", first_of_stage(stage) + rank, shape_.world())),
        mesh_(*world_, shape_, device_of(config), config.device.share),
        input_(config) {
    attach(trace_, mesh_);
    train_step_ = std::make_unique<TrainStep>(config, mesh_);
  }

  const Model& model() const { return train_step_->model(); }

  // The traffic of a step of so many micro-batches, of which each block runs as few as there are to be heard.
  CommTrace::Table run(Count micro_batches) {
    taped_.micro_batches = micro_batches;
    TapedSections sections(taped_.tape, trace_);
    const CountedBlocks counted(sections);
    CommTrace::Table traffic = run(micro_batches, taped_.tape);
    add(traffic, sections.traffic(), 1);
    if (pipeline::Engine* const engine = train_step_->pipeline()) taped_.passes = engine->events();
    return traffic;
  }

  CommTrace::Table run(Count micro_batches, CountingListener& listener) {
    trace_.reset();
    const std::vector<ModelInput> inputs(static_cast<std::size_t>(micro_batches), input_.put());
    StepTimers timers;
    if (pipeline::Engine* const engine = train_step_->pipeline()) engine->record_next_step();
    const ListeningScope listens(listener);
    train_step_->start_step({.micro_batches = inputs, .own_valid_targets = 1, .global_valid_targets = 1}, timers);
    return trace_.totals();
  }

  // Every micro-batch of a step of `micro_batches` has a buffer like that of the one that was run.
  CountedStep result(CommTrace::Table traffic, Count micro_batches) {
    const DeviceKind device = device_of(config_);
    KindsOfMemory memory = kinds_of_memory(device);
    if (const auto found = memory.others.find(InputBuffer::kLabel); found != memory.others.end()) found->second *= micro_batches;
    return {.stage = mesh_.index(Axis::pp),
            .memory = std::move(memory),
            .host = device == DeviceKind::cpu ? 0 : live_bytes_of_kinds(DeviceKind::cpu),
            .disk = counted_disk(),
            .arenas = train_step_->held_arenas(),
            .traffic = std::move(traffic),
            .runs = {std::move(taped_)}};
  }

 private:
  int first_of_stage(int stage) const {
    AxisValues place(0);
    place[Axis::pp] = stage;
    return shape_.rank_of(place);
  }

  const CountingScope scope_;  // before all that is made while it lasts
  const RunConfig& config_;
  MeshShape shape_;
  std::unique_ptr<Communicator> world_;
  Mesh mesh_;
  CountedInput input_;
  CommTrace trace_;
  TapedStep taped_;
  std::unique_ptr<TrainStep> train_step_;
};

// Steps of so many micro-batches more, or as many again, differ by what their middle sends: in a pipeline, of rounds of its
// ranks.
Count micro_batches_of_a_round(const RunConfig& config) { return config.parallel.pp; }

// What each place for a micro-batch under way comes to hold: one of these chunks at a time.
std::vector<std::set<int>> chunks_of_places(const pipeline::Schedule& schedule, int stage) {
  const std::vector<pipeline::Action> actions = actions_of(schedule, stage);
  const std::vector<std::size_t> places = places_of(actions);
  std::vector<std::set<int>> chunks(static_cast<std::size_t>(most_in_flight(schedule, stage)));
  for (std::size_t i = 0; i < actions.size(); ++i) chunks[places[i]].insert(actions[i].chunk);
  return chunks;
}

// The fewest micro-batches after which each round more sends the same and holds no more: without a pipeline the first and the
// last one; in a pipeline, once as many are under way, each place for them has held all that it will, and as many messages are in
// memory as in the whole step. All of them if there is no such number.
Count micro_batches_to_run(const RunConfig& config, int stage) {
  const Count all = config.train.accumulation, round = micro_batches_of_a_round(config);
  if (config.parallel.pp == 1) return 2;
  const pipeline::Schedule whole = schedule_of(config.parallel, all);
  const auto held = chunks_of_places(whole, stage);
  for (Count some = round + all % round; some < all; some += round) {
    const pipeline::Schedule shorter = schedule_of(config.parallel, some);
    if (most_in_flight(shorter, stage) == most_in_flight(whole, stage) && chunks_of_places(shorter, stage) == held &&
        most_messages(shorter, stage) == most_messages(whole, stage))
      return some;
  }
  return all;
}

// All micro-batches of `config`, of a step that has `all`.
CountedStep count_run(const RunConfig& config, int stage, int rank, Count all) {
  Counting counting(config, stage, rank);
  CommTrace::Table traffic = counting.run(config.train.accumulation);
  return counting.result(std::move(traffic), all);
}

}  // namespace

CountedStep count_step(const RunConfig& config, int stage, int rank) {
  const Count all = config.train.accumulation, some = micro_batches_to_run(config, stage),
              more = micro_batches_of_a_round(config);
  if (some + more >= all) return count_run(config, stage, rank, all);
  RunConfig shorter = config;
  shorter.train.accumulation = some;
  CountedStep without = count_run(shorter, stage, rank, all);
  shorter.train.accumulation = some + more;
  CountedStep counted = count_run(shorter, stage, rank, all);
  for (auto& [key, totals] : counted.traffic) {
    const auto found = without.traffic.find(key);
    const CommTrace::Totals less = found == without.traffic.end() ? CommTrace::Totals{} : found->second;
    const Count times = (all - some - more) / more;
    totals.calls += times * (totals.calls - less.calls);
    totals.elements += times * (totals.elements - less.elements);
    totals.bytes += times * (totals.bytes - less.bytes);
  }
  counted.runs.insert(counted.runs.begin(), std::move(without.runs.front()));
  return counted;
}

void listen_to_step(const RunConfig& config, int stage, CountingListener& listener,
                    const std::function<void(const Model& model)>& show) {
  Counting counting(config, stage, /*rank=*/0);
  show(counting.model());
  counting.run(config.train.accumulation, listener);
}

std::vector<int> stages_to_count(const RunConfig& config) {
  if (config.parallel.pp == 1) return {0};
  return pipeline::heaviest_ranks(config.model, schedule_of(config.parallel, config.train.accumulation));
}

std::vector<CountedStep> count_stages(const RunConfig& config) {
  std::vector<CountedStep> counted;
  for (const int stage : stages_to_count(config)) {
    for (const int rank : ranks_to_count(config, stage)) counted.push_back(count_step(config, stage, rank));
  }
  return counted;
}

void attach(CommTrace& trace, const Mesh& mesh) {
  for (const Axis axis : kAxes) {
    if (mesh.size(axis) > 1) trace.attach(mesh.axis(axis));
  }
  if (mesh.gradient().size() > 1) trace.attach(mesh.gradient());
  if (mesh.size(Axis::tp) > 1 && mesh.gradient().size() > 1) trace.attach(mesh.world());  // who hold matrices between them
}

}  // namespace cohort
