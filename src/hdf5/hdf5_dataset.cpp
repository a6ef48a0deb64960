#include <limits>

#include "hdf5/hdf5_internal.hpp"

namespace cohort::hdf5 {
namespace {

std::string text_of(std::span<const Count> sizes) {
  std::string text;
  for (const Count size : sizes) text += fmt::format("{}{}", text.empty() ? "" : ", ", size);
  return "[" + text + "]";
}

Handle fixed_string_type(std::size_t length) {
  Handle type(Handle::Kind::datatype, H5Tcopy(H5T_C_S1));
  const bool ok = type.id() >= 0 && H5Tset_size(type.id(), length > 0 ? length : 1) >= 0 &&
                  H5Tset_strpad(type.id(), H5T_STR_NULLPAD) >= 0 && H5Tset_cset(type.id(), H5T_CSET_UTF8) >= 0;
  COHORT_CHECK(ok, "HDF5 cannot make a string type: {}", take_reason());
  return type;
}

}  // namespace

Dataset::Dataset(Handle handle, std::shared_ptr<const Origin> origin, std::string name)
    : Object(std::move(handle), std::move(origin), std::move(name)) {
  const Handle space(Handle::Kind::dataspace, H5Dget_space(id()));
  const int rank = space.id() < 0 ? -1 : H5Sget_simple_extent_ndims(space.id());
  if (rank < 0) fail_here("cannot read its shape");
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  if (rank > 0 && H5Sget_simple_extent_dims(space.id(), sizes.data(), nullptr) < 0) fail_here("cannot read its shape");
  Count elements = 1;
  for (const hsize_t size : sizes) {
    // A damaged header can claim any size: the product must fit, or sizes computed from it would wrap.
    if (size > static_cast<hsize_t>(std::numeric_limits<Count>::max() / 8) ||
        __builtin_mul_overflow(elements, static_cast<Count>(size), &elements)) {
      throw Error(origin_->code, fmt::format("{}: {}: its shape has an impossible size {}", path(), this->name(), size));
    }
    shape_.push_back(static_cast<Count>(size));
  }
  const Handle type(Handle::Kind::datatype, H5Dget_type(id()));
  if (type.id() < 0) fail_here("cannot read its element type");
  if (!find_element(type.id(), element_)) {
    throw Error(origin_->code, fmt::format("{}: {}: its element type is none of those that Cohort writes", path(), this->name()));
  }
}

Count Dataset::elements() const {
  Count product = 1;
  for (const Count size : shape_) product *= size;
  return product;
}

void Dataset::check_element(Element element) const {
  if (element == element_) return;
  throw Error(origin_->code,
              fmt::format("{}: {}: holds {} where {} is wanted", path(), name_, name_of(element_), name_of(element)));
}

// HDF5's read and write differ only in the constness of the buffer.
void Dataset::transfer(bool writing, std::int64_t memory_space, std::int64_t file_space, void* data) const {
  const Handle type = make_type(element_);
  const herr_t status = writing ? H5Dwrite(id(), type.id(), memory_space, file_space, H5P_DEFAULT, data)
                                : H5Dread(id(), type.id(), memory_space, file_space, H5P_DEFAULT, data);
  if (status < 0) fail_here(writing ? "cannot be written" : "cannot be read");
}

void Dataset::write_raw(const void* data, Count element_count, Element element) {
  COHORT_CHECK(element_count == elements(), "{}: {}: {} elements written to a dataset of {}", path(), name_, element_count,
               elements());
  check_element(element);
  if (element_count > 0) transfer(true, H5S_ALL, H5S_ALL, const_cast<void*>(data));
}

void Dataset::read_raw(void* data, Count element_count, Element element) const {
  COHORT_CHECK(element_count == elements(), "{}: {}: {} elements read from a dataset of {}", path(), name_, element_count,
               elements());
  check_element(element);
  if (element_count > 0) transfer(false, H5S_ALL, H5S_ALL, data);
}

void Dataset::transfer_block(bool writing, std::span<const Count> start, std::span<const Count> count, void* data,
                             Element element) const {
  check_element(element);
  COHORT_CHECK(start.size() == shape_.size() && count.size() == shape_.size() && !shape_.empty(),
               "{}: {}: a block of {} dims in a dataset of {}", path(), name_, start.size(), shape_.size());
  bool empty = false;
  for (std::size_t dim = 0; dim < shape_.size(); ++dim) {
    COHORT_CHECK(start[dim] >= 0 && count[dim] >= 0 && start[dim] <= shape_[dim] && count[dim] <= shape_[dim] - start[dim],
                 "{}: {}: the block at {} of size {} is outside of the shape {}", path(), name_, text_of(start), text_of(count),
                 text_of(shape_));
    empty = empty || count[dim] == 0;
  }
  if (empty) return;
  const std::vector<hsize_t> first(start.begin(), start.end());
  const std::vector<hsize_t> size(count.begin(), count.end());
  const Handle file_space(Handle::Kind::dataspace, H5Dget_space(id()));
  const Handle memory_space(Handle::Kind::dataspace, H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr));
  if (file_space.id() < 0 || memory_space.id() < 0 ||
      H5Sselect_hyperslab(file_space.id(), H5S_SELECT_SET, first.data(), nullptr, size.data(), nullptr) < 0) {
    fail_here("cannot select a block");
  }
  transfer(writing, memory_space.id(), file_space.id(), data);
}

void Dataset::write_block(std::span<const Count> start, std::span<const Count> count, const void* data, Element element) {
  transfer_block(true, start, count, const_cast<void*>(data), element);
}

void Dataset::read_block(std::span<const Count> start, std::span<const Count> count, void* data, Element element) const {
  transfer_block(false, start, count, data, element);
}

void Group::write_text(const std::string& name, const std::string& text) {
  const Handle space(Handle::Kind::dataspace, H5Screate(H5S_SCALAR));
  const Handle type = fixed_string_type(text.size());
  if (space.id() < 0) fail_here("cannot make a scalar");
  create_parents(name);
  const Handle creation = make_creation_list(H5P_DATASET_CREATE);
  const Handle dataset(Handle::Kind::dataset,
                       H5Dcreate2(id(), name.c_str(), type.id(), space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT));
  if (dataset.id() < 0 || H5Dwrite(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.c_str()) < 0) {
    fail_here(fmt::format("cannot write the text '{}'", name));
  }
}

std::string Group::read_text(const std::string& name) const {
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
