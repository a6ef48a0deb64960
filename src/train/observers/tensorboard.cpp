#include "observe/clock.hpp"
#include "observe/tensorboard/tensorboard_writer.hpp"
#include "ops/value_figures.hpp"
#include "train/observers/observers.hpp"

namespace cohort {
namespace {

using nlohmann::ordered_json;

// Numbers of a record by name, those in objects behind a slash: "loss", "seconds/forward". Left out: what places the record and
// what stays as it is.
void take_scalars(const ordered_json& record, const std::string& prefix, TensorBoardStep& step) {
  for (const auto& [name, value] : record.items()) {
    if (prefix.empty() && (name == "step" || name == "time" || name == "run" || name == "slurm")) continue;
    if (value.is_object()) {
      take_scalars(value, prefix + name + "/", step);
    } else if (value.is_number()) {
      step.scalars.emplace_back(prefix + name, value.get<double>());
    }
  }
}

double edge_of_bin(const ordered_json& bins, std::size_t place) {
  return ops::magnitude_of_bin(bins.at("first").get<int>() + static_cast<int>(place) - 2 * ops::kLowestExponent);
}

// Of what layers.jsonl has: bins of negative values, zeros, bins of positive ones, from the least to the largest.
ValueHistogram histogram_of(const ordered_json& values) {
  ValueHistogram histogram;
  const auto add = [&](double from, double to, double count) {
    if (!histogram.edges.empty() && histogram.edges.back() < from) {  // an empty bin between
      histogram.edges.push_back(from);
      histogram.counts.push_back(0.0);
    }
    if (histogram.edges.empty()) histogram.edges.push_back(from);
    histogram.edges.push_back(to);
    histogram.counts.push_back(count);
  };
  if (values.contains("negative")) {
    const ordered_json &bins = values["negative"], &counts = bins["counts"];
    for (std::size_t i = counts.size(); i-- > 0;) add(-edge_of_bin(bins, i + 1), -edge_of_bin(bins, i), counts[i].get<double>());
  }
  const double least = ops::magnitude_of_bin(0);
  if (const double zeros = values.at("zeros").get<double>(); zeros > 0.0) add(-least, least, zeros);
  if (values.contains("positive")) {
    const ordered_json &bins = values["positive"], &counts = bins["counts"];
    for (std::size_t i = 0; i < counts.size(); ++i) add(edge_of_bin(bins, i), edge_of_bin(bins, i + 1), counts[i].get<double>());
  }
  return histogram;
}

// RUN/tensorboard: what metrics.jsonl and layers.jsonl have, as they are written.
class TensorBoard : public StepObserver {
 public:
  explicit TensorBoard(TrainingRun& run) : run_(run) {}

  void begin_run() override {
    if (!run_.tensorboard || run_.evaluated_at != 0) return;
    TensorBoardStep step{.step = 0, .time = seconds_since_1970()};
    take_scalars(figures_of(*run_.evaluation), "", step);
    run_.tensorboard->write(step);
  }

  Wish end_step(StepRecord& record) override {
    if (!run_.tensorboard) return {};
    TensorBoardStep step{.step = record.step, .time = record.metrics.at("time").get<double>()};
    take_scalars(record.metrics, "", step);
    for (const auto& [unit, kinds] : record.layers.items()) {
      for (const auto& [kind, values] : kinds.items()) {
        step.scalars.emplace_back(fmt::format("{}_norm/{}", kind, unit), values.at("norm").get<double>());
        step.histograms.emplace_back(fmt::format("{}/{}", kind, unit), histogram_of(values));
      }
    }
    run_.tensorboard->write(step);
    return {};
  }

 private:
  TrainingRun& run_;
};

}  // namespace

std::unique_ptr<StepObserver> make_tensorboard(TrainingRun& run) {
  if (!run.config.observe.tensorboard) return nullptr;
  return std::make_unique<TensorBoard>(run);
}

}  // namespace cohort
