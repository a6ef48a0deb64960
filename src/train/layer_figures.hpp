// What the layers of a model hold, in figures: weights, their gradients, and activations, by unit (nn/hooks.hpp) and over all
// ranks. Every element of the model counts once, and every activation of the global batch, whatever the layout.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ops/value_figures.hpp"
#include "train/train_step.hpp"

namespace cohort {

enum class LayerValues : std::uint8_t { weights, gradients, activations };
inline constexpr std::array kLayerValues{LayerValues::weights, LayerValues::gradients, LayerValues::activations};
/// "weights", "gradients", "activations".
std::string_view name_of(LayerValues values);

/// The figures of one kind of one unit: counts as ops/value_figures.hpp has them, and the Euclidean norm.
struct LayerRecord {
  std::vector<double> figures;  // [ops::kValueFigures]

  double elements() const;
  /// NaN or infinite if a value is.
  double norm() const;
};
/// Of a unit, by LayerValues; of frozen weights there are no gradients, and no elements.
struct UnitRecord {
  std::string unit;
  std::array<LayerRecord, kLayerValues.size()> values;
};

class LayerFigures {
 public:
  /// All outlive this. The whole model is declared once more, without memory, for the names of its units.
  LayerFigures(const RunConfig& config, const Mesh& mesh, TrainStep& train_step);

  /// Forgets what was counted, before a step.
  void begin();
  /// To be StepInput::inspect of the step; refers to this object.
  std::function<void(const std::string&, const Tensor&)> inspector();
  /// After the step: its activations, its gradients before clipping, which carry the factor `loss_scale`, and the weights after
  /// it, of all ranks. // Collective over: world
  std::vector<UnitRecord> collect(double loss_scale);

 private:
  // Figures of all units and kinds, where values lie: on the device of the run or, of what was offloaded, on the host.
  Tensor& figures_on(DeviceKind device);
  void add(const std::string& unit, LayerValues kind, const Tensor& values, float factor = 1.0f);
  void add_segment(const OwnedSegment& segment, float gradient_factor);
  void add_weights_and_gradients(float gradient_factor);

  const Mesh& mesh_;
  TrainStep& train_step_;
  bool counts_activations_;                    // of ranks that hold the same rows, one
  std::vector<std::string> units_;             // of the whole model
  std::map<std::string, std::size_t> places_;  // of units
  std::map<const Parameter*, std::string> unit_of_;
  std::map<DeviceKind, Tensor> figures_;  // [units, kinds, ops::kValueFigures], fp64
};

}  // namespace cohort
