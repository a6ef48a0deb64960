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

// Of whole tensors, not of parts.
Count whole_elements(const ParameterRegistry& registry) {
  Count elements = 0;
  for (const auto& parameter : registry.all()) elements += parameter->global_shape.elements();
  return elements;
}

}  // namespace

double Decoder::flops_per_token(Count tokens) const {
  ParameterRegistry layer;
  const Block block(layer, "block", spec_.block, 0, parallel_);
  ParameterRegistry rest;
  const Norm norm(rest, "norm", spec_.block.norm, spec_.width, spec_.block.norm_epsilon, parallel_);
  rest.declare("tables", {spec_.tied_head ? 1 : 2, spec_.vocabulary, spec_.width}, {});
  const Count elements = spec_.layers * whole_elements(layer) + whole_elements(rest);
  return 6.0 * static_cast<double>(elements) +
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
