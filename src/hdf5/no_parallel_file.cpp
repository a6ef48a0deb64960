// An HDF5 that was built without MPI: there are no parallel files.
#include "hdf5/hdf5_internal.hpp"

namespace cohort::hdf5 {

bool is_parallel(hid_t) { return false; }

std::string flush_file(hid_t file) { return H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0 ? "" : take_reason(); }

bool File::has_parallel() { return false; }

File File::create_parallel(const std::string& path, const void*, ExitCode, const FileOptions&) {
  fail(ExitCode::config,
       "{}: the ranks were to write one file together, and this build's HDF5 has no MPI: build with a parallel HDF5 (Debian: "
       "libhdf5-openmpi-dev), or let one rank write",
       path);
}

void Dataset::write_range_collectively(Count, Count, const void*, Element, Count) {
  COHORT_CHECK(origin_->parallel, "{}: {}: a collective write to a serial file", path(), name_);
}

}  // namespace cohort::hdf5
