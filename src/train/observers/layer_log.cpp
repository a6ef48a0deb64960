#include <cmath>

#include "comm/consensus.hpp"
#include "observe/metrics.hpp"
#include "train/layer_figures.hpp"
#include "train/observers/observers.hpp"

namespace cohort {
namespace {

using nlohmann::ordered_json;

// Bins of one sign from the first to the last that holds something: {"first": 40, "counts": [3, 0, 7]}; null if none does.
ordered_json bins_of(const std::vector<double>& figures, int begin) {
  int first = 0, end = ops::kMagnitudes;
  const auto count = [&](int bin) { return figures[static_cast<std::size_t>(begin + bin)]; };
  while (end > 0 && count(end - 1) == 0.0) --end;
  while (first < end && count(first) == 0.0) ++first;
  if (first == end) return nullptr;
  ordered_json counts = ordered_json::array();
  for (int bin = first; bin < end; ++bin) counts.push_back(static_cast<Count>(count(bin)));
  return {{"first", first + 2 * ops::kLowestExponent}, {"counts", std::move(counts)}};
}

ordered_json json_of(const LayerRecord& record) {
  const auto count = [&](int figure) { return static_cast<Count>(record.figures[static_cast<std::size_t>(figure)]); };
  ordered_json json{{"norm", record.norm()}, {"elements", static_cast<Count>(record.elements())}, {"zeros", count(ops::kZeros)}};
  if (count(ops::kNotFinite) > 0) json["not_finite"] = count(ops::kNotFinite);
  for (const auto& [name, begin] : {std::pair{"negative", 0}, {"positive", ops::kPositive}}) {
    if (ordered_json bins = bins_of(record.figures, begin); !bins.is_null()) json[name] = std::move(bins);
  }
  return json;
}

// layers.jsonl: every observe.layers_every steps what the layers hold.
class LayerLog : public StepObserver {
 public:
  explicit LayerLog(TrainingRun& run) : run_(run), figures_(run.config, run.mesh, run.train_step) {
    fail_together(run.world, "opening the logs", [&] {
      if (run.world.rank() != 0) return;
      writer_.emplace(std::filesystem::path(run.config.run.directory) / "layers.jsonl",
                      run.done > 0 ? std::optional<Count>(run.done) : std::nullopt);
    });
  }

  void begin_step(StepInput& input) override {
    if (!is_due(input.step + 1)) return;
    figures_.begin();
    input.inspect = figures_.inspector();
    loss_scale_ = run_.train_step.loss_scale().scale();  // after the step it may be another
  }

  Wish end_step(StepRecord& record) override {
    if (!is_due(record.step)) return {};
    const std::vector<UnitRecord> units = figures_.collect(loss_scale_);
    if (!writer_) return {};
    for (const UnitRecord& unit : units) {
      ordered_json& layer = record.layers[unit.unit];
      for (const LayerValues kind : kLayerValues) {
        const LayerRecord& values = unit.values[static_cast<std::size_t>(kind)];
        if (values.elements() > 0.0) layer[std::string(name_of(kind))] = json_of(values);
      }
    }
    writer_->write({{"step", record.step}, {"layers", record.layers}});
    return {};
  }

 private:
  bool is_due(Count step) const {
    return step == 1 || step % run_.config.observe.layers_every == 0 || step == run_.config.train.steps;
  }

  TrainingRun& run_;
  LayerFigures figures_;
  std::optional<MetricsWriter> writer_;  // rank 0
  double loss_scale_ = 1.0;              // of the step that is under way
};

}  // namespace

std::unique_ptr<StepObserver> make_layer_log(TrainingRun& run) {
  if (run.config.observe.layers_every == 0) return nullptr;
  return std::make_unique<LayerLog>(run);
}

}  // namespace cohort
