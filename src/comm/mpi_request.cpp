#include "comm/mpi_request.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "comm/scaling.hpp"

namespace cohort {

MpiRequest::~MpiRequest() {
  for (MPI_Datatype& type : types_) MPI_Type_free(&type);  // a destructor has nobody to tell of a failure
}

MPI_Request* MpiRequest::add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

MPI_Request* MpiRequest::add_receive(int elements, MPI_Datatype type) {
  expected_.push_back(elements);
  type_ = type;
  return add();
}

std::byte* MpiRequest::stage(Bytes bytes) {
  return staging_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes))).get();
}

void MpiRequest::average_at_end(void* data, Count elements, DType dtype) {
  average_data_ = data;
  average_elements_ = elements;
  average_dtype_ = dtype;
}

void MpiRequest::copy_at_end(void* to, const void* from, Bytes bytes) {
  copy_to_ = to;
  copy_from_ = from;
  copy_bytes_ = bytes;
}

bool MpiRequest::test() {
  for (; done_ < requests_.size(); ++done_) {
    MPI_Status status;
    int done = 0;
    check(MPI_Test(&requests_[done_], &done, &status));
    if (done == 0) return false;
    check_length(status);
  }
  finish();
  return true;
}

// One by one: MPI_Waitall of Open MPI 4.1 can spin for ever on a receive that fails while it waits (seen with a truncated
// message).
void MpiRequest::wait() {
  if (patient_) {
    // Short naps: MPI moves a large message by some ten kilobytes each time it is asked. (Naps of 2 ms: 75 MB/s.)
    constexpr std::chrono::microseconds kNap{50};
    while (!test()) std::this_thread::sleep_for(kNap);
    return;
  }
  for (; done_ < requests_.size(); ++done_) {
    MPI_Status status;
    check(MPI_Wait(&requests_[done_], &status));
    check_length(status);
  }
  finish();
}

void MpiRequest::check_length(const MPI_Status& status) const {
  if (expected_.empty()) return;
  int elements = 0;
  check(MPI_Get_count(&status, type_, &elements));
  if (elements == expected_[done_]) return;
  fail(ExitCode::internal, "{} on group '{}', rank {} of {}: {} elements were asked for, the message had {}", operation_,
       group_->name(), group_->rank(), group_->size(), expected_[done_],
       elements == MPI_UNDEFINED ? "a fraction of one" : fmt::to_string(elements));
}

void MpiRequest::finish() {
  if (average_data_ != nullptr) divide(average_data_, average_elements_, average_dtype_, group_->size());
  if (copy_to_ != nullptr) std::memcpy(copy_to_, copy_from_, static_cast<std::size_t>(copy_bytes_));
}

}  // namespace cohort
