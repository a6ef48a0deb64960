#include "comm/mpi_group.hpp"

#include <exception>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace cohort {
namespace {

std::string error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return fmt::format("MPI error {}", code);
  return {text.data(), static_cast<std::size_t>(length)};
}

/// True while MPI can be called: handles that outlive MPI_Finalize have been freed by it.
bool mpi_is_up() {
  int initialized = 0;
  int finalized = 0;
  return MPI_Initialized(&initialized) == MPI_SUCCESS && initialized != 0 && MPI_Finalized(&finalized) == MPI_SUCCESS &&
         finalized == 0;
}

bf16 add(bf16 a, bf16 b) { return to_bf16(to_float(a) + to_float(b)); }
f16 add(f16 a, f16 b) { return to_f16(to_float(a) + to_float(b)); }

// The signatures are MPI_User_function's.
template <class T>
void sum_halves(void* in, void* inout, int* length, MPI_Datatype*) {
  const auto* x = static_cast<const T*>(in);
  auto* y = static_cast<T*>(inout);
  for (int i = 0; i < *length; ++i) y[i] = add(x[i], y[i]);
}
template <class T>
void max_halves(void* in, void* inout, int* length, MPI_Datatype*) {
  const auto* x = static_cast<const T*>(in);
  auto* y = static_cast<T*>(inout);
  for (int i = 0; i < *length; ++i) {
    if (to_float(x[i]) > to_float(y[i])) y[i] = x[i];
  }
}

std::shared_ptr<const std::vector<int>> ranks_of_job_in(MPI_Comm comm, int size) {
  MPI_Group group = MPI_GROUP_NULL, job = MPI_GROUP_NULL;
  check_mpi_setup(MPI_Comm_group(comm, &group), "MPI_Comm_group");
  check_mpi_setup(MPI_Comm_group(MPI_COMM_WORLD, &job), "MPI_Comm_group of MPI_COMM_WORLD");
  std::vector<int> here(static_cast<std::size_t>(size));
  std::iota(here.begin(), here.end(), 0);
  auto ranks = std::make_shared<std::vector<int>>(here.size());
  check_mpi_setup(MPI_Group_translate_ranks(group, size, here.data(), job, ranks->data()), "MPI_Group_translate_ranks");
  check_mpi_setup(MPI_Group_free(&group), "MPI_Group_free");
  check_mpi_setup(MPI_Group_free(&job), "MPI_Group_free");
  return ranks;
}

}  // namespace

void check_mpi_setup(int code, const char* what) {
  if (code != MPI_SUCCESS) fail(ExitCode::launch, "{}: {}", what, error_text(code));
}

MpiHalfOps::MpiHalfOps() {
  constexpr int kCommutes = 1;
  check_mpi_setup(MPI_Op_create(sum_halves<bf16>, kCommutes, &ops_[0]), "MPI_Op_create");
  check_mpi_setup(MPI_Op_create(max_halves<bf16>, kCommutes, &ops_[1]), "MPI_Op_create");
  check_mpi_setup(MPI_Op_create(sum_halves<f16>, kCommutes, &ops_[2]), "MPI_Op_create");
  check_mpi_setup(MPI_Op_create(max_halves<f16>, kCommutes, &ops_[3]), "MPI_Op_create");
}

MpiHalfOps::~MpiHalfOps() {
  if (!mpi_is_up()) return;
  for (MPI_Op& op : ops_) MPI_Op_free(&op);  // a destructor has nobody to tell of a failure
}

MpiGroup::MpiGroup(MPI_Comm comm, std::string name, std::shared_ptr<const MpiHalfOps> half_ops)
    : comm_(comm), name_(std::move(name)), half_ops_(std::move(half_ops)) {
  check_mpi_setup(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi_setup(MPI_Comm_set_name(comm_, name_.c_str()), "MPI_Comm_set_name");  // debuggers show it
  check_mpi_setup(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi_setup(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  ranks_of_job_ = ranks_of_job_in(comm_, size_);
}

MpiGroup::~MpiGroup() {
  // Freeing is collective: while an exception unwinds the stack, the other ranks may never come to it, and the job is about to
  // end.
  if (mpi_is_up() && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
}

MPI_Op MpiGroup::operation(DType dtype, ReduceOp op) const {
  const bool max = op == ReduceOp::max;
  if (dtype == DType::bf16) return max ? half_ops_->bf16_max() : half_ops_->bf16_sum();
  if (dtype == DType::f16) return max ? half_ops_->f16_max() : half_ops_->f16_sum();
  return max ? MPI_MAX : MPI_SUM;
}

void MpiGroup::check(int code, const char* operation) const {
  if (code == MPI_SUCCESS) return;
  fail(ExitCode::internal, "{} on group '{}', rank {} of {}: {}", operation, name_, rank_, size_, error_text(code));
}

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::bf16:
    case DType::f16:
      return MPI_UINT16_T;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
    case DType::u8:
      return MPI_UINT8_T;
  }
  fail(ExitCode::internal, "element type {} has no MPI type", static_cast<int>(dtype));
}

}  // namespace cohort
