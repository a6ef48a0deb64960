#include "comm/communicator.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <thread>

#include "base/error.hpp"

namespace cohort {

Request& Request::operator=(Request&& other) noexcept {
  if (this != &other) {
    finish();
    state_ = std::move(other.state_);
  }
  return *this;
}

Request::~Request() { finish(); }

bool Request::test() {
  if (!state_) return true;
  // An operation that failed is over: it must not be waited for again by the destructor.
  std::unique_ptr<State> state = std::move(state_);
  if (state->test()) return true;
  state_ = std::move(state);
  return false;
}

void Request::wait() {
  if (!state_) return;
  const std::unique_ptr<State> state = std::move(state_);
  state->wait();
}

void Request::finish() noexcept {
  if (!state_) return;
  try {
    if (std::uncaught_exceptions() == 0) {
      wait();
      return;
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (!test()) {
      if (std::chrono::steady_clock::now() > deadline) {
        // The library may still write to what the state owns, so it is left behind rather than freed; the job is about to end.
        static_cast<void>(state_.release());
        return;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  } catch (...) {  // the caller never asked for the outcome
    state_.reset();
  }
}

void Communicator::fail_operation(const char* operation, const std::string& message) const {
  fail(ExitCode::internal, "{} on group '{}', rank {} of {}: {}", operation, name_, rank_, size_, message);
}

void Communicator::check_buffer(const char* operation, const void* data, Count elements) const {
  if (elements < 0) fail_operation(operation, fmt::format("the count is negative ({})", elements));
  // Beyond this, the bytes of all ranks' blocks no longer fit a signed 64-bit number.
  const Count most = std::numeric_limits<Count>::max() / 8 / size_;
  if (elements > most) fail_operation(operation, fmt::format("the count {} is too large (at most {})", elements, most));
  if (data == nullptr && elements > 0) fail_operation(operation, fmt::format("null buffer for {} elements", elements));
}

void Communicator::check_average(const char* operation, DType dtype, ReduceOp op) const {
  if (op == ReduceOp::avg && !is_floating(dtype)) {
    fail_operation(operation, fmt::format("{} cannot be averaged; sum and divide instead", name_of(dtype)));
  }
}

void Communicator::check_peer(const char* operation, int peer, int tag) const {
  if (peer < 0 || peer >= size_)
    fail_operation(operation, fmt::format("peer {} is not a rank of the group (0 to {})", peer, size_ - 1));
  if (peer == rank_) fail_operation(operation, "the peer is the rank itself; copy instead");
  if (tag < 0 || tag > kMaxTag) fail_operation(operation, fmt::format("tag {} is out of range (0 to {})", tag, kMaxTag));
}

void Communicator::note(const char* operation, Form form, Count elements, DType dtype) {
  if (!observer_) return;
  observer_({operation, &name_, elements, dtype, elements * size_of(dtype), form == Form::asynchronous});
}

namespace {

/// Whether two buffers of a and b bytes share memory.
bool overlap(const void* a, Bytes a_bytes, const void* b, Bytes b_bytes) {
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a);
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b);
  return a_begin < b_begin + static_cast<std::uintptr_t>(b_bytes) && b_begin < a_begin + static_cast<std::uintptr_t>(a_bytes);
}

}  // namespace

Request Communicator::start_all_reduce(Form form, void* data, Count elements, DType dtype, ReduceOp op) {
  check_buffer("all_reduce", data, elements);
  check_average("all_reduce", dtype, op);
  note("all_reduce", form, elements, dtype);
  return do_all_reduce(data, elements, dtype, op);
}

Request Communicator::start_reduce_scatter(Form form, const void* send, void* recv, Count block_elements, DType dtype,
                                           ReduceOp op) {
  check_buffer("reduce_scatter", send, block_elements);
  check_buffer("reduce_scatter", recv, block_elements);
  check_average("reduce_scatter", dtype, op);
  const Bytes block_bytes = block_elements * size_of(dtype);
  const bool own_block = recv == static_cast<const std::byte*>(send) + rank_ * block_bytes;
  if (!own_block && overlap(send, block_bytes * size_, recv, block_bytes)) {
    fail_operation("reduce_scatter", "the buffers overlap, and `recv` is not the rank's own block of `send`");
  }
  note("reduce_scatter", form, block_elements * size_, dtype);
  return do_reduce_scatter(send, recv, block_elements, dtype, op);
}

Request Communicator::start_all_gather(Form form, const void* send, void* recv, Count block_elements, DType dtype) {
  check_buffer("all_gather", send, block_elements);
  check_buffer("all_gather", recv, block_elements);
  const Bytes block_bytes = block_elements * size_of(dtype);
  const bool own_block = send == static_cast<const std::byte*>(recv) + rank_ * block_bytes;
  if (!own_block && overlap(send, block_bytes, recv, block_bytes * size_)) {
    fail_operation("all_gather", "the buffers overlap, and `send` is not the rank's own block of `recv`");
  }
  note("all_gather", form, block_elements * size_, dtype);
  return do_all_gather(send, recv, block_elements, dtype);
}

Request Communicator::start_broadcast(Form form, void* data, Count elements, DType dtype, int root) {
  check_buffer("broadcast", data, elements);
  if (root < 0 || root >= size_) {
    fail_operation("broadcast", fmt::format("root {} is not a rank of the group (0 to {})", root, size_ - 1));
  }
  note("broadcast", form, elements, dtype);
  return do_broadcast(data, elements, dtype, root);
}

Request Communicator::start_send(Form form, const void* data, Count elements, DType dtype, int to, int tag) {
  check_buffer("send", data, elements);
  check_peer("send", to, tag);
  note("send", form, elements, dtype);
  return do_send(data, elements, dtype, to, tag);
}

Request Communicator::start_recv(Form form, void* data, Count elements, DType dtype, int from, int tag) {
  check_buffer("recv", data, elements);
  check_peer("recv", from, tag);
  note("recv", form, elements, dtype);
  return do_recv(data, elements, dtype, from, tag);
}

Request Communicator::all_reduce_async(void* data, Count elements, DType dtype, ReduceOp op) {
  return start_all_reduce(Form::asynchronous, data, elements, dtype, op);
}
void Communicator::all_reduce(void* data, Count elements, DType dtype, ReduceOp op) {
  start_all_reduce(Form::blocking, data, elements, dtype, op).wait();
}

Request Communicator::reduce_scatter_async(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op) {
  return start_reduce_scatter(Form::asynchronous, send, recv, block_elements, dtype, op);
}
void Communicator::reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op) {
  start_reduce_scatter(Form::blocking, send, recv, block_elements, dtype, op).wait();
}

Request Communicator::all_gather_async(const void* send, void* recv, Count block_elements, DType dtype) {
  return start_all_gather(Form::asynchronous, send, recv, block_elements, dtype);
}
void Communicator::all_gather(const void* send, void* recv, Count block_elements, DType dtype) {
  start_all_gather(Form::blocking, send, recv, block_elements, dtype).wait();
}

Request Communicator::broadcast_async(void* data, Count elements, DType dtype, int root) {
  return start_broadcast(Form::asynchronous, data, elements, dtype, root);
}
void Communicator::broadcast(void* data, Count elements, DType dtype, int root) {
  start_broadcast(Form::blocking, data, elements, dtype, root).wait();
}

Request Communicator::send_async(const void* data, Count elements, DType dtype, int to, int tag) {
  return start_send(Form::asynchronous, data, elements, dtype, to, tag);
}
void Communicator::send(const void* data, Count elements, DType dtype, int to, int tag) {
  start_send(Form::blocking, data, elements, dtype, to, tag).wait();
}

Request Communicator::recv_async(void* data, Count elements, DType dtype, int from, int tag) {
  return start_recv(Form::asynchronous, data, elements, dtype, from, tag);
}
void Communicator::recv(void* data, Count elements, DType dtype, int from, int tag) {
  start_recv(Form::blocking, data, elements, dtype, from, tag).wait();
}

void Communicator::barrier() {
  note("barrier", Form::blocking, 0, DType::u8);
  do_barrier();
}

std::unique_ptr<Communicator> Communicator::split(int color, int key, std::string name) {
  std::unique_ptr<Communicator> group = do_split(color, key, std::move(name));
  if (group) group->observer_ = observer_;
  return group;
}

}  // namespace cohort
