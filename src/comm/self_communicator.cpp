#include "comm/self_communicator.hpp"

#include <cstring>

#include "base/error.hpp"

namespace cohort {
namespace {

class SelfCommunicator : public Communicator {
 public:
  explicit SelfCommunicator(std::string name) : Communicator(std::move(name), 0, 1) {}
  std::string_view backend() const override { return "self"; }

 protected:
  // Sum, maximum and average of one value are that value.
  Request do_all_reduce(void*, Count, DType, ReduceOp) override { return {}; }
  Request do_reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp) override {
    return copy(send, recv, block_elements, dtype);
  }
  Request do_all_gather(const void* send, void* recv, Count block_elements, DType dtype) override {
    return copy(send, recv, block_elements, dtype);
  }
  Request do_broadcast(void*, Count, DType, int) override { return {}; }
  Request do_send(const void*, Count, DType, int, int) override { fail_operation("send", "a group of one rank has no peer"); }
  Request do_recv(void*, Count, DType, int, int) override { fail_operation("recv", "a group of one rank has no peer"); }
  void do_barrier() override {}
  std::unique_ptr<Communicator> do_split(int color, int, std::string name) override {
    return color < 0 ? nullptr : make_self_communicator(std::move(name));
  }

 private:
  static Request copy(const void* from, void* to, Count elements, DType dtype) {
    if (elements > 0 && from != to) std::memcpy(to, from, static_cast<std::size_t>(elements * size_of(dtype)));
    return {};
  }
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator(std::string name) {
  return std::make_unique<SelfCommunicator>(std::move(name));
}

}  // namespace cohort
