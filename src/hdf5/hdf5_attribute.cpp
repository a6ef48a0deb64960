#include <array>

#include "hdf5/hdf5_internal.hpp"

namespace cohort::hdf5 {
namespace {

constexpr std::size_t kLargestStringAttribute = 60000;  // bytes; see the header

}  // namespace

Handle Object::make_attribute(const std::string& name, std::int64_t type) {
  if (has_attribute(name) && H5Adelete(id(), name.c_str()) < 0) fail_here(fmt::format("cannot replace the attribute '{}'", name));
  const Handle space(Handle::Kind::dataspace, H5Screate(H5S_SCALAR));
  if (space.id() < 0) fail_here("cannot make a scalar");
  Handle attribute(Handle::Kind::attribute, H5Acreate2(id(), name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT));
  if (attribute.id() < 0) fail_here(fmt::format("cannot create the attribute '{}'", name));
  return attribute;
}

void Object::set_attribute(const std::string& name, std::int64_t value) {
  const Handle attribute = make_attribute(name, H5T_STD_I64LE);
  if (H5Awrite(attribute.id(), H5T_NATIVE_INT64, &value) < 0) fail_here(fmt::format("cannot write the attribute '{}'", name));
}

void Object::set_attribute(const std::string& name, double value) {
  const Handle attribute = make_attribute(name, H5T_IEEE_F64LE);
  if (H5Awrite(attribute.id(), H5T_NATIVE_DOUBLE, &value) < 0) fail_here(fmt::format("cannot write the attribute '{}'", name));
}

void Object::set_attribute(const std::string& name, const std::string& value) {
  COHORT_CHECK(value.size() <= kLargestStringAttribute, "{}: the attribute '{}' has {} bytes, more than {}", path(), name,
               value.size(), kLargestStringAttribute);
  const Handle type(Handle::Kind::datatype, H5Tcopy(H5T_C_S1));
  if (type.id() < 0 || H5Tset_size(type.id(), value.empty() ? 1 : value.size()) < 0 ||
      H5Tset_strpad(type.id(), H5T_STR_NULLPAD) < 0 || H5Tset_cset(type.id(), H5T_CSET_UTF8) < 0) {
    fail_here("cannot make a string type");
  }
  const Handle attribute = make_attribute(name, type.id());
  if (H5Awrite(attribute.id(), type.id(), value.c_str()) < 0) fail_here(fmt::format("cannot write the attribute '{}'", name));
}

bool Object::has_attribute(const std::string& name) const {
  const htri_t found = H5Aexists(id(), name.c_str());
  if (found < 0) fail_here(fmt::format("cannot look up the attribute '{}'", name));
  return found > 0;
}

Handle Object::open_attribute(const std::string& name, std::span<const int> classes, const char* wanted) const {
  if (!has_attribute(name)) throw Error(origin_->code, fmt::format("{}: {}: the attribute '{}' is missing", path(), name_, name));
  Handle attribute(Handle::Kind::attribute, H5Aopen(id(), name.c_str(), H5P_DEFAULT));
  if (attribute.id() < 0) fail_here(fmt::format("cannot open the attribute '{}'", name));
  const Handle space(Handle::Kind::dataspace, H5Aget_space(attribute.id()));
  const Handle type(Handle::Kind::datatype, H5Aget_type(attribute.id()));
  if (space.id() < 0 || type.id() < 0) fail_here(fmt::format("cannot read the attribute '{}'", name));
  bool fits = H5Sget_simple_extent_npoints(space.id()) == 1;
  bool known = false;
  for (const int candidate : classes) known = known || H5Tget_class(type.id()) == candidate;
  fits = fits && known;
  if (!fits) throw Error(origin_->code, fmt::format("{}: {}: the attribute '{}' is not {}", path(), name_, name, wanted));
  return attribute;
}

std::int64_t Object::int_attribute(const std::string& name) const {
  const Handle attribute = open_attribute(name, std::array<int, 1>{H5T_INTEGER}, "an integer");
  std::int64_t value = 0;
  if (H5Aread(attribute.id(), H5T_NATIVE_INT64, &value) < 0) fail_here(fmt::format("cannot read the attribute '{}'", name));
  return value;
}

double Object::double_attribute(const std::string& name) const {
  const Handle attribute = open_attribute(name, std::array<int, 2>{H5T_FLOAT, H5T_INTEGER}, "a number");
  double value = 0;
  if (H5Aread(attribute.id(), H5T_NATIVE_DOUBLE, &value) < 0) fail_here(fmt::format("cannot read the attribute '{}'", name));
  return value;
}

std::string Object::string_attribute(const std::string& name) const {
  const Handle attribute = open_attribute(name, std::array<int, 1>{H5T_STRING}, "a string");
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
  if (length > kLargestStringAttribute) fail_here(fmt::format("the attribute '{}' claims {} bytes", name, length));
  std::string value(length, '\0');
  if (H5Aread(attribute.id(), type.id(), value.data()) < 0) fail_here(fmt::format("cannot read the attribute '{}'", name));
  value.erase(value.find_last_not_of('\0') + 1);
  return value;
}

}  // namespace cohort::hdf5
