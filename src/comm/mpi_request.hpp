// An operation of the MPI backend in flight: one MPI request for each call that it was cut into, and what is to be done at its
// end. Internal to the MPI backend.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/mpi_group.hpp"

namespace cohort {

class MpiRequest : public Request::State {
 public:
  /// `patient`: see Communicator::be_patient().
  MpiRequest(std::shared_ptr<const MpiGroup> group, const char* operation, bool patient)
      : group_(std::move(group)), operation_(operation), patient_(patient) {}
  ~MpiRequest() override;

  /// The slot for the request of the next MPI call; valid until the next call of add().
  MPI_Request* add();
  /// The slot for a receive, which must bring exactly `elements`. All requests of an operation are receives, or none is.
  MPI_Request* add_receive(int elements, MPI_Datatype type);
  /// Memory that lives until the operation is over.
  std::byte* stage(Bytes bytes);
  /// A derived type that is freed when the operation is over.
  void own(MPI_Datatype type) { types_.push_back(type); }
  /// When the calls are done, data[i] <- data[i] / size().
  void average_at_end(void* data, Count elements, DType dtype);
  /// When the calls are done, and averaged, `to` <- `from`.
  void copy_at_end(void* to, const void* from, Bytes bytes);
  void check(int code) const { group_->check(code, operation_); }

  bool test() override;
  void wait() override;

 private:
  /// A receive must bring as much as was asked for: MPI lets shorter messages pass.
  void check_length(const MPI_Status& status) const;
  void finish();

  std::shared_ptr<const MpiGroup> group_;
  const char* operation_;
  bool patient_;
  std::vector<MPI_Request> requests_;
  std::size_t done_ = 0;                   // the requests before this one are complete
  std::vector<int> expected_;              // elements of each request; empty unless they are receives
  MPI_Datatype type_ = MPI_DATATYPE_NULL;  // of the receives
  std::vector<std::unique_ptr<std::byte[]>> staging_;
  std::vector<MPI_Datatype> types_;
  void* average_data_ = nullptr;
  Count average_elements_ = 0;
  DType average_dtype_ = DType::f32;
  void* copy_to_ = nullptr;
  const void* copy_from_ = nullptr;
  Bytes copy_bytes_ = 0;
};

}  // namespace cohort
