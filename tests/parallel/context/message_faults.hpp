// A communicator that hands its messages on to another, but for those that a test has lost: they arrive, but not where they
// should.
#pragma once

#include <functional>
#include <vector>

#include "comm/communicator.hpp"
#include "support/test_device.hpp"
#include "tensor/tensor.hpp"

namespace cohort::test {

class LossyCommunicator : public Communicator {
 public:
  /// `lost(n)`: whether the message that is received n-th (from 0) never reaches its buffer.
  LossyCommunicator(Communicator& inner, std::function<bool(int)> lost)
      : Communicator(inner.name(), inner.rank(), inner.size()), inner_(inner), lost_(std::move(lost)) {}
  std::string_view backend() const override { return inner_.backend(); }
  int received() const { return received_; }

 protected:
  Request do_send(const void* data, Count elements, DType dtype, int to, int tag) override {
    return inner_.send_async(data, elements, dtype, to, tag);
  }
  Request do_recv(void* data, Count elements, DType dtype, int from, int tag) override {
    if (!lost_(received_++)) return inner_.recv_async(data, elements, dtype, from, tag);
    dump_.push_back(Tensor::zeros("test.dump", {elements}, dtype, test_device()));
    return inner_.recv_async(dump_.back().raw(), elements, dtype, from, tag);
  }
  Request do_all_reduce(void*, Count, DType, ReduceOp) override { return unused(); }
  Request do_all_gather(const void*, void*, Count, DType) override { return unused(); }
  Request do_reduce_scatter(const void*, void*, Count, DType, ReduceOp) override { return unused(); }
  Request do_broadcast(void*, Count, DType, int) override { return unused(); }
  void do_barrier() override { unused(); }
  std::unique_ptr<Communicator> do_split(int, int, std::string) override { return nullptr; }

 private:
  Request unused() { fail_operation("this operation", "ring attention does not use it"); }

  Communicator& inner_;
  std::function<bool(int)> lost_;
  int received_ = 0;
  std::vector<Tensor> dump_;
};

}  // namespace cohort::test
