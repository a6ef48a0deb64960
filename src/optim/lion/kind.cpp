// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2): every element moves by the rate, in the
// direction of a mean of the gradient.
//
//   u = sign(beta1 mean + (1 - beta1) g);   w = w - rate (u + weight_decay w);   mean = beta2 mean + (1 - beta2) g
#include "optim/elementwise.hpp"

namespace cohort::lion {
namespace {

template <class T>
void update_range(const ops::Exec& exec, const UpdateTensors& t, const DecayRange& range, const GroupStep& step,
                  const ops::OptimizerScalars* decided) {
  const auto rate = static_cast<float>(step.learning_rate);
  const auto beta1 = static_cast<float>(step.settings.beta1), beta2 = static_cast<float>(step.settings.beta2);
  const float decay = range.weight_decay;
  float* ws = t.values.f32() + range.begin;
  T* copies = t.compute.data<T>() + range.begin;
  float* means = t.slots[0].f32() + range.begin;
  const float* gs = t.gradients.f32() + range.begin;
  for_each_index(
      exec.device, "cohort::lion", range.end - range.begin, KOKKOS_LAMBDA(Count i) {
        if (decided->skip != 0) return;
        const float gradient = gs[i] * decided->gradient_scale;
        const float direction = beta1 * means[i] + (1.0f - beta1) * gradient;
        const float sign = direction > 0.0f ? 1.0f : direction < 0.0f ? -1.0f : 0.0f;
        ws[i] -= rate * (sign + decay * ws[i]);
        means[i] = beta2 * means[i] + (1.0f - beta2) * gradient;
        write_copy(copies, i, ws[i]);
      });
}

void update(const ops::Exec& exec, const UpdateTensors& tensors, const Tensor& ranges, const GroupStep& step,
            const Tensor& decisions) {
  note_traffic("lion", DType::f32, 5 * tensors.values.bytes(), OpKind::optimizer);
  with_storage_type(tensors.compute, [&]<class T>(T) {
    for (const DecayRange& range : decay_ranges(ranges)) update_range<T>(exec, tensors, range, step, scalars_of(decisions));
  });
}

}  // namespace

const OptimizerRules& rules();

const OptimizerKind& kind() {
  static const OptimizerKind kKind{.rules = rules(), .update = update};
  return kKind;
}

}  // namespace cohort::lion
