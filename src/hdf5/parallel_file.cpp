// Parallel files, where HDF5 was built with MPI: hdf5.h then brings mpi.h.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/box.hpp"
#include "hdf5/hdf5_internal.hpp"
#include "hdf5/reserve.hpp"

namespace cohort::hdf5 {
namespace {

// With every file, Open MPI's MPI-IO (OMPIO) opens a shared file pointer, which nobody here uses. Its component for ranks of one
// node sets up a semaphore without order among the ranks, and under load they sometimes wait for it for ever (seen with 4.1.4).
// So another component is asked for, unless the environment says which. Open MPI reads this when MPI starts, so it is set before
// main.
[[maybe_unused]] const bool without_semaphore = ::setenv("OMPI_MCA_sharedfp", "^sm", 0) == 0;

/// The hints of the options, freed when done: HDF5 keeps its own copy.
class Hints {
 public:
  explicit Hints(const FileOptions& options) {
    COHORT_CHECK(MPI_Info_create(&info_) == MPI_SUCCESS, "MPI cannot make a set of hints");
    // The names that the MPI standard reserves (MPI 4.0, section 14.2.8).
    if (options.stripe_count > 0) set("striping_factor", options.stripe_count);
    if (options.stripe_size > 0) set("striping_unit", options.stripe_size);
  }
  ~Hints() { MPI_Info_free(&info_); }
  Hints(const Hints&) = delete;
  Hints& operator=(const Hints&) = delete;
  MPI_Info info() const { return info_; }

 private:
  void set(const char* key, std::int64_t value) {
    COHORT_CHECK(MPI_Info_set(info_, key, fmt::format("{}", value).c_str()) == MPI_SUCCESS, "MPI cannot take the hint {} = {}",
                 key, value);
  }

  MPI_Info info_ = MPI_INFO_NULL;
};

/// Every rank tries to open the file by itself, and all throw the reason of the lowest rank that cannot: MPI-IO gives none, and
/// Open MPI leaves the other ranks waiting.
void check_creatable(const std::string& path, MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  int reason = file < 0 ? errno : 0;
  if (file >= 0) ::close(file);
  bool ok = MPI_Comm_rank(comm, &rank) == MPI_SUCCESS && MPI_Comm_size(comm, &size) == MPI_SUCCESS;
  const int own = reason == 0 ? size : rank;
  int lowest = size;
  ok = ok && MPI_Allreduce(&own, &lowest, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS;
  if (ok && lowest < size) {
    ok = MPI_Bcast(&reason, 1, MPI_INT, lowest, comm) == MPI_SUCCESS;
    if (ok) fail(ExitCode::io, "{}: cannot be created by rank {} of {}: {}", path, lowest, size, std::strerror(reason));
  }
  COHORT_CHECK(ok, "{}: MPI failed while the ranks agreed on whether the file can be created", path);
}

/// Asks the file system for the space of all that HDF5 still holds in memory, wherever it goes: into gaps or behind what is
/// written. (HDF5 does not tell the size that a parallel file will have.) Returns errno, 0 also where the file system cannot
/// promise it.
int reserve_space(hid_t file) {
  std::size_t held = 0;  // of metadata
  const ssize_t length = H5Fget_name(file, nullptr, 0);
  std::string path(static_cast<std::size_t>(std::max<ssize_t>(length, 0)) + 1, '\0');
  if (H5Fget_mdc_size(file, nullptr, nullptr, &held, nullptr) < 0 || H5Fget_name(file, path.data(), path.size()) < 0) return EIO;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  struct stat written = {};
  const int reason = ::fstat(descriptor, &written) == 0 ? reserve(descriptor, written.st_size, static_cast<off_t>(held)) : errno;
  ::close(descriptor);
  return reason;
}

/// Space first: where one rank's write of metadata fails, HDF5 leaves the other ranks waiting for it in a barrier.
std::string flush_together(hid_t file, MPI_Comm comm) {
  int rank = 0;
  if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS) return "MPI failed";
  int reason = rank == 0 ? reserve_space(file) : 0;
  if (MPI_Bcast(&reason, 1, MPI_INT, 0, comm) != MPI_SUCCESS) return "MPI failed";
  if (reason != 0) return fmt::format("no space for all of it: {}", std::strerror(reason));
  int flushed = H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0 ? 1 : 0;
  const std::string own = flushed != 0 ? "another rank or the file system failed" : take_reason();
  if (MPI_Allreduce(MPI_IN_PLACE, &flushed, 1, MPI_INT, MPI_MIN, comm) != MPI_SUCCESS) return "MPI failed";
  return flushed != 0 ? "" : own;
}

}  // namespace

bool is_parallel(hid_t file) {
  const Handle access(Handle::Kind::property_list, H5Fget_access_plist(file));
  return access.id() >= 0 && H5Pget_driver(access.id()) == H5FD_MPIO;
}

std::string flush_file(hid_t file) {
  if (!is_parallel(file)) return H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0 ? "" : take_reason();
  const Handle access(Handle::Kind::property_list, H5Fget_access_plist(file));
  MPI_Comm comm = MPI_COMM_NULL;
  if (access.id() < 0 || H5Pget_fapl_mpio(access.id(), &comm, nullptr) < 0) return take_reason();
  const std::string reason = flush_together(file, comm);
  return MPI_Comm_free(&comm) == MPI_SUCCESS ? reason : "MPI failed to free a communicator";
}

bool File::has_parallel() { return true; }

File File::create_parallel(const std::string& path, const void* communicator, ExitCode code, const FileOptions& options) {
  const Turn turn;
  silence();
  check_options(path, options);
  if (options.locking) fail(ExitCode::config, "{}: HDF5 does not lock parallel files: turn file locking off", path);
  int up = 0;
  COHORT_CHECK(MPI_Initialized(&up) == MPI_SUCCESS && up != 0, "{}: a parallel file was asked for before MPI was brought up",
               path);
  const MPI_Comm comm = *static_cast<const MPI_Comm*>(communicator);
  remove_given_up(path);
  COHORT_CHECK(MPI_Barrier(comm) == MPI_SUCCESS, "{}: MPI failed in a barrier", path);  // none removes what another creates
  check_creatable(path, comm);
  const Handle access = make_file_access_list(options);
  const Hints hints(options);
  COHORT_CHECK(H5Pset_fapl_mpio(access.id(), comm, hints.info()) >= 0, "{}: HDF5 cannot use MPI-IO: {}", path, take_reason());
  const Handle creation = make_creation_list(H5P_FILE_CREATE);
  Handle file(Handle::Kind::file, H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()));
  if (file.id() < 0) fail(ExitCode::io, "{}: cannot be created: {}", path, take_reason());
  return File(std::move(file), std::make_shared<const Origin>(make_origin(path, code, true)), "/");
}

