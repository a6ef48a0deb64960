// Blocks on a thread that counts (base/counting.hpp): what a block does for one micro-batch it does for each of the same size, so
// that a pass is run once, and what that told is taken again for those that follow (base/counted_sections.hpp). Only the first
// forward pass of a block stands for itself: it also makes what the block then keeps, such as tables of positions. Models call
// forward_block() and backward_block(), which on any other thread are the block's own.
#pragma once

#include <map>
#include <optional>

#include "base/counted_sections.hpp"
#include "nn/block.hpp"

namespace cohort {

/// While one lives, it has the blocks of its thread.
class CountedBlocks {
 public:
  explicit CountedBlocks(CountedSections& sections);
  ~CountedBlocks();
  CountedBlocks(const CountedBlocks&) = delete;
  CountedBlocks& operator=(const CountedBlocks&) = delete;

  Block::Saved forward(const Block& block, const StepContext& context, Arena& kept, const Tensor& out, const Tensor& x,
                       Count batch);
  void backward(const Block& block, const StepContext& context, const Tensor& dx, const Block::Saved& saved);

 private:
  // What was taken of an arena: at most at once, and what of it is still in use.
  struct Use {
    Bytes peak = 0, left = 0;
  };
  // A pass that was run.
  struct Pass {
    std::size_t section;
    Shape rows;
    Count batch;
    Use scratch, kept;
  };
  struct Passes {
    bool begun = false;  // it has run forward
    std::optional<Pass> forward, backward;
    Block::Saved saved;  // by `forward`
  };

  bool take_again(const std::optional<Pass>& pass, const StepContext& context, Arena& kept, const Tensor& x, Count batch);
  template <class Work>
  std::optional<Pass> run(const StepContext& context, Arena& kept, const Tensor& x, Count batch, const Work& work);
  static void use(Arena& arena, Use use);

  CountedSections& sections_;
  std::map<const Block*, Passes> passes_;
};

/// Block::forward and Block::backward of `block`. // Collective over: tp
Block::Saved forward_block(const Block& block, const StepContext& context, Arena& kept, const Tensor& out, const Tensor& x,
                           Count batch);
void backward_block(const Block& block, const StepContext& context, const Tensor& dx, const Block::Saved& saved);

}  // namespace cohort
