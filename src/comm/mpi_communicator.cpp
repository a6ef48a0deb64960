#include "comm/mpi_communicator.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "comm/mpi_group.hpp"
#include "comm/mpi_request.hpp"

namespace cohort {
namespace {

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(std::shared_ptr<const MpiGroup> group, Count limit)
      : Communicator(group->name(), group->rank(), group->size()), group_(std::move(group)), limit_(limit) {
    set_members(group_->ranks_of_job());
  }
  std::string_view backend() const override { return "mpi"; }
  const MPI_Comm& comm() const { return group_->comm(); }
  void be_patient() override { patient_ = true; }

 protected:
  Request do_all_reduce(void* data, Count elements, DType dtype, ReduceOp op) override;
  Request do_reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op) override;
  Request do_all_gather(const void* send, void* recv, Count block_elements, DType dtype) override;
  Request do_broadcast(void* data, Count elements, DType dtype, int root) override;
  Request do_send(const void* data, Count elements, DType dtype, int to, int tag) override;
  Request do_recv(void* data, Count elements, DType dtype, int from, int tag) override;
  void do_barrier() override;
  std::unique_ptr<Communicator> do_split(int color, int key, std::string name) override;

 private:
  std::unique_ptr<MpiRequest> start(const char* operation) const {
    return std::make_unique<MpiRequest>(group_, operation, patient_);
  }
  /// Elements of each block in one call, for the calls that move size() blocks.
  Count block_limit() const { return std::max<Count>(1, limit_ / size()); }
  void reduce_scatter_slices(MpiRequest& request, const std::byte* send, std::byte* recv, Count block_elements, DType dtype,
                             ReduceOp op);
  void all_gather_slices(MpiRequest& request, const std::byte* send, std::byte* recv, Count block_elements, DType dtype);

  std::shared_ptr<const MpiGroup> group_;
  Count limit_;
  bool patient_ = false;
};

/// Calls body(offset, elements) for each piece of at most `limit` of `total` elements, in order.
template <class Body>
void for_each_piece(Count total, Count limit, const Body& body) {
  for (Count offset = 0; offset < total; offset += limit) body(offset, static_cast<int>(std::min(limit, total - offset)));
}

// The calls of one operation are all started at once: MPI wants collectives started in the same order on all ranks, which a piece
// started later, from test(), could not promise.

Request MpiCommunicator::do_all_reduce(void* data, Count elements, DType dtype, ReduceOp op) {
  auto request = start("all_reduce");
  auto* bytes = static_cast<std::byte*>(data);
  for_each_piece(elements, limit_, [&](Count offset, int count) {
    request->check(MPI_Iallreduce(MPI_IN_PLACE, bytes + offset * size_of(dtype), count, mpi_type(dtype),
                                  group_->operation(dtype, op), group_->comm(), request->add()));
  });
  if (op == ReduceOp::avg) request->average_at_end(data, elements, dtype);
  return Request(std::move(request));
}

Request MpiCommunicator::do_reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op) {
  auto request = start("reduce_scatter");
  const Bytes block_bytes = block_elements * size_of(dtype);
  void* const result = recv;
  // MPI's own in-place form leaves the result at the start of the buffer, not in the rank's block.
  const bool in_place = recv == static_cast<const std::byte*>(send) + rank() * block_bytes;
  if (in_place) recv = request->stage(block_bytes);
  if (block_elements > block_limit()) {
    reduce_scatter_slices(*request, static_cast<const std::byte*>(send), static_cast<std::byte*>(recv), block_elements, dtype,
                          op);
  } else if (block_elements > 0) {
    request->check(MPI_Ireduce_scatter_block(send, recv, static_cast<int>(block_elements), mpi_type(dtype),
                                             group_->operation(dtype, op), group_->comm(), request->add()));
  }
  if (op == ReduceOp::avg) request->average_at_end(recv, block_elements, dtype);
  if (in_place) request->copy_at_end(result, recv, block_bytes);
  return Request(std::move(request));
}

// MPI wants the blocks of one call side by side, and its predefined operations refuse types with gaps: slice s of every block is
// copied together. It costs a copy of `send`, which only buffers beyond the limit pay.
void MpiCommunicator::reduce_scatter_slices(MpiRequest& request, const std::byte* send, std::byte* recv, Count block_elements,
                                            DType dtype, ReduceOp op) {
  const Bytes element_bytes = size_of(dtype);
  for_each_piece(block_elements, block_limit(), [&](Count offset, int count) {
    const Bytes slice_bytes = count * element_bytes;
    std::byte* slices = request.stage(slice_bytes * size());
    for (int r = 0; r < size(); ++r) {
      std::memcpy(slices + r * slice_bytes, send + (r * block_elements + offset) * element_bytes,
                  static_cast<std::size_t>(slice_bytes));
    }
    request.check(MPI_Ireduce_scatter_block(slices, recv + offset * element_bytes, count, mpi_type(dtype),
                                            group_->operation(dtype, op), group_->comm(), request.add()));
  });
}

Request MpiCommunicator::do_all_gather(const void* send, void* recv, Count block_elements, DType dtype) {
  auto request = start("all_gather");
  auto* to = static_cast<std::byte*>(recv);
  const bool in_place = send == to + rank() * block_elements * size_of(dtype);
  if (block_elements > block_limit()) {
    all_gather_slices(*request, static_cast<const std::byte*>(send), to, block_elements, dtype);
  } else if (block_elements > 0) {
    const auto count = static_cast<int>(block_elements);
    request->check(MPI_Iallgather(in_place ? MPI_IN_PLACE : send, count, mpi_type(dtype), to, count, mpi_type(dtype),
                                  group_->comm(), request->add()));
  }
  return Request(std::move(request));
}