// One selection of the union of the range's boxes, so that it is one collective call whatever the range is. Collective for HDF5,
// while each rank hands its piece to MPI-IO by itself: the pieces are large and contiguous in the file, so that MPI-IO would gain
// nothing by exchanging them between ranks first (two-phase I/O: Thakur, Gropp, Lusk, "Data Sieving and Collective I/O in ROMIO",
// 1999). And Open MPI's exchange hangs when one rank's write fails: the others wait for that rank.
void Dataset::write_round(Count begin, Count element_count, const void* data) {
  const Turn turn;
  const Handle memory_space = make_space(std::array<Count, 1>{std::max<Count>(element_count, 1)});
  const Handle file_space(Handle::Kind::dataspace, H5Dget_space(id()));
  bool ok = file_space.id() >= 0;
  if (element_count == 0) {
    ok = ok && H5Sselect_none(memory_space.id()) >= 0 && H5Sselect_none(file_space.id()) >= 0;
  } else if (!shape_.empty()) {
    H5S_seloper_t operation = H5S_SELECT_SET;
    for (const Box& box : boxes_of_range(shape_, begin, element_count)) {
      const std::vector<hsize_t> first(box.start.begin(), box.start.end());
      const std::vector<hsize_t> size(box.count.begin(), box.count.end());
      ok = ok && H5Sselect_hyperslab(file_space.id(), operation, first.data(), nullptr, size.data(), nullptr) >= 0;
      operation = H5S_SELECT_OR;
    }
  }
  const Handle transfer = make_property_list(H5P_DATASET_XFER);
  ok = ok && H5Pset_dxpl_mpio(transfer.id(), H5FD_MPIO_COLLECTIVE) >= 0 &&
       H5Pset_dxpl_mpio_collective_opt(transfer.id(), H5FD_MPIO_INDIVIDUAL_IO) >= 0;
  if (!ok) fail_here("cannot select a range");
  const Handle type = make_type(element_);
  if (H5Dwrite(id(), type.id(), memory_space.id(), file_space.id(), transfer.id(), data) < 0) {
    fail_here("cannot be written (MPI-IO may not say why: check free space, quota and file size limits)");
  }
}

void Dataset::write_range_collectively(Count begin, Count element_count, const void* data, Element element, Count rounds) {
  COHORT_CHECK(origin_->parallel, "{}: {}: a collective write to a serial file", path(), name_);
  check_range(begin, element_count, element);
  COHORT_CHECK(!virtual_, "{}: {}: a virtual dataset is written through the files that it is put together from", path(), name_);
  const Count fewest = collective_rounds(element_count, element);
  COHORT_CHECK(rounds >= fewest, "{}: {}: {} elements in {} rounds: {} are needed", path(), name_, element_count, rounds, fewest);
  if (elements() == 0) return;  // on all ranks; HDF5 fails on a dataset without storage
  const Count piece = rounds == 0 ? 0 : (element_count + rounds - 1) / rounds;
  const std::byte nothing{0};  // HDF5 refuses a null pointer even where it has nothing to write
  std::optional<Error> failure;
  for (Count round = 0; round < rounds; ++round) {
    const Count first = std::min(round * piece, element_count);
    const Count size = failure ? 0 : std::min(piece, element_count - first);
    try {
      write_round(begin + first, size, size == 0 ? &nothing : static_cast<const std::byte*>(data) + first * size_of(element));
    } catch (const Error& error) {
      if (!failure) failure = error;  // the other ranks wait for this one in the next round
    }
  }
  if (failure) throw *failure;
}

}  // namespace cohort::hdf5
