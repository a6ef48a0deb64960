#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#include "hdf5/hdf5_internal.hpp"

namespace cohort::hdf5 {
namespace {

void set_locking(const Handle& list, bool locking) {
#if H5_VERSION_GE(1, 10, 7)
  COHORT_CHECK(H5Pset_file_locking(list.id(), locking, true) >= 0, "HDF5 cannot set file locking: {}", take_reason());
#else
  (void)list, (void)locking;  // older ones always lock
#endif
}

// HDF5 reports a missing file and a directory with its own wording and the wrong blame; the C library knows better.
void check_readable(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) fail(ExitCode::io, "{}: cannot be opened: {}", path, std::strerror(errno));
  char byte = 0;
  const bool directory = std::fread(&byte, 1, 1, file) == 0 && std::ferror(file) != 0;
  std::fclose(file);
  if (directory) fail(ExitCode::io, "{}: cannot be read: {}", path, std::strerror(errno));
}

// HDF5 would say "unable to lock file, errno = 11", and when creating it would empty the file before it tries.
void check_unlocked(const std::string& path, int operation) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;  // whoever opens it next says why
  const bool locked = ::flock(file, operation | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(file);  // lets go of the lock
  if (locked) {
    fail(ExitCode::io,
         "{}: locked by another process, which reads or writes it: wait for that process or end it (`fuser -v FILE` names it); "
         "if none does, the file system's locks are stuck: turn file locking off",
         path);
  }
}

/// Names of the files that were given up and are open until the process ends.
std::set<std::string>& given_up_files() {
  static std::set<std::string>& names = *new std::set<std::string>;  // as long as the process, like those files
  return names;
}

}  // namespace

void give_up(hid_t file) {
  const ssize_t length = H5Fget_name(file, nullptr, 0);
  std::string name(static_cast<std::size_t>(std::max<ssize_t>(length, 0)) + 1, '\0');
  if (H5Fget_name(file, name.data(), name.size()) < 0) return;
  name.resize(name.size() - 1);
  given_up_files().insert(name);
}

void remove_given_up(const std::string& path) {
  std::error_code ignored;  // removed already; or creating it says why it cannot be
  if (given_up_files().erase(path) > 0) std::filesystem::remove(path, ignored);
}

void check_options(const std::string& path, const FileOptions& options) {
  if (options.alignment < 0 || options.stripe_count < 0 || options.stripe_size < 0) {
    fail(ExitCode::config, "{}: alignment {}, stripe_count {} and stripe_size {} must not be negative (0: left to the system)",
         path, options.alignment, options.stripe_count, options.stripe_size);
  }
}

Origin make_origin(const std::string& path, ExitCode code, bool parallel) {
  return {path, code, std::filesystem::absolute(path).parent_path().string(), parallel, ""};
}

Handle make_file_access_list(const FileOptions& options) {
  Handle list = make_property_list(H5P_FILE_ACCESS);
  const H5F_libver_t format = options.virtual_datasets ? H5F_LIBVER_V110 : H5F_LIBVER_V18;
  COHORT_CHECK(H5Pset_libver_bounds(list.id(), format, format) >= 0, "HDF5 cannot set its format: {}", take_reason());
  if (options.alignment > 1) {
    const auto alignment = static_cast<hsize_t>(options.alignment);
    COHORT_CHECK(H5Pset_alignment(list.id(), alignment, alignment) >= 0, "HDF5 cannot set the alignment {}: {}",
                 options.alignment, take_reason());
  }
  set_locking(list, options.locking);
  return list;
}

File File::create(const std::string& path, ExitCode code, const FileOptions& options) {
  const Turn turn;
  silence();
  check_options(path, options);
  if (options.locking) check_unlocked(path, LOCK_EX);
  remove_given_up(path);
  const Handle access = make_file_access_list(options);
  const Handle creation = make_creation_list(H5P_FILE_CREATE);
  Handle file(Handle::Kind::file, H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()));
  if (file.id() < 0) fail(ExitCode::io, "{}: cannot be created: {}", path, take_reason());
  return File(std::move(file), std::make_shared<const Origin>(make_origin(path, code, false)), "/");
}

File File::open(const std::string& path, ExitCode code, const FileOptions& options) {
  const Turn turn;
  silence();
  check_readable(path);
  if (options.locking) check_unlocked(path, LOCK_SH);
  if (H5Fis_hdf5(path.c_str()) == 0) throw Error(code, fmt::format("{}: not an HDF5 file (or its beginning is damaged)", path));
  const Handle access = make_property_list(H5P_FILE_ACCESS);
  set_locking(access, options.locking);
  Handle file(Handle::Kind::file, H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()));
  if (file.id() < 0) throw Error(code, fmt::format("{}: truncated or damaged HDF5 file: {}", path, take_reason()));
  return File(std::move(file), std::make_shared<const Origin>(make_origin(path, code, false)), "/");
}

int File::descriptor() const {
  const Turn turn;
  void* descriptor = nullptr;
  if (H5Fget_vfd_handle(id(), H5P_DEFAULT, &descriptor) < 0 || descriptor == nullptr) fail_here("has no descriptor");
  return *static_cast<int*>(descriptor);
}

void File::close() {
  const Turn turn;
  COHORT_CHECK(H5Fget_obj_count(id(), H5F_OBJ_ALL | H5F_OBJ_LOCAL) == 1, "{}: closed while groups or datasets of it are open",
               path());
  std::string reason = flush_file(id());
  const hid_t file = handle_.release();
  if (!reason.empty()) {
    give_up(file);
  } else if (H5Fclose(file) < 0) {
    reason = take_reason();
  }
  if (!reason.empty()) throw Error(origin_->code, fmt::format("{}: cannot be flushed and closed: {}", path(), reason));
  if (!origin_->lost.empty()) {
    throw Error(origin_->code,
                fmt::format("{}: data of a dataset could not be written when it was closed: {}", path(), origin_->lost));
  }
}

}  // namespace cohort::hdf5
