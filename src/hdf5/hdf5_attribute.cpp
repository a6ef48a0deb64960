#include <array>

#include "hdf5/hdf5_internal.hpp"

namespace cohort::hdf5 {
namespace {

constexpr std::size_t kLargestAttribute = 60000;  // bytes; see the header

}  // namespace

void Object::write_attribute(const std::string& name, std::int64_t type, std::int64_t space, const void* value) {
  if (has_attribute(name) && H5Adelete(id(), name.c_str()) < 0) fail_here(fmt::format("cannot replace the attribute '{}'", name));
  const Handle attribute(Handle::Kind::attribute, H5Acreate2(id(), name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT));
  if (attribute.id() < 0) fail_here(fmt::format("cannot create the attribute '{}'", name));
  if (H5Awrite(attribute.id(), type, value) < 0) fail_here(fmt::format("cannot write the attribute '{}'", name));
}

void Object::set_attribute(const std::string& name, std::int64_t value) {
  const Turn turn;
  write_attribute(name, H5T_STD_I64LE, make_space({}).id(), &value);
}

void Object::set_attribute(const std::string& name, double value) {
  const Turn turn;
  write_attribute(name, H5T_IEEE_F64LE, make_space({}).id(), &value);
}

void Object::set_attribute(const std::string& name, std::span<const Count> values) {
  const Turn turn;
  COHORT_CHECK(values.size_bytes() <= kLargestAttribute, "{}: the attribute '{}' has {} bytes, more than {}", path(), name,
               values.size_bytes(), kLargestAttribute);
  const Handle space = make_space(std::array<Count, 1>{static_cast<Count>(values.size())});
  const Count none = 0;  // HDF5 refuses a null pointer even where it has nothing to write
  write_attribute(name, H5T_STD_I64LE, space.id(), values.empty() ? &none : values.data());
}

void Object::set_attribute(const std::string& name, const std::string& value) {
  const Turn turn;
  COHORT_CHECK(value.size() <= kLargestAttribute, "{}: the attribute '{}' has {} bytes, more than {}", path(), name, value.size(),
               kLargestAttribute);
  const Handle type(Handle::Kind::datatype, H5Tcopy(H5T_C_S1));
  if (type.id() < 0 || H5Tset_size(type.id(), value.empty() ? 1 : value.size()) < 0 ||
      H5Tset_strpad(type.id(), H5T_STR_NULLPAD) < 0 || H5Tset_cset(type.id(), H5T_CSET_UTF8) < 0) {
    fail_here("cannot make a string type");
  }
  write_attribute(name, type.id(), make_space({}).id(), value.c_str());
}

bool Object::has_attribute(const std::string& name) const {
  const Turn turn;
  const htri_t found = H5Aexists(id(), name.c_str());
  if (found < 0) fail_here(fmt::format("cannot look up the attribute '{}'", name));
  return found > 0;
}

Handle Object::open_attribute(const std::string& name, std::span<const int> classes, int dims, const char* wanted) const {
  if (!has_attribute(name)) throw Error(origin_->code, fmt::format("{}: {}: the attribute '{}' is missing", path(), name_, name));
  Handle attribute(Handle::Kind::attribute, H5Aopen(id(), name.c_str(), H5P_DEFAULT));
  if (attribute.id() < 0) fail_here(fmt::format("cannot open the attribute '{}'", name));
  const Handle space(Handle::Kind::dataspace, H5Aget_space(attribute.id()));
  const Handle type(Handle::Kind::datatype, H5Aget_type(attribute.id()));
  if (space.id() < 0 || type.id() < 0) fail_here(fmt::format("cannot read the attribute '{}'", name));
  // An array with one element passes for a scalar.
  bool fits = dims == 0 ? H5Sget_simple_extent_npoints(space.id()) == 1 : H5Sget_simple_extent_ndims(space.id()) == dims;
  bool known = false;
  for (const int candidate : classes) known = known || H5Tget_class(type.id()) == candidate;
  fits = fits && known;
  if (!fits) throw Error(origin_->code, fmt::format("{}: {}: the attribute '{}' is not {}", path(), name_, name, wanted));
  return attribute;
}

std::int64_t Object::int_attribute(const std::string& name) const {
  const Turn turn;
  const Handle attribute = open_attribute(name, std::array<int, 1>{H5T_INTEGER}, 0, "an integer");
  std::int64_t value = 0;
  if (H5Aread(attribute.id(), H5T_NATIVE_INT64, &value) < 0) fail_here(fmt::format("cannot read the attribute '{}'", name));
  return value;
}

double Object::double_attribute(const std::string& name) const {
  const Turn turn;
  const Handle attribute = open_attribute(name, std::array<int, 2>{H5T_FLOAT, H5T_INTEGER}, 0, "a number");
  double value = 0;
  if (H5Aread(attribute.id(), H5T_NATIVE_DOUBLE, &value) < 0) fail_here(fmt::format("cannot read the attribute '{}'", name));
  return value;
}

std::string Object::string_attribute(const std::string& name) const {
  const Turn turn;
  const Handle attribute = open_attribute(name, std::array<int, 1>{H5T_STRING}, 0, "a string");
  const Handle type(Handle::Kind::datatype, H5Aget_type(attribute.id()));
  if (H5Tis_variable_str(type.id()) > 0) {  // not ours, but what h5py writes by default
    char* text = nullptr;
    if (H5Aread(attribute.id(), type.id(), static_cast<void*>(&text)) < 0)
      fail_here(fmt::format("cannot read the attribute '{}'", name));
    const std::string value = text == nullptr ? "" : text;
    if (text != nullptr && H5free_memory(text) < 0) fail_here(fmt::format("cannot read the attribute '{}'", name));
    return value;
  }
  const std::size_t length = H5Tget_size(type.id());
  if (length > kLargestAttribute) fail_here(fmt::format("the attribute '{}' claims {} bytes", name, length));
  std::string value(length, '\0');
  if (H5Aread(attribute.id(), type.id(), value.data()) < 0) fail_here(fmt::format("cannot read the attribute '{}'", name));
  value.erase(value.find_last_not_of('\0') + 1);
  return value;
}

std::vector<Count> Object::counts_attribute(const std::string& name) const {
  const Turn turn;
  const char* const wanted = "an array of integers with one dim";
  const Handle attribute = open_attribute(name, std::array<int, 1>{H5T_INTEGER}, 1, wanted);
  const Handle space(Handle::Kind::dataspace, H5Aget_space(attribute.id()));
  const hssize_t size = space.id() < 0 ? -1 : H5Sget_simple_extent_npoints(space.id());
  if (size < 0) fail_here(fmt::format("cannot read the attribute '{}'", name));
  // A damaged header can claim any size.
  if (size > static_cast<hssize_t>(kLargestAttribute / sizeof(Count))) {
    throw Error(origin_->code, fmt::format("{}: {}: the attribute '{}' claims {} elements", path(), name_, name, size));
  }
  std::vector<Count> values(static_cast<std::size_t>(size));
  if (size > 0 && H5Aread(attribute.id(), H5T_NATIVE_INT64, values.data()) < 0) {
    fail_here(fmt::format("cannot read the attribute '{}'", name));
  }
  return values;
}

}  // namespace cohort::hdf5
