// How much a decoder computes and how much memory it needs.
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

Bytes Decoder::held_bytes(std::size_t chunk, Count samples, Count tokens) const {
  const ChunkSpec& c = chunks_[chunk];
  const DType dtype = placement_.compute;
  const Count own = parallel_.own_rows(samples * tokens);
  const Bytes inside = spec_.block.checkpointing ? 0 : blocks_.front().inside_bytes(samples, tokens, dtype);
  // Embedding, each block's output, final norm's output and gradient.
  const Count streams = (c.embeds ? 1 : 0) + c.layers() + (c.has_head ? 2 : 0);
  const Bytes statistics = c.has_head ? 2 * own * size_of(DType::f32) : 0;
  return streams * own * spec_.width * size_of(dtype) + c.layers() * inside + statistics;
}

Bytes Decoder::forward_bytes(std::size_t chunk, Count samples, Count tokens) const {
  const Bytes held = held_bytes(chunk, samples, tokens);
  if (parallel_.parts() == 1 || spec_.block.checkpointing) return held;
  const Bytes stream = stream_bytes(samples, tokens);
  const Bytes of_head = chunks_[chunk].has_head ? 2 * stream + 2 * parallel_.own_rows(samples * tokens) * size_of(DType::f32) : 0;
  const Bytes terms = parallel_.sequence() ? stream * parallel_.parts() : 0;
  return std::max(held, held - of_head + stream + terms);
}

Bytes Decoder::stream_bytes(Count samples, Count tokens) const {
  return parallel_.own_rows(samples * tokens) * spec_.width * size_of(placement_.compute);
}

Bytes Decoder::scratch_bytes(Count samples, Count tokens, Bytes divided_attention) const {
  const DType dtype = placement_.compute;
  const Count rows = samples * tokens;
  const Bytes stream = stream_bytes(samples, tokens);
  const Block& block = blocks_.front();
  // First the head's logits, then the gradient of the stream and what the backward pass of one block needs.
  const Bytes gathered = parallel_.sequence() ? 2 * rows * spec_.width * size_of(dtype) : 0;  // final norm's output, its gradient
  const Bytes logits =
      gathered + logit_rows(rows) * (logit_columns() * size_of(dtype) + vocabulary_.statistics() * size_of(DType::f32));
  const Bytes again = spec_.block.checkpointing ? block.inside_bytes(samples, tokens, dtype) + stream : 0;
  return std::max(chunks_.back().has_head ? logits : 0,
                  stream + again + block.backward_bytes(samples, tokens, dtype, divided_attention));
}

Bytes Decoder::activation_bytes(Count samples, Count tokens) const {
  Bytes bytes = scratch_bytes(samples, tokens);
  for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) bytes += held_bytes(chunk, samples, tokens);
  return bytes;
}

Count Decoder::logit_columns() const {
  const Count alignment = placement_.device == DeviceKind::gpu ? kLogitAlignment : 1;
  return rounded_up(vocabulary_.most_entries(), alignment);
}

Count Decoder::logit_rows(Count rows) const {
  const Count elements = placement_.device == DeviceKind::gpu ? kLogitElementsOfGpu : kLogitElementsOfCpu;
  const Count most = std::clamp<Count>(elements / logit_columns(), 1, rows);
  // Chunks of nearly equal size, so that the last is no small product.
  const Count chunks = (rows + most - 1) / most;
  const Count even = (rows + chunks - 1) / chunks;
  return placement_.device == DeviceKind::gpu ? std::min(rows, rounded_up(even, kLogitAlignment)) : even;
}

}  // namespace cohort
