// The end of a decoder: what becomes of the last block's output. The loss with its gradient, or logits.
#include <algorithm>

#include "base/counting_listener.hpp"
#include "models/decoder.hpp"
#include "ops/linear.hpp"
#include "tensor/convert.hpp"

namespace cohort {

void Decoder::head_loss(const StepContext& context, const Tensor& own_normed, std::span<const std::int32_t> targets,
                        float gradient_scale, const Tensor& own_dnormed) {
  const Arena::Scope scratch(*context.activations);
  const Tensor normed = parallel_.gather_rows(context, own_normed);
  const Tensor dnormed = own_dnormed.defined() ? parallel_.take_all_rows(context, own_dnormed) : Tensor{};
  const Count rows = normed.shape().rows();
  const Count chunk = logit_rows(rows);
  const Tensor memory = context.take({chunk, logit_columns()});
  for (Count begin = 0; begin < rows; begin += chunk) {
    const Count end = std::min(rows, begin + chunk);
    const Tensor logits = memory.slice(0, end - begin);
    const auto chunk_targets = targets.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    const Tensor x = normed.slice(begin, end);
    ops::linear_forward(context.exec, logits, x, head_rows(&Parameter::compute));
    vocabulary_.loss(context, logits, chunk_targets, dnormed.defined() ? &gradient_scale : nullptr);
    if (!dnormed.defined()) continue;
    ops::linear_backward_input(context.exec, dnormed.slice(begin, end), logits, head_rows(&Parameter::compute));
    if (!head_->frozen) ops::linear_backward_weight(context.exec, head_rows(&Parameter::gradient), {}, logits, x);
  }
  if (dnormed.defined()) parallel_.sum_rows(own_dnormed, dnormed);
}

void Decoder::backward_head(const StepContext& context, const Tensor& dx, Hooks& hooks, const Saved& saved) {
  note_unit(units_.back().name, /*backward=*/true);
  dx.zero();
  hooks.pre_backward(units_.back());
  partial_gradients_.back().begin();
  norm_->backward(context, dx, saved.dnormed, saved.last, saved.norm);
  partial_gradients_.back().sum(context);
  tell_ready(units_.back(), /*but=*/embedding_, hooks);  // a tied head is ready after its last use, the embedding
}

void Decoder::head_logits(const StepContext& context, const Tensor& own_normed, Count samples, const Tensor& logits) {
  COHORT_CHECK(context.sequence == nullptr, "the last token's logits need whole samples");
  const Tensor normed = parallel_.gather_rows(context, own_normed);
  const Count tokens = normed.shape().rows() / samples;
  const Count together = tokens == 1 ? samples : 1;  // samples of which the last rows are neighbours
  const Tensor parts = context.take({parallel_.parts() * together, logit_columns()});
  for (Count b = 0; b < samples; b += together) {
    const Count last = (b + 1) * tokens - 1;
    const Arena::Scope scratch(*context.activations);
    parallel_.gather(parts, head_product(context, normed.slice(last, last + together)));
    const Tensor computed = to_host_fp32(parts);
    for (Count r = 0; r < together; ++r) {
      for (Count first = 0; first < spec_.vocabulary; first += vocabulary_.most_entries()) {
        const float* from = computed.f32() + (first / vocabulary_.most_entries() * together + r) * logit_columns();
        std::copy_n(from, std::min(vocabulary_.most_entries(), spec_.vocabulary - first),
                    logits.f32() + (b + r) * spec_.vocabulary + first);
      }
    }
  }
}

Tensor Decoder::head_product(const StepContext& context, const Tensor& normed) {
  ops::Exec exec = context.exec;
  exec.row_by_row = exec.row_by_row || context.cache != nullptr;  // a prompt has one row here, too
  const Tensor rows = context.take({normed.shape().rows(), logit_columns()});
  ops::linear_forward(exec, rows, normed, head_rows(&Parameter::compute));
  return rows;
}

Tensor Decoder::logits_on_device(const StepContext& context, const ModelInput& input) {
  Hooks none;
  const Tensor logits = head_product(context, run(only_chunk(), context, input, {}, none, nullptr));
  const Tensor fp32 = context.take_fp32(logits.shape());
  convert(fp32, logits);
  return fp32;
}

Tensor Decoder::head_rows(Tensor Parameter::*tensor) const {
  const Tensor& rows = head_->*tensor;
  return Tensor::wrap(rows.raw(), {logit_columns(), spec_.width}, rows.dtype(), rows.device());
}

}  // namespace cohort
