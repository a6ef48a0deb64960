// What the MPI communicator and its requests share: the MPI communicator, the operations on 16-bit floats, and error checks.
// Internal to the MPI backend.
#pragma once

#include <mpi.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/units.hpp"
#include "comm/communicator.hpp"

namespace cohort {

/// Sum and maximum of bf16 and fp16, as user-defined operations on a 2-byte type: MPI has no such types. Adds in fp32 and rounds
/// once per addition.
class MpiHalfOps {
 public:
  MpiHalfOps();
  ~MpiHalfOps();
  MpiHalfOps(const MpiHalfOps&) = delete;
  MpiHalfOps& operator=(const MpiHalfOps&) = delete;

  MPI_Op bf16_sum() const { return ops_[0]; }
  MPI_Op bf16_max() const { return ops_[1]; }
  MPI_Op f16_sum() const { return ops_[2]; }
  MPI_Op f16_max() const { return ops_[3]; }

 private:
  std::array<MPI_Op, 4> ops_{MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL};
};

/// Owns an MPI communicator. Requests share it, so that it outlives the last operation on it.
class MpiGroup {
 public:
  /// Takes `comm` over and sets it to return errors.
  MpiGroup(MPI_Comm comm, std::string name, std::shared_ptr<const MpiHalfOps> half_ops);
  ~MpiGroup();
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  const MPI_Comm& comm() const { return comm_; }
  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Its ranks by their numbers in MPI_COMM_WORLD.
  const std::shared_ptr<const std::vector<int>>& ranks_of_job() const { return ranks_of_job_; }
  const std::shared_ptr<const MpiHalfOps>& half_ops() const { return half_ops_; }

  /// The MPI operation of sum and avg (a sum, divided later) or max on `dtype`.
  MPI_Op operation(DType dtype, ReduceOp op) const;
  /// Throws Error(internal) with MPI's own words unless `code` is MPI_SUCCESS.
  void check(int code, const char* operation) const;

 private:
  MPI_Comm comm_;
  std::string name_;
  int rank_ = 0;
  int size_ = 0;
  std::shared_ptr<const std::vector<int>> ranks_of_job_;
  std::shared_ptr<const MpiHalfOps> half_ops_;
};

/// The type that carries `dtype`; 16-bit floats travel as 2-byte integers.
MPI_Datatype mpi_type(DType dtype);

/// For calls that belong to no group yet. Throws Error(launch).
void check_mpi_setup(int code, const char* what);

}  // namespace cohort
