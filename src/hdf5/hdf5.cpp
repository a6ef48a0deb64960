#include "hdf5/hdf5.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "hdf5/hdf5_internal.hpp"

static_assert(sizeof(hid_t) == sizeof(std::int64_t), "HDF5 1.10 or newer: identifiers have 64 bits");
static_assert(std::endian::native == std::endian::little, "files are little-endian and read without conversion");

namespace cohort::hdf5 {
namespace {

// HDF5 is started before main, and never ended. Ending it would close once more the files that were given up (a full disk), and
// crash after the second failure: at exit, and in MPI_Finalize, where HDF5 hooks in only if it is started while MPI is up. There
// is nothing to end: files are closed by their handles.
[[maybe_unused]] const bool started_early = H5dont_atexit() >= 0 && H5open() >= 0;

// Of a failed call of the system HDF5 tells the time, with a line's end, the file's name over again, pointers and more. What and
// why are left: "file write failed: No space left on device".
std::string without_details(std::string_view text) {
  constexpr std::string_view kReason = "error message = '";
  const std::size_t what = text.find(": "), reason = text.rfind(kReason);
  if (what == std::string_view::npos || reason == std::string_view::npos) return std::string(text);
  const std::string_view why = text.substr(reason + kReason.size());
  return fmt::format("{}: {}", text.substr(0, what), why.substr(0, why.find('\'')));
}

herr_t collect(unsigned depth, const H5E_error2_t* entry, void* data) {
  auto& reasons = *static_cast<std::vector<std::string>*>(data);
  if (depth < 64 && entry->desc != nullptr) reasons.push_back(without_details(entry->desc));
  return 0;
}

// Whether a group has a link; less than 0 if HDF5 failed. H5Lexists fails instead of saying no when a group on the way is
// missing: what is not found at once is looked for prefix by prefix.
htri_t find_link(hid_t group, const std::string& name) {
  if (H5Lexists(group, name.c_str(), H5P_DEFAULT) > 0) return 1;
  const std::size_t first = name.find_first_not_of('/');  // a prefix of slashes alone is the root
  for (std::size_t slash = name.find('/', first);; slash = name.find('/', slash + 1)) {
    const htri_t found = H5Lexists(group, name.substr(0, slash).c_str(), H5P_DEFAULT);
    if (found <= 0 || slash == std::string::npos) return found;
  }
}

}  // namespace

Handle make_property_list(hid_t list_class) {
  Handle list(Handle::Kind::property_list, H5Pcreate(list_class));
  COHORT_CHECK(list.id() >= 0, "HDF5 cannot make a property list: {}", take_reason());
  return list;
}

Handle make_space(std::span<const Count> shape) {
  const std::vector<hsize_t> sizes(shape.begin(), shape.end());
  Handle space(Handle::Kind::dataspace,
               sizes.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr));
  COHORT_CHECK(space.id() >= 0, "HDF5 cannot make the shape {}: {}", text_of_sizes(shape), take_reason());
  return space;
}

hid_t dataset_access_list() {
  static const hid_t kept = [] {
    Handle list = make_property_list(H5P_DATASET_ACCESS);
    COHORT_CHECK(H5Pset_chunk_cache(list.id(), H5D_CHUNK_CACHE_NSLOTS_DEFAULT, kLargestChunk, H5D_CHUNK_CACHE_W0_DEFAULT) >= 0,
                 "HDF5 cannot set its chunk cache: {}", take_reason());
    return list.release();
  }();
  return kept;
}

Handle make_creation_list(hid_t list_class) {
  Handle list = make_property_list(list_class);
  COHORT_CHECK(H5Pset_obj_track_times(list.id(), false) >= 0, "HDF5 cannot leave out times: {}", take_reason());
  return list;
}

std::string text_of_sizes(std::span<const Count> sizes) { return fmt::format("[{}]", fmt::join(sizes, ", ")); }

std::string take_reason() {
  std::vector<std::string> reasons;  // innermost first
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect, &reasons);
  H5Eclear2(H5E_DEFAULT);
  if (reasons.empty()) return "no reason given by HDF5";
  return reasons.front() == reasons.back() ? reasons.front() : reasons.back() + ": " + reasons.front();
}

void silence() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    close();
    kind_ = other.kind_;
    id_ = other.id_;
    other.kind_ = Kind::none;
  }
  return *this;
}

bool Handle::close() noexcept {
  const Kind kind = id_ < 0 ? Kind::none : kind_;
  kind_ = Kind::none;
  if (kind == Kind::none) return true;  // needs no turn
  const Turn turn;
  switch (kind) {
    case Kind::none:
      return true;
    case Kind::file:
      if (!is_parallel(id_) && H5Fflush(id_, H5F_SCOPE_GLOBAL) >= 0) return H5Fclose(id_) >= 0;
      give_up(id_);
      return false;
    case Kind::group:
      return H5Gclose(id_) >= 0;
    case Kind::dataset:
      return H5Dclose(id_) >= 0;
    case Kind::dataspace:
      return H5Sclose(id_) >= 0;
    case Kind::datatype:
      return H5Tclose(id_) >= 0;
    case Kind::property_list:
      return H5Pclose(id_) >= 0;
    case Kind::attribute:
      return H5Aclose(id_) >= 0;
  }
  return false;
}

