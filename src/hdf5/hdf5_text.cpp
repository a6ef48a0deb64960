#include "hdf5/hdf5_internal.hpp"

namespace cohort::hdf5 {
namespace {

Handle fixed_string_type(std::size_t length) {
  Handle type(Handle::Kind::datatype, H5Tcopy(H5T_C_S1));
  const bool ok = type.id() >= 0 && H5Tset_size(type.id(), length > 0 ? length : 1) >= 0 &&
                  H5Tset_strpad(type.id(), H5T_STR_NULLPAD) >= 0 && H5Tset_cset(type.id(), H5T_CSET_UTF8) >= 0;
  COHORT_CHECK(ok, "HDF5 cannot make a string type: {}", take_reason());
  return type;
}

}  // namespace

void Group::write_text(const std::string& name, const std::string& text) {
  const Turn turn;
  const Handle type = fixed_string_type(text.size());
  const Handle dataset = make_dataset(name, type.id(), make_space({}).id(), make_creation_list(H5P_DATASET_CREATE).id());
  if (H5Dwrite(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.c_str()) < 0) {
    fail_here(fmt::format("cannot write the text '{}'", name));
  }
}

std::string Group::read_text(const std::string& name) const {
  const Turn turn;
  if (!has_dataset(name)) throw Error(origin_->code, fmt::format("{}: there is no text '{}'", path(), full_name(name)));
  const Handle dataset(Handle::Kind::dataset, H5Dopen2(id(), name.c_str(), H5P_DEFAULT));
  const Handle type(Handle::Kind::datatype, dataset.id() < 0 ? dataset.id() : H5Dget_type(dataset.id()));
  const Handle space(Handle::Kind::dataspace, dataset.id() < 0 ? dataset.id() : H5Dget_space(dataset.id()));
  if (type.id() < 0 || space.id() < 0) fail_here(fmt::format("cannot open the text '{}'", name));
  if (H5Tget_class(type.id()) != H5T_STRING || H5Tis_variable_str(type.id()) != 0 ||
      H5Sget_simple_extent_npoints(space.id()) != 1) {
    throw Error(origin_->code, fmt::format("{}: '{}' is not a text (one string of fixed length)", path(), full_name(name)));
  }
  // The type's size is bounded by what is stored: a damaged header must not make us ask for terabytes.
  const std::size_t length = H5Tget_size(type.id());
  if (length > H5Dget_storage_size(dataset.id())) {
    throw Error(origin_->code, fmt::format("{}: '{}' claims {} bytes and stores fewer", path(), full_name(name), length));
  }
  std::string text(length, '\0');
  if (H5Dread(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) < 0) {
    fail_here(fmt::format("cannot read the text '{}'", name));
  }
  text.erase(text.find_last_not_of('\0') + 1);
  return text;
}

}  // namespace cohort::hdf5
