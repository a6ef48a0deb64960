#include "planted_faults.hpp"

#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include "checkpoint/format/format.hpp"
#include "train/matrix_holders.hpp"

namespace cohort::test {
namespace {

// The group's role is in its name: axes of the mesh, and what strategies split from them ("dp_cp.shards", "pp.tied").
class FaultyGroup : public Communicator {
 public:
  FaultyGroup(Communicator& inner, Fault fault, bool sums_shards)
      : Communicator(inner.name(), inner.rank(), inner.size()), inner_(inner), fault_(fault), sums_shards_(sums_shards) {}
  FaultyGroup(std::unique_ptr<Communicator> inner, Fault fault, bool sums_shards) : FaultyGroup(*inner, fault, sums_shards) {
    owned_ = std::move(inner);
  }
  std::string_view backend() const override { return inner_.backend(); }

 protected:
  Request do_all_reduce(void* data, Count elements, DType dtype, ReduceOp op) override {
    if (dtype == DType::f64) return reduce_scalar(data, elements, op);
    if (dtype != DType::f32 || op != ReduceOp::sum) return inner_.all_reduce_async(data, elements, dtype, op);
    if (reduces_gradients()) {
      if (fault_ == Fault::no_reduction) return {};
      if (fault_ == Fault::average) op = ReduceOp::avg;
      if (fault_ == Fault::dropped_rank && is_last()) std::memset(data, 0, static_cast<std::size_t>(elements * size_of(dtype)));
    }
    if (fault_ == Fault::tied_weight_skipped && name().ends_with(".tied")) return {};
    if (fault_ == Fault::partial_sums && name() == "tp") return {};
    return inner_.all_reduce_async(data, elements, dtype, op);
  }
  Request do_reduce_scatter(const void* send, void* recv, Count block, DType dtype, ReduceOp op) override {
    const bool at_fault = reduces_gradients() && dtype == DType::f32;
    if (!at_fault) return inner_.reduce_scatter_async(send, recv, block, dtype, op);
    const auto elements = static_cast<std::size_t>(block) * static_cast<std::size_t>(size());
    std::vector<float> all(elements);
    std::memcpy(all.data(), send, elements * sizeof(float));
    if (fault_ == Fault::dropped_rank && is_last()) std::fill(all.begin(), all.end(), 0.0f);
    if (fault_ == Fault::average) op = ReduceOp::avg;
    if (fault_ != Fault::no_reduction) inner_.all_reduce(all.data(), static_cast<Count>(elements), dtype, op);
    const int taken = fault_ == Fault::wrong_shard ? (rank() + 1) % size() : rank();
    std::memcpy(recv, all.data() + block * taken, static_cast<std::size_t>(block) * sizeof(float));
    return {};
  }
  Request do_all_gather(const void* send, void* recv, Count block, DType dtype) override {
    if (fault_ != Fault::stale_weights || !reduces_gradients()) return inner_.all_gather_async(send, recv, block, dtype);
    const Bytes bytes = block * size_of(dtype);
    std::memmove(static_cast<std::byte*>(recv) + bytes * rank(), send, static_cast<std::size_t>(bytes));
    return {};
  }
  Request do_broadcast(void* data, Count elements, DType dtype, int root) override {
    return inner_.broadcast_async(data, elements, dtype, root);
  }
  Request do_send(const void* data, Count elements, DType dtype, int to, int tag) override {
    if (fault_ == Fault::wrong_part && dtype == DType::f32 && name() != "pp" && name() != "cp") {
      parts_.emplace_back(static_cast<std::size_t>(elements), *static_cast<const float*>(data));
      return inner_.send_async(parts_.back().data(), elements, dtype, to, tag);
    }
    return inner_.send_async(data, elements, dtype, to, tag);
  }
  Request do_recv(void* data, Count elements, DType dtype, int from, int tag) override {
    return inner_.recv_async(data, elements, dtype, from, tag);
  }
  void do_barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> do_split(int color, int key, std::string name) override {
    std::unique_ptr<Communicator> group = inner_.split(color, key, std::move(name));
    if (!group) return nullptr;
    return std::make_unique<FaultyGroup>(std::move(group), fault_, sums_shards_);
  }

