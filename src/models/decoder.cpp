#include "models/decoder.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/counting_listener.hpp"
#include "nn/counted_blocks.hpp"

namespace cohort {

Decoder::Decoder(std::string kind, const DecoderSpec& spec, const ModelStorage& storage, TensorParallel& parallel,
                 std::span<const ChunkSpec> chunks)
    : Model(std::move(kind), storage),
      spec_(spec),
      parallel_(parallel),
      vocabulary_(spec.vocabulary, parallel),
      chunks_(chunks.begin(), chunks.end()) {
  if (spec.lora.rank > 0) registry_.freeze();
  if (chunks_.empty()) chunks_ = {{0, spec.layers, true, true}};
  if (chunks_.front().embeds) {
    declare_embedding();
  } else {
    registry_.skip(spec.learned_positions ? 2 : 1);
  }
  Count layers = 0;  // so far
  for (const ChunkSpec& chunk : chunks_) layers += chunk.layers();
  blocks_.reserve(static_cast<std::size_t>(layers));
  ParameterRegistry one;
  const Block any(one, "block", spec.block, 0, parallel);
  Count next = 0;
  for (const ChunkSpec& chunk : chunks_) {
    COHORT_CHECK(next <= chunk.first_layer && chunk.first_layer < chunk.end_layer && chunk.end_layer <= spec.layers &&
                     (!chunk.embeds || chunk.first_layer == 0) && (!chunk.has_head || chunk.end_layer == spec.layers),
                 "a chunk of layers {} to {} behind layer {} of {}", chunk.first_layer, chunk.end_layer, next, spec.layers);
    registry_.skip(static_cast<std::size_t>(chunk.first_layer - next) * one.all().size());
    declare_blocks(chunk.first_layer, chunk.end_layer);
    next = chunk.end_layer;
  }
  if (chunks_.back().has_head) declare_head();
  for (const Unit& unit : units_) partial_gradients_.emplace_back(parallel, unit.parameters);
}

void Decoder::declare_embedding() {
  const InitSpec init{InitSpec::Kind::normal, spec_.init_std};
  // A tied weight has the head's padding on both of its stages, so that both divide it alike among shards.
  embedding_ = &registry_.declare("embedding.weight", {spec_.vocabulary, spec_.width}, init, spec_.tied_head ? head_padding() : 0,
                                  vocabulary_.shard());
  embedding_->role = ParameterRole::table;
  embedding_->copied = spec_.tied_head && !chunks_.back().has_head;
  units_.push_back({"embedding", {embedding_}, /*backward_reads=*/false});
  if (!spec_.learned_positions) return;
  positions_ = &registry_.declare("positions.weight", {spec_.tokens, spec_.width}, init, 0, parallel_.replicated());
  positions_->role = ParameterRole::table;
  units_.back().parameters.push_back(positions_);
}

void Decoder::declare_blocks(Count first, Count end) {
  for (Count layer = first; layer < end; ++layer) {
    const std::string name = fmt::format("blocks.{}", layer);
    BlockSpec block = spec_.block;
    if (!spec_.recomputes(layer)) block.recompute = Recompute::none;
    blocks_.emplace_back(registry_, name, block, static_cast<int>(layer), parallel_);
    units_.push_back({name, blocks_.back().parameters()});
  }
}

void Decoder::declare_head() {
  norm_.emplace(registry_, "norm", spec_.block.norm, spec_.width, spec_.block.norm_epsilon, parallel_);
  units_.push_back({"head", norm_->parameters()});
  const InitSpec init{InitSpec::Kind::normal, spec_.init_std};
  const Shape table{spec_.vocabulary, spec_.width};
  if (!spec_.tied_head) {
    head_ = &registry_.declare("head.weight", table, init, head_padding(), vocabulary_.shard());
    head_->role = ParameterRole::head;
  } else if (embedding_ != nullptr) {
    head_ = embedding_;
  } else {
    ShardSpec copy = vocabulary_.shard();
    copy.counts = false;
    head_ = &registry_.declare("embedding.weight", table, init, head_padding(), copy);
    head_->id = 0;  // the embedding's
    head_->role = ParameterRole::table;
    head_->copied = true;
  }
  units_.back().parameters.push_back(head_);
}

std::size_t Decoder::only_chunk() const {
  COHORT_CHECK(chunks_.size() == 1 && chunks_[0].embeds && chunks_[0].has_head,
               "a {} of which this rank holds {} chunks was run as a whole", kind_, chunks_.size());
  return 0;
}

std::size_t Decoder::first_block(std::size_t chunk) const {
  Count before = 0;
  for (std::size_t c = 0; c < chunk; ++c) before += chunks_[c].layers();
  return static_cast<std::size_t>(before);
}

std::size_t Decoder::first_unit(std::size_t chunk) const { return first_block(chunk) + (embedding_ != nullptr ? 1 : 0); }

Count Decoder::tokens_of(const ModelInput& input) const {
  const Count tokens = static_cast<Count>(input.inputs.size()) / input.samples;
  COHORT_CHECK(tokens <= spec_.tokens, "samples of {} tokens for a context of {}", tokens, spec_.tokens);
  return tokens;
}

Tensor Decoder::embed(const StepContext& context, Arena& memory, const ModelInput& input, Hooks& hooks) {
  note_unit(units_.front().name, /*backward=*/false);
  hooks.pre_forward(units_.front());
  const Tensor x = memory.take(stream_shape(input), context.dtype);
  const bool by_row = context.cache != nullptr || !context.documents.empty();  // each row has its own position
  const Count tokens = by_row ? static_cast<Count>(input.inputs.size()) : tokens_of(input);
  {
    const Arena::Scope scratch(*context.activations);
    const Tensor positions = positions_ ? position_rows(context, positions_->compute, tokens) : Tensor{};
    vocabulary_.embed(context, x, input.inputs, embedding_->compute, positions);
  }
  ops::dropout(context.exec, x, parallel_.rows_of(context.dropout_key(spec_.dropout, 0), x));
  if (context.inspect) context.inspect(units_.front().name, x);
  hooks.post_forward(units_.front());
  return x;
}

Tensor Decoder::run_block(std::size_t chunk, std::size_t i, const StepContext& context, const ModelInput& input, const Tensor& x,
                          Saved& saved) {
  const bool last = i + 1 == static_cast<std::size_t>(chunks_[chunk].layers());  // whose output others read, too
  ActivationOffload* const offload = context.offload;
  const auto place = offloaded(chunk, i, offload), place_of_next = last ? std::nullopt : offloaded(chunk, i + 1, offload);
  Arena& kept = place ? offload->lane(*place) : *saved.memory;
  Arena& next = place_of_next ? offload->open(*place_of_next) : *saved.memory;
  const Tensor out = next.take(stream_shape(input), context.dtype);
  saved.blocks.push_back(forward_block(blocks_[first_block(chunk) + i], context, kept, out, x, input.samples));
  if (place) saved.offloaded.push_back(offload->keep(*place));
  return out;
}

Tensor Decoder::run(std::size_t chunk, const StepContext& context, const ModelInput& input, Tensor x, Hooks& hooks,
                    Saved* saved) {
  parallel_.begin_pass(static_cast<Count>(input.inputs.size()), saved != nullptr);
  const StepContext kept = saved != nullptr ? context.with_activations(*saved->memory) : context;
  Arena& first = saved != nullptr && offloaded(chunk, 0, context.offload) ? context.offload->open(0) : *kept.activations;
  if (chunks_[chunk].embeds) x = embed(context, first, input, hooks);

  const auto layers = static_cast<std::size_t>(chunks_[chunk].layers());
  std::array<Tensor, 2> turns;  // without backward two streams do: the one that a block has read is not needed any more
  for (std::size_t i = 0; i < layers; ++i) {
    const Unit& unit = units_[first_unit(chunk) + i];
    note_unit(unit.name, /*backward=*/false);
    hooks.pre_forward(unit);
    context.show_life();
    if (saved != nullptr) {
      x = run_block(chunk, i, context, input, x, *saved);
    } else {
      Tensor& out = turns[i % 2];
      if (!out.defined()) out = context.take(stream_shape(input));
      const Arena::Scope forgotten(*context.activations);
      blocks_[first_block(chunk) + i].forward(
          context.cache != nullptr ? context.with_cache_layer(first_block(chunk) + i) : context, *context.activations, out, x,
          input.samples);
      x = out;
    }
    if (context.inspect) context.inspect(unit.name, x);
    hooks.post_forward(unit);
  }
  if (!chunks_[chunk].has_head) return x;

  note_unit(units_.back().name, /*backward=*/false);
  hooks.pre_forward(units_.back());
  const Tensor normed = kept.take(stream_shape(input));
  const Norm::Saved norm = norm_->forward(kept, normed, x);
  if (context.inspect) context.inspect(units_.back().name, normed);
  if (saved != nullptr) {
    saved->last = std::move(x);
    saved->norm = norm;
  }
  return normed;
}

Tensor Decoder::forward_chunk(std::size_t chunk, const StepContext& given, const ModelInput& input, const Tensor& x,
                              float gradient_scale, Hooks& hooks, Saved& saved) {
  const StepContext context = given.with_input(input.slots, input.documents);
  Tensor out = run(chunk, context, input, x, hooks, &saved);
  if (!chunks_[chunk].has_head) {
    note_unit("", /*backward=*/false);
    return out;
  }
  hooks.pre_gradient(units_.back());
  saved.dnormed = saved.memory->take(out.shape(), out.dtype());
  head_loss(context, out, input.targets, gradient_scale, saved.dnormed);
  hooks.post_forward(units_.back());
  note_unit("", /*backward=*/false);
  return {};
}

void Decoder::tell_ready(const Unit& unit, const Parameter* but, Hooks& hooks) {
  for (Parameter* parameter : unit.parameters) {
    if (parameter != but && !parameter->frozen) hooks.grad_ready(*parameter);
  }
}

void Decoder::embedding_backward(const StepContext& context, const ModelInput& input, const Tensor& dx) {
  const Count tokens = tokens_of(input);
  const bool packed = !context.documents.empty();
  // The rows here are not neighbours in the table.
  const bool scatter = positions_ != nullptr && context.sequence != nullptr && !packed;
  Tensor dpositions;
  if (positions_ != nullptr)
    dpositions =
        scatter ? context.take_fp32({tokens, spec_.width}) : positions_->gradient.slice(0, packed ? spec_.tokens : tokens);
  if (scatter) dpositions.zero();
  vocabulary_.embed_backward(context, embedding_->gradient, dpositions, input.inputs, dx);
  if (scatter) add_position_rows(context, positions_->gradient, dpositions);
}

std::optional<std::size_t> Decoder::offloaded(std::size_t chunk, std::size_t i, const ActivationOffload* offload) const {
  const auto is_offloaded = [&](std::size_t block) {
    const bool some_are_whole = spec_.recomputed_layers < spec_.layers;
    return !some_are_whole || !spec_.recomputes(chunks_[chunk].first_layer + static_cast<Count>(block));
  };
  if (offload == nullptr || !is_offloaded(i)) return std::nullopt;
  std::size_t before = 0;
  for (std::size_t block = 0; block < i; ++block) before += is_offloaded(block) ? 1 : 0;
  return before;
}

void Decoder::await_block(ActivationOffload& offload, const Saved& saved, std::size_t i) {
  // In the order of their use. The last goes into the lane of the block that has just been put on the stream, and waits for it.
  for (std::size_t ahead = 0; ahead < ActivationOffload::kLanes && ahead <= i; ++ahead) offload.fetch(saved.offloaded[i - ahead]);
  offload.await(saved.offloaded[i]);
}

void Decoder::backward_chunk(std::size_t chunk, const StepContext& given, const ModelInput& input, const Tensor& dx, Hooks& hooks,
                             const Saved& saved) {
  const StepContext context = given.with_input(input.slots, input.documents);
  const Arena::Scope scratch(*context.activations);
  const auto layers = static_cast<std::size_t>(chunks_[chunk].layers());
  const Block* const blocks = &blocks_[first_block(chunk)];
  const std::size_t first = first_unit(chunk);
  if (chunks_[chunk].has_head) backward_head(context, dx, hooks, saved);
  for (std::size_t i = layers; i-- > 0;) {
    note_unit(units_[first + i].name, /*backward=*/true);
    hooks.pre_backward(units_[first + i]);
    context.show_life();
    hooks.pre_gradient(units_[first + i]);
    partial_gradients_[first + i].begin();
    const auto place = offloaded(chunk, i, context.offload);
    if (place) await_block(*context.offload, saved, *place);
    backward_block(blocks[i], context, dx, saved.blocks[i]);
    if (place) context.offload->release(saved.offloaded[*place]);
    partial_gradients_[first + i].sum(context);
    tell_ready(units_[first + i], nullptr, hooks);
  }
  if (chunks_[chunk].embeds) {
    note_unit(units_.front().name, /*backward=*/true);
    hooks.pre_gradient(units_.front());
    if (!embedding_->frozen) {
      ops::dropout(context.exec, dx, parallel_.rows_of(context.dropout_key(spec_.dropout, 0), dx));
      embedding_backward(context, input, dx);
    }
    tell_ready(units_.front(), nullptr, hooks);
  }
  note_unit("", /*backward=*/true);
  hooks.end_pass();
}

void Decoder::forward(const StepContext& context, const ModelInput& input, float gradient_scale, Hooks& hooks) {
  saved_ = {.memory = context.activations};
  forward_chunk(only_chunk(), context, input, {}, gradient_scale, hooks, saved_);
}

void Decoder::backward(const StepContext& context, const ModelInput& input, Hooks& hooks) {
  note_unit("", /*backward=*/true);
  const Arena::Scope scratch(*context.activations);
  backward_chunk(only_chunk(), context, input, context.take(saved_.last.shape()), hooks, saved_);
}

Tensor Decoder::loss_chunk(std::size_t chunk, const StepContext& given, const ModelInput& input, const Tensor& x, Hooks& hooks) {
  const StepContext context = given.with_input(input.slots, input.documents);
  const Tensor out = run(chunk, context, input, x, hooks, nullptr);
  if (chunks_[chunk].has_head) {
    head_loss(context, out, input.targets, 0.0f, {});
    hooks.post_forward(units_.back());
  }
  hooks.end_pass();
  return chunks_[chunk].has_head ? Tensor{} : out;
}

void Decoder::loss(const StepContext& context, const ModelInput& input, Hooks& hooks) {
  const Arena::Scope scratch(*context.activations);
  loss_chunk(only_chunk(), context, input, {}, hooks);
}

Tensor Decoder::last_logits_chunk(std::size_t chunk, const StepContext& given, const ModelInput& input, const Tensor& x,
                                  const Tensor& logits, Hooks& hooks) {
  const StepContext context = given.with_input(input.slots, input.documents);
  const Tensor out = run(chunk, context, input, x, hooks, nullptr);
  if (chunks_[chunk].has_head) {
    head_logits(context, out, input.samples, logits);
    hooks.post_forward(units_.back());
  }
  hooks.end_pass();
  return chunks_[chunk].has_head ? Tensor{} : out;
}

void Decoder::last_logits(const StepContext& context, const ModelInput& input, const Tensor& logits, Hooks& hooks) {
  const Arena::Scope scratch(*context.activations);
  last_logits_chunk(only_chunk(), context, input, {}, logits, hooks);
}

bool Decoder::recordable() const {
  return storage_.device == DeviceKind::gpu && parallel_.parts() == 1 && chunks_.size() == 1 && chunks_[0].embeds &&
         chunks_[0].has_head;
}

std::unique_ptr<KvCache> Decoder::make_cache(Count slots, Count tokens) const {
  const ops::AttentionShape heads = blocks_.front().attention().shape(1, 1);
  return std::make_unique<KvCache>(
      KvCacheSizes{static_cast<Count>(blocks_.size()), slots, std::min(tokens, spec_.tokens), heads.kv_heads, heads.head_size},
      storage_.compute, storage_.device);
}

}  // namespace cohort
