// An optimizer in one object: all that Cohort knows of it. Each stands in its folder, src/optim/KIND:
//   rules.cpp   KIND::rules(): its keys in run files and its state slots (config/optimizer_rules.hpp)
//   kind.cpp    KIND::kind(): its update
// CMake makes the list of all optimizers from the folders. Who holds the elements, in which parts, and where they lie is not its
// affair: checkpoints, offload, plans and every kind of parallelism follow from the slots and from what is said here.
#pragma once

#include <vector>

#include "config/optimizer_rules.hpp"
#include "ops/adamw_types.hpp"
#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort {

/// Elements that are updated alike: flat tensors of as many.
struct UpdateTensors {
  Tensor values;              // fp32
  Tensor compute;             // what forward reads, to be written together with the values: these themselves, or a 16-bit copy
  Tensor gradients;           // fp32; not to be changed
  std::vector<Tensor> slots;  // in the order of the rules
};

struct GroupStep {
  const OptimizerSection& settings;
  double learning_rate;  // of these parameters
  Count step;            // 1 for the first
};

/// Elements [begin, end) with their weight decay.
using DecayRange = ops::AdamWRange;

struct MatrixSize {
  Count rows, columns;
};

/// Of an optimizer that updates whole matrices. What is elementwise goes over the parts that ranks hold, in three steps; between
/// them a matrix is brought together on its owner (optim/matrix_work.hpp).
struct MatrixUpdate {
  /// Updates the slots, and overwrites `direction` [n], fp32, with what is to be transformed: from the gradients, times
  /// gradient_scale of `decisions`. If they say skip, slots stay and the direction becomes 0.
  void (*prepare)(const ops::Exec& exec, const Tensor& direction, const UpdateTensors& tensors, const GroupStep& step,
                  const Tensor& decisions);
  /// In place: the direction of a whole matrix [rows, columns], fp32, becomes its update. `scratch` [scratch_bytes] u8.
  void (*transform)(const ops::Exec& exec, const Tensor& matrix, const Tensor& scratch, const OptimizerSection& settings);
  /// Updates values and compute by the part of the update, of a matrix of `size`, that belongs to them; nothing if `decisions`
  /// say skip.
  void (*apply)(const ops::Exec& exec, const UpdateTensors& tensors, const Tensor& update, MatrixSize size, float weight_decay,
                const GroupStep& step, const Tensor& decisions);
  /// Operations of transform: by them matrices are dealt out to their owners.
  double (*cost)(Count rows, Count columns, const OptimizerSection& settings);
  Bytes (*scratch_bytes)(Count rows, Count columns, DeviceKind device);
};

struct OptimizerKind {
  const OptimizerRules& rules;
  /// One step of elements that lie on the exec's device: `ranges` (u8) holds their DecayRanges, there, `decisions` (u8) one
  /// ops::OptimizerScalars. Updates values, compute and slots; nothing if `decisions` say skip. Null: it has `matrices`.
  void (*update)(const ops::Exec& exec, const UpdateTensors& tensors, const Tensor& ranges, const GroupStep& step,
                 const Tensor& decisions) = nullptr;
  const MatrixUpdate* matrices = nullptr;
};

/// All optimizers, in alphabetical order.
const std::vector<const OptimizerKind*>& all_optimizer_kinds();

/// Error (config) if there is no such optimizer.
const OptimizerKind& optimizer_kind_of(const OptimizerRules& rules);

}  // namespace cohort