 private:
  bool is_last() const { return rank() + 1 == size(); }
  bool reduces_gradients() const { return name().starts_with("dp") || name().starts_with("cp"); }

  // The sums of a step in fp64 are the loss's, over pp and the data-parallel ranks, and then that of squares, over who shares the
  // elements: tp, pp, shards.
  Request reduce_scalar(void* data, Count elements, ReduceOp op) {
    const bool both = name() == "pp" || (sums_shards_ && reduces_gradients());
    const bool squares = name() == "tp" || name().ends_with(".shards") || (both && scalars_++ % 2 == 1);
    if (fault_ == Fault::norm_counted_twice && squares) inner_.all_reduce(data, elements, DType::f64, op);
    return inner_.all_reduce_async(data, elements, DType::f64, op);
  }

  Communicator& inner_;
  std::unique_ptr<Communicator> owned_;
  Fault fault_;
  bool sums_shards_;  // the ranks that sum the loss sum the squares of their shards as well
  int scalars_ = 0;
  std::deque<std::vector<float>> parts_;  // that are on their way
};

bool sharded(const RunConfig& config) { return config.parallel.data.starts_with("zero"); }

void decay_the_others(const RunConfig& config, TrainStep& train_step, const StepResult& result) {
  const double decay = result.learning_rate * config.optimizer.weight_decay;
  for (const StateShard& shard : train_step.shards()) {
    const bool value = shard.tensor.starts_with(kModelGroup);
    if (!value || result.skipped) continue;
    const bool matrix = shard.part.shape().dims() > 1;
    const auto factor = static_cast<float>(matrix ? 1.0 / (1.0 - decay) : 1.0 - decay);
    shard.elements.overwrite([&](std::span<float> values) {
      const std::vector<float> before(values.begin(), values.end());
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = before[i] * factor;
    });
  }
  train_step.shards_changed();
}

}  // namespace

const char* name_of(Fault fault) {
  constexpr const char* kNames[] = {"none",          "no reduction",        "average",      "dropped rank",       "wrong shard",
                                    "stale weights", "tied weight skipped", "partial sums", "norm counted twice", "wrong decay",
                                    "wrong part"};
  return kNames[static_cast<std::size_t>(fault)];
}

bool applies(Fault fault, const RunConfig& config) {
  const ParallelSection& parallel = config.parallel;
  const Count replicas = parallel.dp * parallel.cp;
  switch (fault) {
    case Fault::none:
      return true;
    case Fault::no_reduction:
    case Fault::average:
    case Fault::dropped_rank:
      return replicas > 1;
    case Fault::wrong_shard:
    case Fault::stale_weights:
      return replicas > 1 && sharded(config);
    case Fault::tied_weight_skipped:
      return parallel.pp > 1 && config.model.tied_head;
    case Fault::partial_sums:
      return parallel.tp > 1 && !parallel.sequence;
    case Fault::norm_counted_twice:
      return parallel.tp > 1 || parallel.pp > 1 || (replicas > 1 && sharded(config));
    case Fault::wrong_decay:
      return config.optimizer.weight_decay > 0.0;
    case Fault::wrong_part:  // in "cp" attention sends, too
      return matrix_holders(config) > 1 && !(parallel.cp > 1 && parallel.dp == 1 && parallel.tp == 1);
  }
  return false;
}

std::unique_ptr<Communicator> with_fault(Communicator& inner, Fault fault, const RunConfig& config) {
  return std::make_unique<FaultyGroup>(inner, fault, sharded(config) && config.parallel.shard_ranks == 0);
}

AfterStep after_step_of(Fault fault, const RunConfig& config) {
  if (fault != Fault::wrong_decay) return {};
  return [&config](Count, TrainStep& train_step, const StepResult& result) { decay_the_others(config, train_step, result); };
}

}  // namespace cohort::test
