// One turn of a ring of ranks: every rank sends to the next and receives from the one before.
#pragma once

#include "comm/communicator.hpp"
#include "tensor/tensor.hpp"

namespace cohort {

/// `outgoing` to the next rank, `incoming` from the one before, in flight. Both messages are posted before either is waited for,
/// since every rank waits for its neighbour.
class RingTurn {
 public:
  RingTurn() = default;  // nothing in flight
  /// `site`: see Communicator. // Collective over: group
  RingTurn(Communicator& group, const Tensor& outgoing, const Tensor& incoming,
           const Communicator::Site& site = Communicator::Site::current())
      : sent_(group.send_async(outgoing.raw(), outgoing.elements(), outgoing.dtype(), (group.rank() + 1) % group.size(), kRingTag,
                               site)),
        received_(group.recv_async(incoming.raw(), incoming.elements(), incoming.dtype(),
                                   (group.rank() + group.size() - 1) % group.size(), kRingTag, site)) {}

  // NCCL launches what has been posted at the first call, which is to come before the work of the step is put on the device: that
  // work would take every multiprocessor, and the messages would wait for one. MPI moves large messages only while it is called.
  void progress() {
    sent_.test();
    received_.test();
  }
  void wait() {
    sent_.wait();
    received_.wait();
  }

 private:
  Request sent_, received_;
};

}  // namespace cohort
