// Models and their inputs on the device under test.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "models/model.hpp"
#include "support/test_device.hpp"
#include "tensor/counting_scope.hpp"

namespace cohort::test {

/// On the device under test.
inline ModelStorage test_storage(DType compute = DType::f32) { return {.device = test_device(), .compute = compute}; }

/// Inputs where a model on the device under test reads them: on a CPU where they are, on a GPU in copies that live as long as
/// this object. (A run does it with train/input_buffer.hpp, which these tests are below.)
class DeviceInputs {
 public:
  ModelInput put(const ModelInput& host) {
    return {host.samples,       put(host.inputs), put(host.targets),
            put(host.features), put(host.slots),  {put(host.documents.first_keys), put(host.documents.positions)}};
  }
  std::vector<ModelInput> put(const std::vector<ModelInput>& host) {
    std::vector<ModelInput> inputs;
    for (const ModelInput& input : host) inputs.push_back(put(input));
    return inputs;
  }

 private:
  template <class T>
  std::span<const T> put(std::span<const T> values) {
    if (test_device() == DeviceKind::cpu || values.empty()) return values;
    // It is only read; Tensor has no read-only form.
    const Tensor host = Tensor::wrap(const_cast<T*>(values.data()), {static_cast<Count>(values.size())}, dtype_of<T>);
    memory_.push_back(host.to(test_device(), "test.input"));
    return {memory_.back().template data<T>(), values.size()};
  }

  std::vector<Tensor> memory_;
};

/// Bytes of activations that forward and backward of a micro-batch hold at once, counted (base/counting.hpp). `make` gives the
/// model, with its parameters allocated; `input` is read where it lies.
template <class Make>
Bytes counted_activations(const Make& make, const ModelInput& input) {
  const CountingScope scope;
  const std::unique_ptr<Model> model = make();
  Arena arena("test", model->storage().device);
  const StepContext context{.exec = {.device = model->storage().device},
                            .dtype = model->storage().compute,
                            .activations = &arena,
                            .loss_sum = Tensor::zeros("test.loss", {1}, DType::f64),
                            .training = true};
  Hooks hooks;
  model->forward(context, input, 1.0f, hooks);
  model->backward(context, input, hooks);
  return arena.peak_bytes();
}

/// Numbers for all elements of a registry, in order, as a flat tensor on the device under test; zero where there is padding.
inline Tensor flat_tensor(const ParameterRegistry& registry, std::span<const double> values) {
  COHORT_CHECK(static_cast<Count>(values.size()) == registry.elements(), "{} values for {} elements", values.size(),
               registry.elements());
  const Tensor flat = Tensor::zeros("test", registry.flat_values().shape());
  std::size_t next = 0;
  for (const auto& parameter : registry.all()) {
    float* to = flat.f32() + parameter->offset;
    for (Count i = 0; i < parameter->elements(); ++i) to[i] = static_cast<float>(values[next++]);
  }
  return flat.to(test_device(), "test");
}

/// Whether a flat tensor (values, gradients or moments) holds zeros wherever the registry has padding, which products read.
inline bool padding_is_zero(const ParameterRegistry& registry, const Tensor& flat) {
  const Tensor host = flat.to_host();
  Count next = 0;
  const auto zero_up_to = [&](Count end) {
    while (next < end && host.f32()[next] == 0.0f) ++next;
    return next == end;
  };
  for (const auto& parameter : registry.trained()) {
    if (!zero_up_to(parameter->offset)) return false;
    next += parameter->elements();
  }
  return zero_up_to(host.elements());
}

}  // namespace cohort::test
