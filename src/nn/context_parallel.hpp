// What attention needs where only a part of each sample's tokens is here (context parallelism): the layers work on the rows that
// are here, each token by itself; only attention looks at other tokens, and asks this for it.
#pragma once

#include "ops/attention_shape.hpp"
#include "ops/pointwise.hpp"
#include "ops/token_rows.hpp"
#include "tensor/tensor.hpp"

namespace cohort {

struct StepContext;

class ContextParallel {
 public:
  virtual ~ContextParallel() = default;

  /// Which tokens of each sample the rows here are; never whole().
  virtual ops::TokenRows rows() const = 0;

  /// ops::attention_forward of whole samples, for the tokens that are here: `here` is the shape of the rows here, of whose packed
  /// activation qkv queries and keys have been rotated by their positions in the sample. out and lse are overwritten; scratch
  /// memory comes from context.activations. // Collective over: those that hold the parts of the sample
  virtual void attention_forward(const StepContext& context, const ops::AttentionShape& here, const Tensor& out,
                                 const Tensor& lse, const Tensor& qkv, const ops::DropoutKey& dropout_key) const = 0;
  /// dqkv = gradient with respect to qkv, of the losses of all parts. // Collective, likewise
  virtual void attention_backward(const StepContext& context, const ops::AttentionShape& here, const Tensor& dqkv,
                                  const Tensor& dout, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                                  const ops::DropoutKey& dropout_key) const = 0;
};

/// Of a table with a row for each position, the rows of the `tokens` tokens of each sample that are here: a part of the table, or
/// where the sequence is divided a copy in context.activations. With a cache or with packed documents each row has its own
/// position: then the rows of all `tokens` tokens that are here, of all samples.
Tensor position_rows(const StepContext& context, const Tensor& table, Count tokens);
/// table += rows, each at its position, where `rows` are as above; both fp32. Only where the sequence is divided.
void add_position_rows(const StepContext& context, const Tensor& table, const Tensor& rows);

}  // namespace cohort
