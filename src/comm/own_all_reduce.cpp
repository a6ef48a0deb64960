#include "comm/own_all_reduce.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace cohort {
namespace {

class OwnCollectives : public Communicator {
 public:
  OwnCollectives(Communicator& inner, OwnAllReduce all_reduce, OwnShardCollectives shards)
      : Communicator(inner.name(), inner.rank(), inner.size()),
        inner_(inner),
        all_reduce_(std::move(all_reduce)),
        shards_(std::move(shards)) {
    set_members(inner.members());
  }
  std::string_view backend() const override { return inner_.backend(); }

 protected:
  Recording recording() const override { return Recording::none; }  // those of inner_ are
  Request do_all_reduce(void* data, Count elements, DType dtype, ReduceOp op) override {
    if (!all_reduce_ || dtype != DType::f32 || op != ReduceOp::sum) return inner_.all_reduce_async(data, elements, dtype, op);
    all_reduce_(inner_, {static_cast<float*>(data), static_cast<std::size_t>(elements)});
    return {};
  }
  Request do_reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op) override {
    if (!shards_.reduce_scatter || dtype != DType::f32 || op != ReduceOp::sum)
      return inner_.reduce_scatter_async(send, recv, block_elements, dtype, op);
    const auto* sent = static_cast<const float*>(send);
    std::vector<float> data(sent, sent + block_elements * size());
    shards_.reduce_scatter(inner_, data);
    std::copy_n(data.data() + rank() * block_elements, block_elements, static_cast<float*>(recv));
    return {};
  }
  Request do_all_gather(const void* send, void* recv, Count block_elements, DType dtype) override {
    if (!shards_.all_gather || dtype != DType::f32) return inner_.all_gather_async(send, recv, block_elements, dtype);
    auto* data = static_cast<float*>(recv);
    float* own = data + rank() * block_elements;
    if (send != own) std::copy_n(static_cast<const float*>(send), block_elements, own);
    shards_.all_gather(inner_, {data, static_cast<std::size_t>(block_elements * size())});
    return {};
  }
  Request do_broadcast(void* data, Count elements, DType dtype, int root) override {
    return inner_.broadcast_async(data, elements, dtype, root);
  }
  Request do_send(const void* data, Count elements, DType dtype, int to, int tag) override {
    return inner_.send_async(data, elements, dtype, to, tag);
  }
  Request do_recv(void* data, Count elements, DType dtype, int from, int tag) override {
    return inner_.recv_async(data, elements, dtype, from, tag);
  }
  void do_barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> do_split(int color, int key, std::string name) override {
    return inner_.split(color, key, std::move(name));
  }

 private:
  Communicator& inner_;
  OwnAllReduce all_reduce_;
  OwnShardCollectives shards_;
};

}  // namespace

std::unique_ptr<Communicator> with_own_all_reduce(Communicator& inner, OwnAllReduce all_reduce) {
  return std::make_unique<OwnCollectives>(inner, std::move(all_reduce), OwnShardCollectives{});
}

std::unique_ptr<Communicator> with_own_shard_collectives(Communicator& inner, OwnShardCollectives collectives) {
  return std::make_unique<OwnCollectives>(inner, OwnAllReduce{}, std::move(collectives));
}

}  // namespace cohort
