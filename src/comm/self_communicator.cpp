#include "comm/self_communicator.hpp"

#include <cstring>

#include "base/counting.hpp"
#include "base/error.hpp"
#include "gpu/device.hpp"

namespace cohort {
namespace {

/// A copy on the compute stream, which needs no ordering against it.
class DeviceCopy : public Request::State {
 public:
  DeviceCopy(void* to, const void* from, Bytes bytes) {
    gpu::copy_async(to, from, bytes, gpu::compute_stream());
    finished_.record(gpu::compute_stream());
  }
  bool test() override { return finished_.happened(); }
  void wait() override {}

 private:
  gpu::Event finished_;
};

class SelfCommunicator : public Communicator {
 public:
  SelfCommunicator(std::string name, DeviceKind memory) : Communicator(std::move(name), 0, 1), memory_(memory) {}
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
    return color < 0 ? nullptr : make_self_communicator(std::move(name), memory_);
  }

 private:
  Request copy(const void* from, void* to, Count elements, DType dtype) const {
    if (elements == 0 || from == to || counting()) return {};
    const Bytes bytes = elements * size_of(dtype);
    if (memory_ == DeviceKind::gpu) return Request(std::make_unique<DeviceCopy>(to, from, bytes));
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return {};
  }

  DeviceKind memory_;
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator(std::string name, DeviceKind memory) {
  return std::make_unique<SelfCommunicator>(std::move(name), memory);
}

}  // namespace cohort
