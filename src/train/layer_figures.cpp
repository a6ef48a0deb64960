#include "train/layer_figures.hpp"

#include <cmath>
#include <numeric>

namespace cohort {

std::string_view name_of(LayerValues values) {
  constexpr std::array<std::string_view, kLayerValues.size()> kNames{"weights", "gradients", "activations"};
  return kNames[static_cast<std::size_t>(values)];
}

double LayerRecord::elements() const { return std::accumulate(figures.begin(), figures.begin() + ops::kSquares, 0.0); }

double LayerRecord::norm() const { return std::sqrt(figures[ops::kSquares]); }

LayerFigures::LayerFigures(const RunConfig& config, const Mesh& mesh, TrainStep& train_step)
    : mesh_(mesh), train_step_(train_step), counts_activations_(mesh.index(Axis::tp) == 0 || config.parallel.sequence) {
  const std::unique_ptr<Model> whole = declare_model(config.model);
  for (const Unit& unit : whole->units()) {
    places_.emplace(unit.name, units_.size());
    units_.push_back(unit.name);
  }
  // A tied weight is that of the unit that comes first.
  for (const Unit& unit : train_step.model().units()) {
    for (const Parameter* parameter : unit.parameters) unit_of_.emplace(parameter, unit.name);
  }
}

Tensor& LayerFigures::figures_on(DeviceKind device) {
  Tensor& figures = figures_[device];
  if (!figures.defined()) {
    const auto units = static_cast<Count>(units_.size()), kinds = static_cast<Count>(kLayerValues.size());
    figures = Tensor::zeros("layer figures", {units * kinds, ops::kValueFigures}, DType::f64, device);
  }
  return figures;
}

void LayerFigures::begin() {
  for (const auto& [device, figures] : figures_) figures.zero();
}

void LayerFigures::add(const std::string& unit, LayerValues kind, const Tensor& values, float factor) {
  ops::Exec exec = train_step_.exec();
  exec.device = values.device();
  const auto row = static_cast<Count>(places_.at(unit) * kLayerValues.size() + static_cast<std::size_t>(kind));
  const Tensor own = figures_on(values.device()).slice(row, row + 1);
  ops::add_value_figures(exec, own.reshaped({ops::kValueFigures}), values, factor);
}

std::function<void(const std::string&, const Tensor&)> LayerFigures::inspector() {
  return [this](const std::string& unit, const Tensor& output) {
    if (counts_activations_) add(unit, LayerValues::activations, output);
  };
}

void LayerFigures::add_segment(const OwnedSegment& segment, float gradient_factor) {
  for (const OwnedPiece& piece : segment.pieces) {
    if (!piece.parameter->shard.counts) continue;
    const std::string& unit = unit_of_.at(piece.parameter);
    add(unit, LayerValues::weights, segment.values.slice(piece.at, piece.at + piece.elements));
    if (segment.gradients.defined())
      add(unit, LayerValues::gradients, segment.gradients.slice(piece.at, piece.at + piece.elements), gradient_factor);
  }
}

void LayerFigures::add_weights_and_gradients(float gradient_factor) {
  if (train_step_.is_first_holder()) {
    for (const OwnedSegment& segment : train_step_.owned()) add_segment(segment, gradient_factor);
  }
  if (train_step_.is_first_of_group()) {
    const OwnedSegment frozen = frozen_of(train_step_.model().parameters());
    if (!frozen.pieces.empty()) add_segment(frozen, 0.0f);
  }
}

std::vector<UnitRecord> LayerFigures::collect(double loss_scale) {
  add_weights_and_gradients(static_cast<float>(1.0 / loss_scale));
  const auto kinds = kLayerValues.size(), each = static_cast<std::size_t>(ops::kValueFigures);
  std::vector<double> sums(units_.size() * kinds * each, 0.0);
  for (const auto& [device, figures] : figures_) {
    const Tensor on_host = figures.to_host();
    const std::span<double> own = on_host.span<double>();
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += own[i];
  }
  mesh_.world().all_reduce(sums.data(), static_cast<Count>(sums.size()), DType::f64, ReduceOp::sum);
  std::vector<UnitRecord> records;
  auto next = sums.begin();
  for (const std::string& unit : units_) {
    UnitRecord& record = records.emplace_back(UnitRecord{unit, {}});
    for (LayerRecord& values : record.values) {
      values.figures.assign(next, next + static_cast<std::ptrdiff_t>(each));
      next += static_cast<std::ptrdiff_t>(each);
    }
  }
  return records;
}

}  // namespace cohort
