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
  units_.back().parameters.push_back(head_);
}

Tensor Decoder::positions(const ModelInput& input, Tensor Parameter::*tensor) const {
  const Count tokens = static_cast<Count>(input.inputs.size()) / input.samples;
  COHORT_CHECK(tokens <= spec_.tokens, "samples of {} tokens for a context of {}", tokens, spec_.tokens);
  return positions_ ? (positions_->*tensor).slice(0, tokens) : Tensor{};
}

Tensor Decoder::run(const StepContext& context, const ModelInput& input, Hooks& hooks, Saved* saved) {
  const Shape rows{static_cast<Count>(input.inputs.size()), spec_.width};
  hooks.pre_forward(units_.front());
  Tensor x = context.take(rows);
  ops::embedding_forward(context.exec, x, input.inputs, embedding_->value, positions(input, &Parameter::value));
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
  const Count chunk = logit_rows(rows);
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

double Decoder::forward(const StepContext& given, const ModelInput& input, float gradient_scale, Hooks& hooks) {
  const StepContext context = given.with_slots(input.slots);
  saved_ = {};
  const Tensor normed = run(context, input, hooks, &saved_);
  saved_.dnormed = context.take(normed.shape());
  const double loss = head_loss(context, normed, input.targets, gradient_scale, saved_.dnormed);
  hooks.post_forward(units_.back());
  return loss;
}

void Decoder::backward(const StepContext& given, const ModelInput& input, Hooks& hooks) {
  const StepContext context = given.with_slots(input.slots);
  const Arena::Scope scratch(*context.activations);
  const Tensor dx = context.take(saved_.last.shape());
  dx.zero();
  hooks.pre_backward(units_.back());
  norm_->backward(context, dx, saved_.dnormed, saved_.last, saved_.norm);
  for (Parameter* parameter : units_.back().parameters) {
    if (parameter != embedding_) hooks.grad_ready(*parameter);  // a tied head is ready after its last use, the embedding
  }

  for (std::size_t layer = blocks_.size(); layer-- > 0;) {
    hooks.pre_backward(units_[layer + 1]);
    blocks_[layer].backward(context, dx, saved_.blocks[layer]);
    for (Parameter* parameter : units_[layer + 1].parameters) hooks.grad_ready(*parameter);
  }

  hooks.pre_backward(units_.front());
  ops::dropout(context.exec, dx, context.dropout_key(spec_.dropout, 0));
  ops::embedding_backward(context.exec, embedding_->gradient, positions(input, &Parameter::gradient), input.inputs, dx);
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
  const Count stream = rows * spec_.width;
  const Block& block = blocks_.front();
  const Count inside = block.inside_elements(samples, spec_.tokens);
  // Held from forward to backward: embedding, each block's output, final norm's output, gradient and reciprocal deviations.
  const Count held = (spec_.layers + 3) * stream + 2 * rows + (spec_.block.checkpointing ? 0 : spec_.layers * inside);
  // On top of it, first the head's logits, then the gradient of the stream and what the backward pass of one block needs.
  const Count logits = logit_rows(rows) * spec_.vocabulary;
  const Count again = spec_.block.checkpointing ? inside + stream : 0;
  return held + std::max(logits, stream + again + block.backward_elements(samples, spec_.tokens));
}

Count Decoder::logit_rows(Count rows) const { return std::clamp<Count>(kLogitElements / spec_.vocabulary, 1, rows); }

}  // namespace cohort