Object& Object::operator=(Object&& other) noexcept {
  if (this != &other) {
    close_handle();
    handle_ = std::move(other.handle_);
    origin_ = std::move(other.origin_);
    name_ = std::move(other.name_);
  }
  return *this;
}

void Object::close_handle() noexcept {
  const Turn turn;  // the reason is taken before another thread's calls
  if (!handle_.close()) origin_->lost = take_reason();
}

void Object::fail_here(const std::string& doing) const {
  throw Error(origin_->code, fmt::format("{}: {}: {}: {}", path(), name_, doing, take_reason()));
}

std::string Group::full_name(const std::string& name) const {
  if (name.starts_with('/')) return name;
  return name_ == "/" ? "/" + name : name_ + "/" + name;
}

// Not left to HDF5's own property for it, which would store the time in the groups it makes. The nearest comes first: mostly it
// is there, and then so are those above it.
void Group::create_parents(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string::npos) return;
  const std::string parent = name.substr(0, name.find_last_not_of('/', slash) + 1);
  if (parent.empty()) return;
  const htri_t found = find_link(id(), parent);
  if (found < 0) fail_here(fmt::format("cannot look up '{}'", parent));
  if (found == 0) create_group(parent);
}

Group Group::create_group(const std::string& name) {
  const Turn turn;
  create_parents(name);
  static const hid_t creation = make_creation_list(H5P_GROUP_CREATE).release();
  Handle group(Handle::Kind::group, H5Gcreate2(id(), name.c_str(), H5P_DEFAULT, creation, H5P_DEFAULT));
  if (group.id() < 0) fail_here(fmt::format("cannot create the group '{}'", name));
  return Group(std::move(group), origin_, full_name(name));
}

Group Group::open_group(const std::string& name) const {
  const Turn turn;
  if (!has_group(name)) throw Error(origin_->code, fmt::format("{}: there is no group '{}'", path(), full_name(name)));
  Handle group(Handle::Kind::group, H5Gopen2(id(), name.c_str(), H5P_DEFAULT));
  if (group.id() < 0) fail_here(fmt::format("cannot open the group '{}'", name));
  return Group(std::move(group), origin_, full_name(name));
}

Dataset Group::open_dataset(const std::string& name) const {
  const Turn turn;
  Handle dataset(Handle::Kind::dataset, H5Dopen2(id(), name.c_str(), dataset_access_list()));
  if (dataset.id() < 0) {
    const std::string reason = take_reason();  // before the next call
    if (!has_dataset(name)) throw Error(origin_->code, fmt::format("{}: there is no dataset '{}'", path(), full_name(name)));
    throw Error(origin_->code, fmt::format("{}: {}: cannot open the dataset '{}': {}", path(), name_, name, reason));
  }
  return Dataset(std::move(dataset), origin_, full_name(name));
}

bool Group::has(const std::string& name, Handle::Kind kind) const {
  const Turn turn;
  const htri_t found = find_link(id(), name);
  if (found < 0) fail_here(fmt::format("cannot look up '{}'", name));
  if (found == 0) return false;
  const hid_t object = H5Oopen(id(), name.c_str(), H5P_DEFAULT);
  if (object < 0) fail_here(fmt::format("cannot open '{}'", name));
  const H5I_type_t type = H5Iget_type(object);
  if (H5Oclose(object) < 0) fail_here(fmt::format("cannot close '{}'", name));
  return type == (kind == Handle::Kind::group ? H5I_GROUP : H5I_DATASET);
}

bool Group::has_group(const std::string& name) const { return has(name, Handle::Kind::group); }
bool Group::has_dataset(const std::string& name) const { return has(name, Handle::Kind::dataset); }

std::vector<std::string> Group::children() const {
  const Turn turn;
  H5G_info_t info;
  if (H5Gget_info(id(), &info) < 0) fail_here("cannot list");
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const ssize_t length = H5Lget_name_by_idx(id(), ".", H5_INDEX_NAME, H5_ITER_INC, i, nullptr, 0, H5P_DEFAULT);
    if (length < 0) fail_here("cannot list");
    std::string name(static_cast<std::size_t>(length) + 1, '\0');
    if (H5Lget_name_by_idx(id(), ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(), name.size(), H5P_DEFAULT) < 0)
      fail_here("cannot list");
    name.resize(static_cast<std::size_t>(length));
    names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace cohort::hdf5
