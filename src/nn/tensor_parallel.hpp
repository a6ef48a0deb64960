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
// Overlap (Wang et al. 2023, "Overlap Communication with Dependent Computation via Decomposition in Large Deep Learning Models",
// sections 4 and 5): the product that follows a gathering, or precedes a sum, is made of blocks of rows, one of each part, and a
// block travels around the ring of parts while another is multiplied. Part p gathers its own block, then those of p-1, p-2, ...:
// each is multiplied while it is sent on to p+1 and the next one arrives. It sums the block of p-1 first, then those of p-2, ...
// and its own last: the terms of one block are computed while the sum of the block before is sent to p+1, and what the parts
// behind p have added to this one arrives. The terms of block b are thus added in the order b+1, b+2, ..., b: the same in every
// run.
//
// Legend: "own" rows are R/parts with sequence parallelism, else all R. Everything is one of the two and layers need not ask
// which. (A prompt of any length may be run, too: where the parts cannot divide its rows, all are everyone's own in that pass.)
#pragma once

#include <functional>
#include <source_location>

#include "nn/context.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

/// Some of all rows of a pass.
struct RowBlock {
  Count begin = 0, end = 0;
  bool last = true;  // no other block follows

  Tensor of(const Tensor& all) const { return all.slice(begin, end); }
};

class TensorParallel {
 public:
  /// `overlap` has an effect with `sequence` alone.
  explicit TensorParallel(int parts = 1, int part = 0, bool sequence = false, bool overlap = false)
      : parts_(parts), part_(part), sequence_(sequence && parts > 1), overlap_(overlap && sequence_), divided_(sequence_) {}
  virtual ~TensorParallel() = default;
  TensorParallel(const TensorParallel&) = delete;
  TensorParallel& operator=(const TensorParallel&) = delete;

  /// The one part of those who do not split.
  static TensorParallel& none();

  int parts() const { return parts_; }
  int part() const { return part_; }
  bool sequence() const { return sequence_; }
  bool overlap() const { return overlap_; }

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
  // compute stream after it), and until then its tensors must be left alone. `site` is whom the flight recorder names when an
  // operation hangs: the layer, which leaves it to the compiler.
  using Site = std::source_location;

  /// Where all rows [R, C] belong of which `own` [own rows, C] are this part's: `own` itself, or memory of the arena.
  Tensor take_all_rows(const StepContext& context, const Tensor& own) const;

  /// All rows of the own ones, where take_all_rows() said. The first form has finished. // Collective over: tp
  Tensor gather_rows(const StepContext& context, const Tensor& own, const Site& site = Site::current());
  void start_gather_rows(const Tensor& all, const Tensor& own, const Site& site = Site::current());

  /// own = the own rows of the sum over the parts of `terms`, which lie where take_all_rows() said. // Collective over: tp
  void start_sum_rows(const Tensor& own, const Tensor& terms, const Site& site = Site::current());
  void sum_rows(const Tensor& own, const Tensor& terms, const Site& site = Site::current());

  // The same around a product of the rows, all of them at once or, with overlap, block by block. `work` puts a product on its
  // way; that of a gathering may start another operation at the last block.
  using RowWork = std::function<void(const RowBlock& block, const Tensor& rows)>;

  /// Gathers all rows of `own` into `all`, which is whole on return, and calls work(block, its rows) for each block as it
  /// arrives.
  // Collective over: tp
  void gather_rows(const Tensor& all, const Tensor& own, const RowWork& work, const Site& site = Site::current());
  /// The same without keeping the rows. // Collective over: tp
  void read_rows(const StepContext& context, const Tensor& own, const RowWork& work, const Site& site = Site::current());
  /// own = the own rows of a sum over the parts, of which work(block, terms) writes this part's terms. // Collective over: tp
  void sum_rows(const StepContext& context, const Tensor& own, const RowWork& work, const Site& site = Site::current());

  /// x <- sum, or largest, over the parts of x, elementwise.
  // Collective over: tp
  void sum(const Tensor& x, const Site& site = Site::current());
  void max(const Tensor& x, const Site& site = Site::current());
  /// `all` [parts * n, ...] <- the blocks `own` [n, ...] of all parts in order.
  // Collective over: tp
  void gather(const Tensor& all, const Tensor& own, const Site& site = Site::current());

  void finish();

 protected:
  // An implementation starts these on its group; wait() ends the last one. Called with two parts or more.
  virtual void do_sum(const Tensor& x, const Site& site);
  virtual void do_max(const Tensor& x, const Site& site);
  virtual void do_gather(const Tensor& all, const Tensor& own, const Site& site);
  virtual void do_sum_scatter(const Tensor& own, const Tensor& terms, const Site& site);
  /// `outgoing` to the next part of the ring, `incoming`, as large, from the one before.
  virtual void do_pass_on(const Tensor& outgoing, const Tensor& incoming, const Site& site);
  virtual void wait();

 private:
  bool in_blocks() const { return overlap_ && divided_; }
  // The rows of part part_ - steps, of `own` rows each.
  RowBlock block_behind(int steps, Count own) const;
  // work() of all blocks as they arrive. Of `all`, the own block is not written.
  void pass_around(const Tensor& all, const Tensor& own, const RowWork& work, const Site& site);
  void sum_around(const StepContext& context, const Tensor& own, const RowWork& work, const Site& site);

  int parts_;
  int part_;
  bool sequence_;
  bool overlap_;
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
