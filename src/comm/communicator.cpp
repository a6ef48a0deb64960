#include "comm/communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <thread>

#include "base/error.hpp"
#include "comm/call_comparison.hpp"
#include "observe/waiting.hpp"

namespace cohort {

Request& Request::operator=(Request&& other) noexcept {
  if (this != &other) {
    finish();
    state_ = std::move(other.state_);
    record_ = other.record_;
  }
  return *this;
}

Request::~Request() { finish(); }

bool Request::test() {
  if (!state_) return true;
  // An operation that failed is over: it must not be waited for again by the destructor.
  std::unique_ptr<State> state = std::move(state_);
  if (state->test()) {
    FlightRecorder::of_process().finish(record_);
    return true;
  }
  state_ = std::move(state);
  return false;
}

void Request::wait() {
  if (!state_) return;
  const std::unique_ptr<State> state = std::move(state_);
  FlightRecorder::of_process().wait(record_);
  if (record_ == FlightRecorder::kNone) {  // of a device, or of a group that works for this one and counts the time itself
    state->wait();
  } else {
    const WaitScope counted;
    state->wait();
  }
  FlightRecorder::of_process().finish(record_);
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
        [[maybe_unused]] const auto* const left_behind = state_.release();
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

void Communicator::note(const char* operation, Form form, Count elements, DType dtype, int peer, const Site& site) {
  if (observer_) observer_({operation, &name_, elements, dtype, elements * size_of(dtype), size_, form == Form::asynchronous});
  record_ = FlightRecorder::kNone;
  if (size_ == 1 || recording() == Recording::none) return;
  OperationRecord record{.operation = operation,
                         .group = name_,
                         .members = members_,
                         .elements = elements,
                         .dtype = dtype,
                         .ranks = size_,
                         .asynchronous = form == Form::asynchronous,
                         .on_device = recording() == Recording::backend,
                         .site = site};
  if (peer < 0) {
    record.number = ++collectives_;
  } else {
    record.peer = members_ ? members_->at(static_cast<std::size_t>(peer)) : peer;
  }
  record_ = FlightRecorder::of_process().begin(std::move(record));
}

void Communicator::check_collectives() {
  if (size_ > 1 && !checker_) checker_ = split(0, rank_, name_ + " (comparing calls)");
}

void Communicator::take_checker_of(Communicator& host) {
  if (host.checker_) checker_ = host.checker_->split(0, rank_, host.checker_->name());
}

void Communicator::compare(const char* operation, Count elements, DType dtype, std::optional<ReduceOp> op, int root,
                           const Site& site) {
  if (!checker_) return;
  constexpr std::size_t kLength = 512;  // of a text on its way; a longer path loses its end
  std::vector<char> texts(kLength * static_cast<std::size_t>(size_), '\0');
  char* const own = texts.data() + kLength * static_cast<std::size_t>(rank_);
  const std::string call = describe_call(operation, elements, dtype, op, root, site);
  std::copy_n(call.begin(), std::min(call.size(), kLength - 1), own);
  checker_->all_gather(own, texts.data(), kLength, DType::u8, site);
  std::vector<std::string> calls;
  for (int rank = 0; rank < size_; ++rank) calls.emplace_back(texts.data() + kLength * static_cast<std::size_t>(rank));
  const std::string difference = first_difference(calls);
  if (!difference.empty()) fail_operation(operation, "the ranks of the group call different collectives: " + difference);
}

Request Communicator::recorded(Request request) const {
  FlightRecorder& recorder = FlightRecorder::of_process();
  if (!request.state_) {
    recorder.finish(record_);
  } else if (recording() == Recording::request) {
    request.record_ = record_;
  } else {
    recorder.wait(record_);  // from now on, whatever the host does
  }
  return request;
}

namespace {

/// Whether two buffers of a and b bytes share memory.
bool overlap(const void* a, Bytes a_bytes, const void* b, Bytes b_bytes) {
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a);
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b);
  return a_begin < b_begin + static_cast<std::uintptr_t>(b_bytes) && b_begin < a_begin + static_cast<std::uintptr_t>(a_bytes);
}

}  // namespace

Request Communicator::start_all_reduce(Form form, void* data, Count elements, DType dtype, ReduceOp op, const Site& site) {
  check_buffer("all_reduce", data, elements);
  check_average("all_reduce", dtype, op);
  compare("all_reduce", elements, dtype, op, -1, site);
  note("all_reduce", form, elements, dtype, -1, site);
  return recorded(do_all_reduce(data, elements, dtype, op));
}

Request Communicator::start_reduce_scatter(Form form, const void* send, void* recv, Count block_elements, DType dtype,
                                           ReduceOp op, const Site& site) {
  check_buffer("reduce_scatter", send, block_elements);
  check_buffer("reduce_scatter", recv, block_elements);
  check_average("reduce_scatter", dtype, op);
  const Bytes block_bytes = block_elements * size_of(dtype);
  const bool own_block = recv == static_cast<const std::byte*>(send) + rank_ * block_bytes;
  if (!own_block && overlap(send, block_bytes * size_, recv, block_bytes)) {
    fail_operation("reduce_scatter", "the buffers overlap, and `recv` is not the rank's own block of `send`");
  }
  compare("reduce_scatter", block_elements * size_, dtype, op, -1, site);
  note("reduce_scatter", form, block_elements * size_, dtype, -1, site);
  return recorded(do_reduce_scatter(send, recv, block_elements, dtype, op));
}

