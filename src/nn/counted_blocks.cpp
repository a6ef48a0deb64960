#include "nn/counted_blocks.hpp"

#include <utility>

#include "tensor/memory_account.hpp"

namespace cohort {
namespace {

thread_local CountedBlocks* counted_blocks = nullptr;

// An arena in which a pass is alone, so that what it takes can be seen. The account of memory (tensor/memory_account.hpp) does
// not keep it: use() takes as much of the arena that the pass was given.
class ArenaOfPass {
 public:
  explicit ArenaOfPass(DeviceKind device) : arena_(kLabel, device) {}
  ~ArenaOfPass() { count_used_memory(kLabel, arena_.device(), -arena_.peak_bytes()); }
  ArenaOfPass(const ArenaOfPass&) = delete;
  ArenaOfPass& operator=(const ArenaOfPass&) = delete;

  Arena& arena() { return arena_; }

 private:
  static constexpr const char* kLabel = "activations.counted";
  Arena arena_;
};

}  // namespace

CountedBlocks::CountedBlocks(CountedSections& sections) : sections_(sections) { counted_blocks = this; }

CountedBlocks::~CountedBlocks() { counted_blocks = nullptr; }

void CountedBlocks::use(Arena& arena, Use use) {
  const Arena::Mark before = arena.mark();
  if (use.peak > 0) arena.take({use.peak}, DType::u8);
  arena.rewind(before);
  if (use.left > 0) arena.take({use.left}, DType::u8);
}

bool CountedBlocks::take_again(const std::optional<Pass>& pass, const StepContext& context, Arena& kept, const Tensor& x,
                               Count batch) {
  if (!pass || pass->rows != x.shape() || pass->batch != batch) return false;
  sections_.take_again(pass->section);
  use(*context.activations, pass->scratch);
  if (&kept != context.activations) use(kept, pass->kept);
  return true;
}

template <class Work>
std::optional<CountedBlocks::Pass> CountedBlocks::run(const StepContext& context, Arena& kept, const Tensor& x, Count batch,
                                                      const Work& work) {
  const bool one = &kept == context.activations;
  Use scratch_use, kept_use;
  {
    ArenaOfPass scratch(context.activations->device()), own(kept.device());
    const auto use_of = [](Arena& arena) { return Use{arena.peak_bytes(), arena.mark().used}; };
    sections_.begin_section();
    work(context.with_activations(scratch.arena()), one ? scratch.arena() : own.arena());
    scratch_use = use_of(scratch.arena());
    kept_use = use_of(own.arena());
  }
  use(*context.activations, scratch_use);
  if (!one) use(kept, kept_use);
  const std::optional<std::size_t> section = sections_.end_section();
  if (!section) return std::nullopt;
  return Pass{*section, x.shape(), batch, scratch_use, kept_use};
}

// What a pass has saved lies where it lay in the first one: nobody looks at what is in it.
Block::Saved CountedBlocks::forward(const Block& block, const StepContext& context, Arena& kept, const Tensor& out,
                                    const Tensor& x, Count batch) {
  Passes& passes = passes_[&block];
  if (!std::exchange(passes.begun, true)) return block.forward(context, kept, out, x, batch);
  if (!take_again(passes.forward, context, kept, x, batch)) {
    passes.forward = run(context, kept, x, batch, [&](const StepContext& seen, Arena& kept_seen) {
      passes.saved = block.forward(seen, kept_seen, out, x, batch);
    });
  }
  Block::Saved saved = passes.saved;
  saved.input = x;
  return saved;
}

void CountedBlocks::backward(const Block& block, const StepContext& context, const Tensor& dx, const Block::Saved& saved) {
  Passes& passes = passes_[&block];
  if (take_again(passes.backward, context, *context.activations, dx, saved.batch)) return;
  passes.backward = run(context, *context.activations, dx, saved.batch,
                        [&](const StepContext& seen, Arena& /*kept*/) { block.backward(seen, dx, saved); });
}

Block::Saved forward_block(const Block& block, const StepContext& context, Arena& kept, const Tensor& out, const Tensor& x,
                           Count batch) {
  if (counted_blocks != nullptr) return counted_blocks->forward(block, context, kept, out, x, batch);
  return block.forward(context, kept, out, x, batch);
}

void backward_block(const Block& block, const StepContext& context, const Tensor& dx, const Block::Saved& saved) {
  if (counted_blocks != nullptr) return counted_blocks->backward(block, context, dx, saved);
  block.backward(context, dx, saved);
}

}  // namespace cohort
