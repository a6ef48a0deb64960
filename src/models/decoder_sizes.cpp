// How much a decoder computes, and in what pieces its head does.
#include <algorithm>

#include "models/decoder.hpp"

namespace cohort {
namespace {

// Logits that exist at once. On a CPU 16 MiB of fp32: they should stay near the caches. On a GPU 2 GiB of bf16: a product must be
// large to fill the device.
constexpr Count kLogitElementsOfCpu = Count{4} << 20;
constexpr Count kLogitElementsOfGpu = Count{1} << 30;
// On a GPU the head works on a vocabulary rounded up to this: products of odd sizes were seen to take up to seven times as long.
constexpr Count kLogitAlignment = 128;

Count rounded_up(Count n, Count unit) { return (n + unit - 1) / unit * unit; }

// Operations of the products with whole tensors, not parts, for one token: two for each element forward, two for the gradient of
// the input and two for that of the weight, which what is frozen has not.
double product_flops(const ParameterRegistry& registry) {
  double flops = 0.0;
  for (const auto& parameter : registry.all())
    flops += (parameter->frozen ? 4.0 : 6.0) * static_cast<double>(parameter->global_shape.elements());
  return flops;
}

}  // namespace

bool DecoderSpec::recomputes(Count layer) const {
  if (!offload) return layer < recomputed_layers;
  const Count whole = layers - recomputed_layers;
  return (layer + 1) * whole / layers == layer * whole / layers;
}

Count Decoder::checkpointed_layers(const ChunkSpec& chunk) const {
  if (spec_.block.recompute == Recompute::none) return 0;
  Count layers = 0;
  for (Count layer = chunk.first_layer; layer < chunk.end_layer; ++layer) layers += spec_.recomputes(layer) ? 1 : 0;
  return layers;
}

double Decoder::flops_per_token(Count tokens) const {
  ParameterRegistry layer, rest;
  if (spec_.lora.rank > 0) {
    layer.freeze();
    rest.freeze();
  }
  const Block block(layer, "block", spec_.block, 0, parallel_);
  const Norm norm(rest, "norm", spec_.block.norm, spec_.width, spec_.block.norm_epsilon, parallel_);
  rest.declare("tables", {spec_.tied_head ? 1 : 2, spec_.vocabulary, spec_.width}, {});
  return static_cast<double>(spec_.layers) * product_flops(layer) + product_flops(rest) +
         12.0 * static_cast<double>(spec_.layers) *
             static_cast<double>(spec_.block.attention.heads * spec_.block.attention.head_size) * static_cast<double>(tokens);
}

Count Decoder::logit_columns() const {
  const Count alignment = storage_.device == DeviceKind::gpu ? kLogitAlignment : 1;
  return rounded_up(vocabulary_.most_entries(), alignment);
}

Count Decoder::logit_rows(Count rows) const {
  const Count elements = storage_.device == DeviceKind::gpu ? kLogitElementsOfGpu : kLogitElementsOfCpu;
  const Count most = std::clamp<Count>(elements / logit_columns(), 1, rows);
  // Chunks of nearly equal size, so that the last is no small product.
  const Count chunks = (rows + most - 1) / most;
  const Count even = (rows + chunks - 1) / chunks;
  return storage_.device == DeviceKind::gpu ? std::min(rows, rounded_up(even, kLogitAlignment)) : even;
}

}  // namespace cohort
