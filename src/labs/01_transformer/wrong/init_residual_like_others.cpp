// init_weights: it writes to the residual stream
#include <cohort/lab01_transformer.hpp>
#include <span>
#include <string_view>

void init_weights(std::span<InitialValues> initial, std::span<const ModelTensor> tensors, int layers) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string_view name = tensors[i].name;
    const bool residual = name.ends_with("attention.output.weight") || name.ends_with("feed_forward.down.weight");
    initial[i] = {0.0, residual ? 0.02 : 0.02};
    if (tensors[i].shape.size() == 1) initial[i] = {name.ends_with(".bias") ? 0.0 : 1.0, 0.0};
  }
}