// Slice by slice. The slices of two ranks lie a whole block apart in `recv`: a type whose extent is a block says so, without
// copies.
void MpiCommunicator::all_gather_slices(MpiRequest& request, const std::byte* send, std::byte* recv, Count block_elements,
                                        DType dtype) {
  const Bytes element_bytes = size_of(dtype);
  const bool in_place = send == recv + rank() * block_elements * element_bytes;
  for_each_piece(block_elements, block_limit(), [&](Count offset, int count) {
    MPI_Datatype slice = MPI_DATATYPE_NULL;
    request.check(MPI_Type_contiguous(count, mpi_type(dtype), &slice));
    MPI_Datatype spaced = MPI_DATATYPE_NULL;
    request.check(MPI_Type_create_resized(slice, 0, block_elements * element_bytes, &spaced));
    request.check(MPI_Type_free(&slice));
    request.check(MPI_Type_commit(&spaced));
    request.own(spaced);
    request.check(MPI_Iallgather(in_place ? MPI_IN_PLACE : send + offset * element_bytes, count, mpi_type(dtype),
                                 recv + offset * element_bytes, 1, spaced, group_->comm(), request.add()));
  });
}

Request MpiCommunicator::do_broadcast(void* data, Count elements, DType dtype, int root) {
  auto request = start("broadcast");
  auto* bytes = static_cast<std::byte*>(data);
  for_each_piece(elements, limit_, [&](Count offset, int count) {
    request->check(MPI_Ibcast(bytes + offset * size_of(dtype), count, mpi_type(dtype), root, group_->comm(), request->add()));
  });
  return Request(std::move(request));
}

// Not MPI_Barrier, which would ask all the time also where the group is patient.
void MpiCommunicator::do_barrier() {
  auto request = start("barrier");
  request->check(MPI_Ibarrier(group_->comm(), request->add()));
  Request(std::move(request)).wait();
}

// An empty message is sent too, so that a receiver that expects more learns of it.
Request MpiCommunicator::do_send(const void* data, Count elements, DType dtype, int to, int tag) {
  auto request = start("send");
  const auto* bytes = static_cast<const std::byte*>(data);
  const auto piece = [&](Count offset, int count) {
    request->check(MPI_Isend(bytes + offset * size_of(dtype), count, mpi_type(dtype), to, tag, group_->comm(), request->add()));
  };
  if (elements == 0) piece(0, 0);
  for_each_piece(elements, limit_, piece);
  return Request(std::move(request));
}

Request MpiCommunicator::do_recv(void* data, Count elements, DType dtype, int from, int tag) {
  auto request = start("recv");
  auto* bytes = static_cast<std::byte*>(data);
  const auto piece = [&](Count offset, int count) {
    MPI_Request* slot = request->add_receive(count, mpi_type(dtype));
    request->check(MPI_Irecv(bytes + offset * size_of(dtype), count, mpi_type(dtype), from, tag, group_->comm(), slot));
  };
  if (elements == 0) piece(0, 0);
  for_each_piece(elements, limit_, piece);
  return Request(std::move(request));
}

std::unique_ptr<Communicator> MpiCommunicator::do_split(int color, int key, std::string name) {
  MPI_Comm part = MPI_COMM_NULL;
  group_->check(MPI_Comm_split(group_->comm(), color < 0 ? MPI_UNDEFINED : color, key, &part), "split");
  if (part == MPI_COMM_NULL) return nullptr;
  return std::make_unique<MpiCommunicator>(std::make_shared<MpiGroup>(part, std::move(name), group_->half_ops()), limit_);
}

}  // namespace

std::unique_ptr<Communicator> make_world_communicator(const MpiOptions& options) {
  constexpr Count kMostOfMpi = std::numeric_limits<int>::max();
  COHORT_CHECK(options.max_elements_per_call >= 1 && options.max_elements_per_call <= kMostOfMpi,
               "max_elements_per_call is {}, must be 1 to {}", options.max_elements_per_call, kMostOfMpi);
  int up = 0;
  check_mpi_setup(MPI_Initialized(&up), "MPI_Initialized");
  COHORT_CHECK(up != 0, "the world communicator was asked for before MPI was brought up");
  MPI_Comm world = MPI_COMM_NULL;
  check_mpi_setup(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup of MPI_COMM_WORLD");
  auto group = std::make_shared<MpiGroup>(world, "world", std::make_shared<MpiHalfOps>());
  return std::make_unique<MpiCommunicator>(std::move(group), options.max_elements_per_call);
}

const void* mpi_handle(const Communicator& comm) {
  static const MPI_Comm self = MPI_COMM_SELF;
  if (comm.backend() == "self") return static_cast<const void*>(&self);
  const auto* mpi = dynamic_cast<const MpiCommunicator*>(&comm);
  COHORT_CHECK(mpi != nullptr, "the group '{}' of the backend {} has no MPI communicator", comm.name(), comm.backend());
  return static_cast<const void*>(&mpi->comm());
}

bool all_threads_may_communicate() {
  int provided = MPI_THREAD_SINGLE;
  check_mpi_setup(MPI_Query_thread(&provided), "MPI_Query_thread");
  return provided == MPI_THREAD_MULTIPLE;
}

}  // namespace cohort