Request Communicator::start_all_gather(Form form, const void* send, void* recv, Count block_elements, DType dtype,
                                       const Site& site) {
  check_buffer("all_gather", send, block_elements);
  check_buffer("all_gather", recv, block_elements);
  const Bytes block_bytes = block_elements * size_of(dtype);
  const bool own_block = send == static_cast<const std::byte*>(recv) + rank_ * block_bytes;
  if (!own_block && overlap(send, block_bytes, recv, block_bytes * size_)) {
    fail_operation("all_gather", "the buffers overlap, and `send` is not the rank's own block of `recv`");
  }
  compare("all_gather", block_elements * size_, dtype, std::nullopt, -1, site);
  note("all_gather", form, block_elements * size_, dtype, -1, site);
  return recorded(do_all_gather(send, recv, block_elements, dtype));
}

Request Communicator::start_broadcast(Form form, void* data, Count elements, DType dtype, int root, const Site& site) {
  check_buffer("broadcast", data, elements);
  if (root < 0 || root >= size_) {
    fail_operation("broadcast", fmt::format("root {} is not a rank of the group (0 to {})", root, size_ - 1));
  }
  compare("broadcast", elements, dtype, std::nullopt, root, site);
  note("broadcast", form, elements, dtype, -1, site);
  return recorded(do_broadcast(data, elements, dtype, root));
}

Request Communicator::start_send(Form form, const void* data, Count elements, DType dtype, int to, int tag, const Site& site) {
  check_buffer("send", data, elements);
  check_peer("send", to, tag);
  note("send", form, elements, dtype, to, site);
  return recorded(do_send(data, elements, dtype, to, tag));
}

Request Communicator::start_recv(Form form, void* data, Count elements, DType dtype, int from, int tag, const Site& site) {
  check_buffer("recv", data, elements);
  check_peer("recv", from, tag);
  note("recv", form, elements, dtype, from, site);
  return recorded(do_recv(data, elements, dtype, from, tag));
}

Request Communicator::all_reduce_async(void* data, Count elements, DType dtype, ReduceOp op, Site site) {
  return start_all_reduce(Form::asynchronous, data, elements, dtype, op, site);
}
void Communicator::all_reduce(void* data, Count elements, DType dtype, ReduceOp op, Site site) {
  start_all_reduce(Form::blocking, data, elements, dtype, op, site).wait();
}

Request Communicator::reduce_scatter_async(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op,
                                           Site site) {
  return start_reduce_scatter(Form::asynchronous, send, recv, block_elements, dtype, op, site);
}
void Communicator::reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp op, Site site) {
  start_reduce_scatter(Form::blocking, send, recv, block_elements, dtype, op, site).wait();
}

Request Communicator::all_gather_async(const void* send, void* recv, Count block_elements, DType dtype, Site site) {
  return start_all_gather(Form::asynchronous, send, recv, block_elements, dtype, site);
}
void Communicator::all_gather(const void* send, void* recv, Count block_elements, DType dtype, Site site) {
  start_all_gather(Form::blocking, send, recv, block_elements, dtype, site).wait();
}

Request Communicator::broadcast_async(void* data, Count elements, DType dtype, int root, Site site) {
  return start_broadcast(Form::asynchronous, data, elements, dtype, root, site);
}
void Communicator::broadcast(void* data, Count elements, DType dtype, int root, Site site) {
  start_broadcast(Form::blocking, data, elements, dtype, root, site).wait();
}

Request Communicator::send_async(const void* data, Count elements, DType dtype, int to, int tag, Site site) {
  return start_send(Form::asynchronous, data, elements, dtype, to, tag, site);
}
void Communicator::send(const void* data, Count elements, DType dtype, int to, int tag, Site site) {
  start_send(Form::blocking, data, elements, dtype, to, tag, site).wait();
}

Request Communicator::recv_async(void* data, Count elements, DType dtype, int from, int tag, Site site) {
  return start_recv(Form::asynchronous, data, elements, dtype, from, tag, site);
}
void Communicator::recv(void* data, Count elements, DType dtype, int from, int tag, Site site) {
  start_recv(Form::blocking, data, elements, dtype, from, tag, site).wait();
}

void Communicator::barrier(Site site) {
  compare("barrier", 0, DType::u8, std::nullopt, -1, site);
  note("barrier", Form::blocking, 0, DType::u8, -1, site);
  FlightRecorder::of_process().wait(record_);
  {
    const WaitScope counted;
    do_barrier();
  }
  FlightRecorder::of_process().finish(record_);
}

std::unique_ptr<Communicator> Communicator::divided(const Divide& divide, std::string name, const Site& site) {
  compare("split", 0, DType::u8, std::nullopt, -1, site);
  note("split", Form::blocking, 0, DType::u8, -1, site);
  FlightRecorder::of_process().wait(record_);
  std::unique_ptr<Communicator> group = divide(*this, std::move(name));
  FlightRecorder::of_process().finish(record_);
  if (group) group->observer_ = observer_;
  if (checker_) {
    std::unique_ptr<Communicator> checker = checker_->divided(divide, checker_->name(), site);
    if (group) group->checker_ = std::move(checker);
  }
  return group;
}

std::unique_ptr<Communicator> Communicator::split(int color, int key, std::string name, Site site) {
  return divided([&](Communicator& group, std::string part) { return group.do_split(color, key, std::move(part)); },
                 std::move(name), site);
}

std::unique_ptr<Communicator> Communicator::split_by(const ColorOf& color_of, std::string name, Site site) {
  return divided([&](Communicator& group, std::string part) { return group.do_split_by(color_of, std::move(part)); },
                 std::move(name), site);
}

}  // namespace cohort
