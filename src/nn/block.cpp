#include "nn/block.hpp"

#include <algorithm>

namespace cohort {
namespace {

constexpr std::uint32_t kPlacesOfABlock = 3;  // see first_place_; place 0 of the model is the embedding's dropout

std::uint32_t first_place(int index) { return 1 + kPlacesOfABlock * static_cast<std::uint32_t>(index); }

}  // namespace

Block::Block(ParameterRegistry& registry, const std::string& name, const BlockSpec& spec, int index, TensorParallel& parallel)
    : spec_(spec),
      parallel_(&parallel),
      first_place_(first_place(index)),
      norm1_(registry, name + ".norm1", spec.norm, spec.attention.width, spec.norm_epsilon, parallel),
      attention_(registry, name + ".attention", spec.attention, first_place_, parallel),
      norm2_(registry, name + ".norm2", spec.norm, spec.attention.width, spec.norm_epsilon, parallel),
      feed_forward_(registry, name + ".feed_forward", spec.feed_forward, parallel) {}

Block::Saved Block::forward(const StepContext& context, Arena& kept, const Tensor& out, const Tensor& x, Count batch) const {
  const StepContext keeping = context.with_activations(kept);
  Saved saved{x, batch, std::nullopt, std::nullopt};
  if (spec_.recompute == Recompute::none) {
    saved.inside = run(keeping, out, x, batch, attention_.take_result(keeping, x, batch));
    return saved;
  }
  if (spec_.recompute == Recompute::selective) saved.attended = attention_.take_result(keeping, x, batch);
  const Arena::Scope forgotten(*context.activations);
  run(context, out, x, batch, saved.attended ? *saved.attended : attention_.take_result(context, x, batch));
  return saved;
}

Block::Saved::Inside Block::run(const StepContext& context, const Tensor& out, const Tensor& x, Count batch,
                                const Attention::Result& attended) const {
  Saved::Inside s = run_inside(context, x, [&](const Tensor& y, const Tensor& normed, const Tensor& residual) {
    return attention_.forward(context, y, normed, batch, residual, attended);
  });
  add_branch(context, out, s.middle, first_place_ + 2,
             [&](const Tensor& y, const Tensor& residual) { feed_forward_.down(context, y, s.feed_forward, residual); });
  return s;
}

Block::Saved::Inside Block::run_again(const StepContext& context, const Saved& saved) const {
  return run_inside(context, saved.input, [&](const Tensor& y, const Tensor& normed, const Tensor& residual) {
    return saved.attended ? attention_.forward_again(context, y, normed, saved.batch, residual, *saved.attended)
                          : attention_.forward(context, y, normed, saved.batch, residual);
  });
}

template <class Forward>
Block::Saved::Inside Block::run_inside(const StepContext& context, const Tensor& x, const Forward& attention) const {
  Saved::Inside s;
  s.normed1 = context.take(x.shape());
  s.middle = context.take(x.shape());
  s.normed2 = context.take(x.shape());
  s.norm1 = norm1_.forward(context, s.normed1, x);
  add_branch(context, s.middle, x, first_place_ + 1,
             [&](const Tensor& y, const Tensor& residual) { s.attention = attention(y, s.normed1, residual); });
  s.norm2 = norm2_.forward(context, s.normed2, s.middle);
  s.feed_forward = feed_forward_.up(context, s.normed2);
  return s;
}

template <class Branch>
void Block::add_branch(const StepContext& context, const Tensor& out, const Tensor& x, std::uint32_t place,
                       const Branch& branch) const {
  const ops::DropoutKey key = dropout_key(context, x, place);
  if (key.probability == 0.0) return branch(out, x);
  branch(out, {});
  ops::dropout(context.exec, out, key);
  ops::add(context.exec, out, x, out);
}

Tensor Block::branch_gradient(const StepContext& context, const Tensor& dout, std::uint32_t place) const {
  const ops::DropoutKey key = dropout_key(context, dout, place);
  if (key.probability == 0.0) return dout;
  const Tensor dbranch = context.take(dout.shape());  // dout itself goes on along the residual stream
  dbranch.copy_from(dout);
  ops::dropout(context.exec, dbranch, key);
  return dbranch;
}

void Block::backward(const StepContext& context, const Tensor& dx, const Saved& saved) const {
  const Arena::Scope scratch(*context.activations);
  const Saved::Inside s = saved.inside ? *saved.inside : run_again(context, saved);
  const Tensor dnormed = context.take(dx.shape());
  const Tensor dfeed_forward = branch_gradient(context, dx, first_place_ + 2);
  feed_forward_.backward(context, dnormed, dfeed_forward, s.normed2, s.feed_forward);
  norm2_.backward(context, dx, dnormed, s.middle, s.norm2);
  const Tensor dattention = branch_gradient(context, dx, first_place_ + 1);
  attention_.backward(context, dnormed, dattention, s.normed1, s.attention);
  norm1_.backward(context, dx, dnormed, saved.input, s.norm1);
}

std::vector<Parameter*> Block::parameters() const {
  std::vector<Parameter*> all = norm1_.parameters();
  for (Parameter* parameter : attention_.parameters()) all.push_back(parameter);
  for (Parameter* parameter : norm2_.parameters()) all.push_back(parameter);
  for (Parameter* parameter : feed_forward_.parameters()) all.push_back(parameter);
  return all;
}

}  // namespace cohort
