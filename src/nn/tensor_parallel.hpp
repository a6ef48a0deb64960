// Tensor parallelism as layers see it (Shoeybi et al. 2019, "Megatron-LM", section 3): the weights of a pair of linear layers are
// split over `parts` ranks, those of the first by its outputs ("columns"), those of the second by its inputs ("rows"), so that
// only the end of the pair has to be summed over the parts: once in forward, once in backward.
//
// Sequence parallelism (Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", section 4.2.2):
// between the pairs each part holds only its own rows. A pair then begins by gathering all rows and ends by summing them and
// scattering the sum, which together move as much data as the one sum did, and norms, dropout and the residual stream are no
// longer computed and kept parts times. The rows are the R = B*T of the micro-batch, cut into as many blocks of equal length: a
// block may end inside a sample, which only dropout masks have to know, and what is gathered is in order as it arrives.
//
// Layers hold a reference to one of these and are built by it: they declare the part that it names. Who communicates is the
// implementation (src/parallel/tensor); an object of this class itself can say what a part holds, which is all that planning
// needs, and with one part it is the whole truth: every operation is then nothing.
//
// Legend: "own" rows are R/parts with sequence parallelism, else all R. Everything is one of the two and layers need not ask
// which. (A prompt of any length may be run, too: where the parts cannot divide its rows, all are everyone's own in that pass.)
#pragma once

#include "nn/context.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

class TensorParallel {
 public:
  explicit TensorParallel(int parts = 1, int part = 0, bool sequence = false)
      : parts_(parts), part_(part), sequence_(sequence && parts > 1), divided_(sequence_) {}
  virtual ~TensorParallel() = default;
  TensorParallel(const TensorParallel&) = delete;
  TensorParallel& operator=(const TensorParallel&) = delete;

  /// The one part of those who do not split.
  static TensorParallel& none();

  int parts() const { return parts_; }
  int part() const { return part_; }
  bool sequence() const { return sequence_; }

  /// What a part gets of `n` equal things, which must divide.
  Count share(Count n) const;
  /// This part of dim `dim` of length `n`, which must divide.
  ShardSpec split(int dim, Count n) const;
  /// The spec of what every part holds whole.
  ShardSpec replicated() const { return {.splits = {}, .counts = part_ == 0}; }

  /// Own rows of a pass of `all`.
  Count own_rows(Count all) const { return sequence_ && all % parts_ == 0 ? all / parts_ : all; }

  /// To be called first in a pass. With gradients, `rows` must divide if there is sequence parallelism.
  void begin_pass(Count rows, bool with_gradients);
  /// In this pass.
  Count all_rows(Count own) const { return divided_ ? own * parts_ : own; }
  /// The masks of the own rows x.
  ops::DropoutKey rows_of(ops::DropoutKey key, const Tensor& x) const;

  // What follows is collective over tp. One operation may be under way at a time; finish() waits for it (on a GPU: orders the
  // compute stream after it), and until then its tensors must be left alone.

  /// All rows [R, C] of the own ones: `own` itself, or gathered into memory of the arena. The first form has finished.
  // Collective over: tp
  Tensor gather_rows(const StepContext& context, const Tensor& own);
  Tensor start_gather_rows(const StepContext& context, const Tensor& own);

  /// Where to put this part's terms of a sum over the parts of which `own` [own rows, C] is to become the result: `own` itself,
  /// or all rows in memory of the arena.
  Tensor partials(const StepContext& context, const Tensor& own) const;
  /// own = the own rows of the sum over the parts of `partials`, which partials() gave.
  // Collective over: tp
  void start_sum_rows(const Tensor& own, const Tensor& partials);
  void sum_rows(const Tensor& own, const Tensor& partials);

  /// x <- sum, or largest, over the parts of x, elementwise.
  // Collective over: tp
  void sum(const Tensor& x);
  void max(const Tensor& x);
  /// `all` [parts * n, ...] <- the blocks `own` [n, ...] of all parts in order.
  // Collective over: tp
  void gather(const Tensor& all, const Tensor& own);

  void finish();

 protected:
  // An implementation starts these on its group; wait() ends the last one. Called with two parts or more.
  virtual void do_sum(const Tensor& x);
  virtual void do_max(const Tensor& x);
  virtual void do_gather(const Tensor& all, const Tensor& own);
  virtual void do_sum_scatter(const Tensor& own, const Tensor& partials);
  virtual void wait();

 private:
  int parts_;
  int part_;
  bool sequence_;
  bool divided_;  // whether own rows are a part of all, in this pass
};

/// The gradients of a unit that are sums over several parts: each of the parts that hold such a parameter computes a term of its
/// gradient (Parameter::partial_gradient). With sequence parallelism those are what acts on the own rows, norms and the biases
/// after a sum; with fewer key/value heads than parts, the heads that several parts hold for different query heads.
class PartialGradients {
 public:
  PartialGradients(TensorParallel& parallel, const std::vector<Parameter*>& parameters);

  /// Before backward adds its terms: what earlier micro-batches left is a sum already, the same wherever the parameter is held;
  /// it stays with the one that counts. (A gradient that is undefined, because it is sharded further, holds nothing.)
  void begin() const;
  /// Sums the terms, all in one message: each parameter has its place there, elements where the whole tensor has them.
  // Collective over: tp
  void sum(const StepContext& context) const;

 private:
  TensorParallel* parallel_;
  std::vector<Parameter*> parameters_;
};

}  // namespace cohort
