#include "models/decoder.hpp"

#include <algorithm>

#include "ops/cross_entropy.hpp"
#include "ops/embedding.hpp"
#include "ops/gemm.hpp"

namespace cohort {
namespace {

using ops::as_matrix;
using ops::Transpose;

// Logits that exist at once: 16 MiB of fp32.
constexpr Count kLogitElements = Count{4} << 20;

}  // namespace

Decoder::Decoder(std::string kind, const DecoderSpec& spec) : Model(std::move(kind)), spec_(spec) {
  const InitSpec init{InitSpec::Kind::normal, spec.init_std};
  embedding_ = &registry_.declare("embedding.weight", {spec.vocabulary, spec.width}, init);
  units_.push_back({"embedding", {embedding_}});
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
  head_ = spec.tied_head ? embedding_ : &registry_.declare("head.weight", {spec.vocabulary, spec.width}, init);
  units_.push_back({"head", norm_->parameters()});
  if (!spec.tied_head) units_.back().parameters.push_back(head_);
}

Tensor Decoder::run(const StepContext& context, const ModelInput& input, Hooks& hooks, Saved* saved) {
  const Shape rows{static_cast<Count>(input.inputs.size()), spec_.width};
  hooks.pre_forward(units_.front());
  Tensor x = context.take(rows);
  ops::embedding_forward(context.exec, x, input.inputs, embedding_->value, positions());
  ops::dropout(context.exec, x, context.dropout_key(spec_.dropout, 0));
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
    hooks.post_forward(units_[layer + 1]);
  }

  hooks.pre_forward(units_.back());
  const Tensor normed = context.take(rows);
  const Norm::Saved norm = norm_->forward(context, normed, x);
  if (saved != nullptr) {
    saved->last = x;
    saved->norm = norm;
  }
  return normed;
}

double Decoder::head_loss(const StepContext& context, const Tensor& normed, std::span<const std::int32_t> targets,
                          float gradient_scale, const Tensor& dnormed) {
  const Count rows = normed.shape().rows();
  const Count chunk = std::clamp<Count>(kLogitElements / spec_.vocabulary, 1, rows);
  const Arena::Scope scratch(*context.activations);
  const Tensor memory = context.take({chunk, spec_.vocabulary});
  double loss = 0.0;
  for (Count begin = 0; begin < rows; begin += chunk) {
    const Count end = std::min(rows, begin + chunk);
    const Tensor logits = memory.slice(0, end - begin);
    const auto chunk_targets = targets.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    const Tensor x = normed.slice(begin, end);
    ops::gemm(context.exec, as_matrix(logits), as_matrix(x), Transpose::no, as_matrix(head_->value), Transpose::yes);
    if (!dnormed.defined()) {
      loss += ops::cross_entropy_forward(context.exec, logits, chunk_targets);
      continue;
    }
    loss += ops::cross_entropy_forward_backward(context.exec, logits, chunk_targets, gradient_scale);
    ops::gemm(context.exec, as_matrix(dnormed.slice(begin, end)), as_matrix(logits), Transpose::no, as_matrix(head_->value),
              Transpose::no);
    ops::gemm(context.exec, as_matrix(head_->gradient), as_matrix(logits), Transpose::yes, as_matrix(x), Transpose::no, 1.0f,
              1.0f);
  }
  return loss;
}

double Decoder::forward(const StepContext& context, const ModelInput& input, float gradient_scale, Hooks& hooks) {
  saved_ = {};
  const Tensor normed = run(context, input, hooks, &saved_);
  saved_.dnormed = context.take(normed.shape());
  const double loss = head_loss(context, normed, input.targets, gradient_scale, saved_.dnormed);
  hooks.post_forward(units_.back());
  return loss;
}

void Decoder::backward(const StepContext& context, const ModelInput& input, Hooks& hooks) {
  const Arena::Scope scratch(*context.activations);
  const Tensor dx = context.take(saved_.last.shape());
  dx.zero();
  hooks.pre_backward(units_.back());
  norm_->backward(context, dx, saved_.dnormed, saved_.last, saved_.norm);
  for (Parameter* parameter : units_.back().parameters) hooks.grad_ready(*parameter);

  for (std::size_t layer = blocks_.size(); layer-- > 0;) {
    hooks.pre_backward(units_[layer + 1]);
    blocks_[layer].backward(context, dx, saved_.blocks[layer]);
    for (Parameter* parameter : units_[layer + 1].parameters) hooks.grad_ready(*parameter);
  }

  hooks.pre_backward(units_.front());
  ops::dropout(context.exec, dx, context.dropout_key(spec_.dropout, 0));
  ops::embedding_backward(context.exec, embedding_->gradient, positions_ ? positions_->gradient : Tensor{}, input.inputs, dx);
  for (Parameter* parameter : units_.front().parameters) hooks.grad_ready(*parameter);
}

double Decoder::loss(const StepContext& context, const ModelInput& input) {
  const Arena::Scope scratch(*context.activations);
  Hooks none;
  return head_loss(context, run(context, input, none, nullptr), input.targets, 0.0f, {});
}

void Decoder::last_logits(const StepContext& context, const ModelInput& input, const Tensor& logits) {
  const Arena::Scope scratch(*context.activations);
  Hooks none;
  const Tensor normed = run(context, input, none, nullptr);
  const Count tokens = normed.shape().rows() / input.samples;
  for (Count b = 0; b < input.samples; ++b) {
    const Tensor last = normed.slice((b + 1) * tokens - 1, (b + 1) * tokens);
    ops::gemm(context.exec, as_matrix(logits.slice(b, b + 1)), as_matrix(last), Transpose::no, as_matrix(head_->value),
              Transpose::yes);
  }
}

double Decoder::flops_per_token(Count tokens) const {
  const Count position_elements = positions_ ? positions_->global_shape.elements() : 0;
  return 6.0 * static_cast<double>(registry_.elements() - position_elements) +
         12.0 * static_cast<double>(spec_.layers) * static_cast<double>(spec_.width) * static_cast<double>(tokens);
}

Count Decoder::activation_elements(Count samples) const {
  const Count rows = samples * spec_.tokens;
  const Count outside = 4 * rows * spec_.width + rows;  // embedding, final norm's output and gradient, gradient of the stream
  const Count inside = blocks_.empty() ? 0 : blocks_.front().inside_elements(samples, spec_.tokens);
  const Count scratch = blocks_.empty() ? 0 : blocks_.front().backward_elements(samples, spec_.tokens);
  const Count outputs = spec_.layers * rows * spec_.width;
  if (spec_.block.checkpointing) return outside + outputs + inside + rows * spec_.width + scratch;
  return outside + outputs + spec_.layers * inside + scratch;
}

}  // namespace cohort
