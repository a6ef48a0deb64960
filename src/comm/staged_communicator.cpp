#include "comm/staged_communicator.hpp"

#include <cstddef>
#include <functional>
#include <vector>

#include "gpu/device.hpp"

namespace cohort {
namespace {

using HostBuffer = std::vector<std::byte>;

HostBuffer from_device(const void* data, Bytes bytes) {
  HostBuffer host(static_cast<std::size_t>(bytes));
  if (bytes > 0) gpu::copy(host.data(), data, bytes);
  return host;
}

// An operation on host buffers, and where its result belongs on the device.
class Staged : public Request::State {
 public:
  Staged(HostBuffer send, HostBuffer result, void* to) : send_(std::move(send)), result_(std::move(result)), to_(to) {}
  /// `start` gets the buffers, which stay where they are.
  void start(const std::function<Request(std::byte* send, std::byte* result)>& start) {
    request_ = start(send_.data(), result_.data());
  }
  bool test() override {
    if (!request_.test()) return false;
    copy_back();
    return true;
  }
  void wait() override {
    request_.wait();
    copy_back();
  }

 private:
  void copy_back() {
    if (to_ != nullptr && !result_.empty()) gpu::copy(to_, result_.data(), static_cast<Bytes>(result_.size()));
  }

  HostBuffer send_;
  HostBuffer result_;
  void* to_;  // null: nothing comes back
  Request request_;
};

class StagedCommunicator : public Communicator {
 public:
  StagedCommunicator(Communicator& host, std::string name)
      : Communicator(std::move(name), host.rank(), host.size()), host_(host) {}
  StagedCommunicator(std::unique_ptr<Communicator> host, std::string name) : StagedCommunicator(*host, std::move(name)) {
    owned_ = std::move(host);
  }
  std::string_view backend() const override { return "staged"; }

 protected:
  Recording recording() const override { return Recording::none; }  // those of host_ are
  Request do_all_reduce(void* data, Count elements, DType dtype, ReduceOp op) override {
    return run({}, from_device(data, elements * size_of(dtype)), data,
               [&](std::byte*, std::byte* result) { return host_.all_reduce_async(result, elements, dtype, op); });
  }
  Request do_reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op) override {
    const Bytes block = block_elements * size_of(dtype);
    return run(from_device(send, block * size()), HostBuffer(static_cast<std::size_t>(block)), recv,
               [&](std::byte* from, std::byte* to) { return host_.reduce_scatter_async(from, to, block_elements, dtype, op); });
  }
  Request do_all_gather(const void* send, void* recv, Count block_elements, DType dtype) override {
    const Bytes block = block_elements * size_of(dtype);
    return run(from_device(send, block), HostBuffer(static_cast<std::size_t>(block * size())), recv,
               [&](std::byte* from, std::byte* to) { return host_.all_gather_async(from, to, block_elements, dtype); });
  }
  Request do_broadcast(void* data, Count elements, DType dtype, int root) override {
    return run({}, from_device(data, elements * size_of(dtype)), data,
               [&](std::byte*, std::byte* result) { return host_.broadcast_async(result, elements, dtype, root); });
  }
  Request do_send(const void* data, Count elements, DType dtype, int to, int tag) override {
    return run(from_device(data, elements * size_of(dtype)), {}, nullptr,
               [&](std::byte* from, std::byte*) { return host_.send_async(from, elements, dtype, to, tag); });
  }
  Request do_recv(void* data, Count elements, DType dtype, int from, int tag) override {
    return run({}, HostBuffer(static_cast<std::size_t>(elements * size_of(dtype))), data,
               [&](std::byte*, std::byte* result) { return host_.recv_async(result, elements, dtype, from, tag); });
  }
  void do_barrier() override { host_.barrier(); }
  std::unique_ptr<Communicator> do_split(int color, int key, std::string name) override {
    std::unique_ptr<Communicator> part = host_.split(color, key, name);
    return part ? std::make_unique<StagedCommunicator>(std::move(part), std::move(name)) : nullptr;
  }

 private:
  static Request run(HostBuffer send, HostBuffer result, void* to,
                     const std::function<Request(std::byte*, std::byte*)>& operation) {
    auto staged = std::make_unique<Staged>(std::move(send), std::move(result), to);
    staged->start(operation);
    return Request(std::move(staged));
  }

  Communicator& host_;
  std::unique_ptr<Communicator> owned_;  // host_, for a group that came of a split
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(Communicator& host, std::string name) {
  return std::make_unique<StagedCommunicator>(host, std::move(name));
}

}  // namespace cohort
