// Muon (Jordan et al. 2024): the momentum of a matrix's gradient, made orthogonal, is its update. With Nesterov's look ahead:
//
//   m = momentum m + g;   u = g + momentum m;   w = w - rate (scale NewtonSchulz(u) + weight_decay w)
//
// scale = 0.2 sqrt(max(rows, columns)): an orthogonal update has elements of root mean square 1/sqrt(max(rows, columns)), so that
// they become 0.2, about what AdamW's are (Liu et al. 2025, "Muon is Scalable for LLM Training", section 2.2). One learning rate
// and one weight decay so serve the matrices and what AdamW updates beside them.
//
// A matrix is what the model declares as a tensor of its own: query, key and value, and gate and up, are orthogonalized each by
// itself, although they lie side by side in memory and one product serves them.
#include <algorithm>
#include <cmath>

#include "optim/elementwise.hpp"
#include "optim/muon/newton_schulz.hpp"

namespace cohort::muon {
namespace {

constexpr double kRootMeanSquare = 0.2;

void prepare(const ops::Exec& exec, const Tensor& direction, const UpdateTensors& tensors, const GroupStep& step,
             const Tensor& decisions) {
  const auto momentum = static_cast<float>(own_key<double>(step.settings, "momentum"));
  const ops::OptimizerScalars* decided = scalars_of(decisions);
  float* us = direction.f32();
  float* ms = tensors.slots[0].f32();
  const float* gs = tensors.gradients.f32();
  note_traffic("muon_prepare", DType::f32, 4 * direction.bytes(), OpKind::optimizer);
  for_each_index(
      exec.device, "cohort::muon_prepare", direction.elements(), KOKKOS_LAMBDA(Count i) {
        if (decided->skip != 0) {
          us[i] = 0.0f;
          return;
        }
        const float gradient = gs[i] * decided->gradient_scale;
        ms[i] = momentum * ms[i] + gradient;
        us[i] = gradient + momentum * ms[i];
      });
}

template <class T>
void apply_to(const ops::Exec& exec, const UpdateTensors& tensors, const Tensor& update, float rate, float scale, float decay,
              const ops::OptimizerScalars* decided) {
  float* ws = tensors.values.f32();
  T* copies = tensors.compute.data<T>();
  const float* us = update.f32();
  for_each_index(
      exec.device, "cohort::muon_apply", update.elements(), KOKKOS_LAMBDA(Count i) {
        if (decided->skip != 0) return;
        ws[i] -= rate * (scale * us[i] + decay * ws[i]);
        write_copy(copies, i, ws[i]);
      });
}

void apply(const ops::Exec& exec, const UpdateTensors& tensors, const Tensor& update, MatrixSize size, float weight_decay,
           const GroupStep& step, const Tensor& decisions) {
  const double largest = static_cast<double>(std::max(size.rows, size.columns));
  const auto scale = static_cast<float>(kRootMeanSquare * std::sqrt(largest));
  note_traffic("muon_apply", DType::f32, 3 * update.bytes(), OpKind::optimizer);
  with_storage_type(tensors.compute, [&]<class T>(T) {
    apply_to<T>(exec, tensors, update, static_cast<float>(step.learning_rate), scale, weight_decay, scalars_of(decisions));
  });
}

void transform(const ops::Exec& exec, const Tensor& matrix, const Tensor& scratch, const OptimizerSection& settings) {
  orthogonalize(exec, matrix, scratch, own_key<Count>(settings, "newton_schulz_steps"));
}

// X X^T and its product with X: 2 m m n each; the square: 2 m m m.
double cost(Count rows, Count columns, const OptimizerSection& settings) {
  const auto m = static_cast<double>(std::min(rows, columns)), n = static_cast<double>(std::max(rows, columns));
  return static_cast<double>(own_key<Count>(settings, "newton_schulz_steps")) * (4.0 * m * m * n + 2.0 * m * m * m);
}

}  // namespace

const OptimizerRules& rules();

const OptimizerKind& kind() {
  static const MatrixUpdate kMatrices{
      .prepare = prepare, .transform = transform, .apply = apply, .cost = cost, .scratch_bytes = scratch_bytes};
  static const OptimizerKind kKind{.rules = rules(), .matrices = &kMatrices};
  return kKind;
}

}  // namespace cohort::muon
