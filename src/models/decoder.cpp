#include "models/decoder.hpp"

#include <algorithm>

#include "ops/cross_entropy.hpp"
#include "ops/embedding.hpp"
#include "ops/linear.hpp"
#include "tensor/convert.hpp"

namespace cohort {
namespace {

// Logits that exist at once. On a CPU 16 MiB of fp32: they should stay near the caches. On a GPU 2 GiB of bf16: a product must be
// large to fill the device.
constexpr Count kLogitElementsOfCpu = Count{4} << 20;
constexpr Count kLogitElementsOfGpu = Count{1} << 30;
// On a GPU the head works on a vocabulary rounded up to this: products of odd sizes were seen to take up to seven times as long.
constexpr Count kLogitAlignment = 128;

Count rounded_up(Count n, Count unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

Decoder::Decoder(std::string kind, const DecoderSpec& spec, const Placement& placement)
    : Model(std::move(kind), placement), spec_(spec) {
  const InitSpec init{InitSpec::Kind::normal, spec.init_std};
  const Count padding = (logit_columns() - spec.vocabulary) * spec.width;
  embedding_ = &registry_.declare("embedding.weight", {spec.vocabulary, spec.width}, init, spec.tied_head ? padding : 0);
  units_.push_back({"embedding", {embedding_}, /*backward_reads=*/false});
  if (spec.learned_positions) {
    positions_ = &registry_.declare("positions.weight", {spec.tokens, spec.width}, init);
    units_.back().parameters.push_back(positions_);
  }
  blocks_.reserve(static_cast<std::size_t>(spec.layers));
  for (Count layer = 0; layer < spec.layers; ++layer) {
    const std::string name = fmt::format("blocks.{}", layer);
    blocks_.emplace_back(registry_, name, spec.block, static_cast<int>(layer));
    units_.push_back({name, blocks_.back().parameters()});
  }
  norm_.emplace(registry_, "norm", spec.block.norm, spec.width, spec.block.norm_epsilon);
  head_ = spec.tied_head ? embedding_ : &registry_.declare("head.weight", {spec.vocabulary, spec.width}, init, padding);
  units_.push_back({"head", norm_->parameters()});
  units_.back().parameters.push_back(head_);
}

Count Decoder::tokens_of(const ModelInput& input) const {
  const Count tokens = static_cast<Count>(input.inputs.size()) / input.samples;
  COHORT_CHECK(tokens <= spec_.tokens, "samples of {} tokens for a context of {}", tokens, spec_.tokens);
  return tokens;
}

Tensor Decoder::run(const StepContext& context, const ModelInput& input, Hooks& hooks, Saved* saved) {
  const Shape rows{static_cast<Count>(input.inputs.size()), spec_.width};
  hooks.pre_forward(units_.front());
  Tensor x = context.take(rows);
  const Count tokens = tokens_of(input);
  {
    const Arena::Scope scratch(*context.activations);
    const Tensor positions = positions_ ? position_rows(context, positions_->compute, tokens) : Tensor{};
    ops::embedding_forward(context.exec, x, input.inputs, embedding_->compute, positions);
  }
  ops::dropout(context.exec, x, context.dropout_key(spec_.dropout, 0));
  if (context.inspect) context.inspect(units_.front().name, x);
  hooks.post_forward(units_.front());

  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    hooks.pre_forward(units_[layer + 1]);
    const Tensor out = context.take(rows);
    if (saved != nullptr) {
      saved->blocks.push_back(blocks_[layer].forward(context, out, x, input.samples));
      x = out;
    } else {
      const Arena::Scope forgotten(*context.activations);
      blocks_[layer].forward(context, out, x, input.samples);
      x = out;
    }
    if (context.inspect) context.inspect(units_[layer + 1].name, x);
    hooks.post_forward(units_[layer + 1]);
  }

  hooks.pre_forward(units_.back());
  const Tensor normed = context.take(rows);
  const Norm::Saved norm = norm_->forward(context, normed, x);
  if (context.inspect) context.inspect(units_.back().name, normed);
  if (saved != nullptr) {
    saved->last = x;
    saved->norm = norm;
  }
  return normed;
}

void Decoder::head_loss(const StepContext& context, const Tensor& normed, std::span<const std::int32_t> targets,
                        float gradient_scale, const Tensor& dnormed) {
  const Count rows = normed.shape().rows();
  const Count chunk = logit_rows(rows);
  const Arena::Scope scratch(*context.activations);
  const Tensor memory = context.take({chunk, logit_columns()});
  for (Count begin = 0; begin < rows; begin += chunk) {
    const Count end = std::min(rows, begin + chunk);
    const Tensor logits = memory.slice(0, end - begin);
    const auto chunk_targets = targets.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    const Tensor x = normed.slice(begin, end);
    ops::linear_forward(context.exec, logits, x, head_rows(&Parameter::compute));
    if (!dnormed.defined()) {
      ops::cross_entropy_forward(context.exec, context.loss_sum, logits, spec_.vocabulary, chunk_targets);
      continue;
    }
    ops::cross_entropy_forward_backward(context.exec, context.loss_sum, logits, spec_.vocabulary, chunk_targets, gradient_scale);
    ops::linear_backward_input(context.exec, dnormed.slice(begin, end), logits, head_rows(&Parameter::compute));
    ops::linear_backward_weight(context.exec, head_rows(&Parameter::gradient), {}, logits, x);
  }
}

void Decoder::forward(const StepContext& given, const ModelInput& input, float gradient_scale, Hooks& hooks) {
  const StepContext context = given.with_slots(input.slots);
  saved_ = {};
  const Tensor normed = run(context, input, hooks, &saved_);
  hooks.pre_gradient(units_.back());
  saved_.dnormed = context.take(normed.shape());
  head_loss(context, normed, input.targets, gradient_scale, saved_.dnormed);
  hooks.post_forward(units_.back());
}

void Decoder::backward(const StepContext& given, const ModelInput& input, Hooks& hooks) {
  const StepContext context = given.with_slots(input.slots);
  const Arena::Scope scratch(*context.activations);
  const Tensor dx = context.take(saved_.last.shape());
  dx.zero();
  hooks.pre_backward(units_.back());
  hooks.pre_gradient(units_[units_.size() - 2]);  // the norm adds the last block's bias gradient
  norm_->backward(context, dx, saved_.dnormed, saved_.last, saved_.norm, blocks_.back().last_bias_gradient(context));
  for (Parameter* parameter : units_.back().parameters) {
    if (parameter != embedding_) hooks.grad_ready(*parameter);  // a tied head is ready after its last use, the embedding
  }

  for (std::size_t layer = blocks_.size(); layer-- > 0;) {
    hooks.pre_backward(units_[layer + 1]);
    hooks.pre_gradient(units_[layer]);  // of the block before, as above
    blocks_[layer].backward(context, dx, saved_.blocks[layer],
                            layer > 0 ? blocks_[layer - 1].last_bias_gradient(context) : Tensor{});
    for (Parameter* parameter : units_[layer + 1].parameters) hooks.grad_ready(*parameter);
  }

  ops::dropout(context.exec, dx, context.dropout_key(spec_.dropout, 0));
  embedding_backward(context, input, dx);
  for (Parameter* parameter : units_.front().parameters) hooks.grad_ready(*parameter);
  hooks.end_pass();
}

void Decoder::embedding_backward(const StepContext& context, const ModelInput& input, const Tensor& dx) {
  const Count tokens = tokens_of(input);
  const bool scatter = positions_ != nullptr && context.sequence != nullptr;  // the rows here are not neighbours in the table
  Tensor dpositions;
  if (positions_ != nullptr)
    dpositions = scatter ? context.take_fp32({tokens, spec_.width}) : positions_->gradient.slice(0, tokens);
  if (scatter) dpositions.zero();
  ops::embedding_backward(context.exec, embedding_->gradient, dpositions, input.inputs, dx);
  if (scatter) add_position_rows(context, positions_->gradient, dpositions);
}

void Decoder::loss(const StepContext& context, const ModelInput& input, Hooks& hooks) {
  const Arena::Scope scratch(*context.activations);
  head_loss(context, run(context, input, hooks, nullptr), input.targets, 0.0f, {});
  hooks.post_forward(units_.back());
  hooks.end_pass();
}

void Decoder::last_logits(const StepContext& context, const ModelInput& input, const Tensor& logits, Hooks& hooks) {
  COHORT_CHECK(context.sequence == nullptr, "the last token's logits need whole samples");
  const Arena::Scope scratch(*context.activations);
  const Tensor normed = run(context, input, hooks, nullptr);
  const Count tokens = normed.shape().rows() / input.samples;
  const Tensor row = context.take({1, logit_columns()});
  for (Count b = 0; b < input.samples; ++b) {
    ops::linear_forward(context.exec, row, normed.slice((b + 1) * tokens - 1, (b + 1) * tokens), head_rows(&Parameter::compute));
    const Tensor computed = to_host_fp32(row);
    std::copy(computed.f32(), computed.f32() + spec_.vocabulary, logits.f32() + b * spec_.vocabulary);
  }
  hooks.post_forward(units_.back());
  hooks.end_pass();
}

double Decoder::flops_per_token(Count tokens) const {
  const Count position_elements = positions_ ? positions_->global_shape.elements() : 0;
  return 6.0 * static_cast<double>(registry_.elements() - position_elements) +
         12.0 * static_cast<double>(spec_.layers) * static_cast<double>(spec_.width) * static_cast<double>(tokens);
}

Bytes Decoder::activation_bytes(Count samples) const {
  const DType dtype = placement_.compute;
  const Count rows = samples * spec_.tokens;
  const Bytes stream = rows * spec_.width * size_of(dtype);
  const Bytes statistics = 2 * rows * size_of(DType::f32);
  const Block& block = blocks_.front();
  const Bytes inside = block.inside_bytes(samples, spec_.tokens, dtype);
  // Held from forward to backward: embedding, each block's output, final norm's output, gradient and statistics.
  const Bytes held = (spec_.layers + 3) * stream + statistics + (spec_.block.checkpointing ? 0 : spec_.layers * inside);
  // On top of it, first the head's logits, then the gradient of the stream and what the backward pass of one block needs.
  const Bytes logits = logit_rows(rows) * logit_columns() * size_of(dtype);
  const Bytes again = spec_.block.checkpointing ? inside + stream : 0;
  return held + std::max(logits, stream + again + block.backward_bytes(samples, spec_.tokens, dtype));
}

Tensor Decoder::head_rows(Tensor Parameter::*tensor) const {
  const Tensor& rows = head_->*tensor;
  return Tensor::wrap(rows.raw(), {logit_columns(), spec_.width}, rows.dtype(), rows.device());
}

Count Decoder::logit_columns() const {
  const Count alignment = placement_.device == DeviceKind::cuda ? kLogitAlignment : 1;
  return rounded_up(spec_.vocabulary, alignment);
}

Count Decoder::logit_rows(Count rows) const {
  const Count elements = placement_.device == DeviceKind::cuda ? kLogitElementsOfGpu : kLogitElementsOfCpu;
  const Count most = std::clamp<Count>(elements / logit_columns(), 1, rows);
  // Chunks of nearly equal size, so that the last is no small product.
  const Count chunks = (rows + most - 1) / most;
  const Count even = (rows + chunks - 1) / chunks;
  return placement_.device == DeviceKind::cuda ? std::min(rows, rounded_up(even, kLogitAlignment)) : even;
}

}  // namespace cohort
