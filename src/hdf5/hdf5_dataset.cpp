#include <algorithm>
#include <limits>

#include "base/box.hpp"
#include "hdf5/hdf5_internal.hpp"

namespace cohort::hdf5 {
namespace {

/// Whole rows of the slowest dims, as many as fit in `bytes`: [1, ..., 1, rows, all, ..., all], as a flat order has them.
std::vector<hsize_t> chunk_shape(std::span<const Count> shape, Bytes element_bytes, Bytes bytes) {
  std::vector<hsize_t> chunk(shape.begin(), shape.end());
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    const Bytes row = product_of(shape.subspan(dim + 1)) * element_bytes;
    chunk[dim] = static_cast<hsize_t>(std::clamp<Count>(bytes / row, 1, shape[dim]));
    if (bytes >= row) break;
  }
  return chunk;
}

void check_layout(const DatasetLayout& layout, const std::string& where, bool parallel) {
  if (layout.chunk < 0 || layout.chunk > kLargestChunk) {
    fail(ExitCode::config, "{}: chunks of {} bytes: must be 0 (not chunked) to {}", where, layout.chunk, kLargestChunk);
  }
  if (layout.compression < 0 || layout.compression > 9) {
    fail(ExitCode::config, "{}: compression {}: must be 0 (none) to 9 (smallest, slowest)", where, layout.compression);
  }
  if (layout.compression == 0) return;
  if (layout.chunk == 0)
    fail(ExitCode::config, "{}: compression {} needs chunks: set a chunk size, such as 1 MiB", where, layout.compression);
  if (parallel) {
    fail(ExitCode::config, "{}: compression {} in a parallel file: set it to 0, or write the file from one rank", where,
         layout.compression);
  }
  if (H5Zfilter_avail(H5Z_FILTER_DEFLATE) <= 0) {
    fail(ExitCode::config, "{}: compression {}: this HDF5 was built without gzip: set it to 0", where, layout.compression);
  }
}

}  // namespace

Handle Group::make_dataset(const std::string& name, std::int64_t type, std::int64_t space, std::int64_t creation) {
  create_parents(name);
  Handle dataset(Handle::Kind::dataset,
                 H5Dcreate2(id(), name.c_str(), type, space, H5P_DEFAULT, creation, dataset_access_list()));
  if (dataset.id() < 0) fail_here(fmt::format("cannot create the dataset '{}'", name));
  return dataset;
}

Dataset Group::create_dataset(const std::string& name, Element element, std::span<const Count> shape,
                              const DatasetLayout& layout) {
  const Turn turn;
  for (const Count size : shape) COHORT_CHECK(size >= 0, "{}: the dataset '{}' has a negative size {}", path(), name, size);
  check_layout(layout, fmt::format("{}: {}", path(), full_name(name)), origin_->parallel);
  const Handle creation = make_creation_list(H5P_DATASET_CREATE);
  if (layout.chunk > 0 && !shape.empty() && product_of(shape) > 0) {
    const std::vector<hsize_t> chunk = chunk_shape(shape, size_of(element), layout.chunk);
    bool ok = H5Pset_chunk(creation.id(), static_cast<int>(chunk.size()), chunk.data()) >= 0;
    if (layout.compression > 0) {
      ok = ok && H5Pset_shuffle(creation.id()) >= 0 &&
           H5Pset_deflate(creation.id(), static_cast<unsigned>(layout.compression)) >= 0;
    }
    if (!ok) fail_here(fmt::format("cannot set the chunks of the dataset '{}'", name));
  }
  Handle dataset = make_dataset(name, make_type(element).id(), make_space(shape).id(), creation.id());
  return Dataset(std::move(dataset), origin_, full_name(name));
}

Dataset::Dataset(Handle handle, std::shared_ptr<const Origin> origin, std::string name)
    : Object(std::move(handle), std::move(origin), std::move(name)) {
  read_shape();
  read_layout();
  const Handle type(Handle::Kind::datatype, H5Dget_type(id()));
  if (type.id() < 0) fail_here("cannot read its element type");
  if (!find_element(type.id(), element_)) {
    throw Error(origin_->code, fmt::format("{}: {}: its element type is none of those that Cohort writes", path(), this->name()));
  }
}

void Dataset::read_shape() {
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
      throw Error(origin_->code, fmt::format("{}: {}: its shape has an impossible size {}", path(), name_, size));
    }
    shape_.push_back(static_cast<Count>(size));
  }
}

void Dataset::read_layout() {
  const Handle creation(Handle::Kind::property_list, H5Dget_create_plist(id()));
  const H5D_layout_t layout = creation.id() < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(creation.id());
  if (layout == H5D_LAYOUT_ERROR) fail_here("cannot read its layout");
  virtual_ = layout == H5D_VIRTUAL;
  if (layout != H5D_CHUNKED) return;
  std::vector<hsize_t> chunk(shape_.size());
  if (H5Pget_chunk(creation.id(), static_cast<int>(chunk.size()), chunk.data()) < 0)
    fail_here("cannot read the size of its chunks");
  chunk_elements_ = 1;
  for (const hsize_t size : chunk) {  // each below 2^32, and all together too, says HDF5's format
    if (__builtin_mul_overflow(chunk_elements_, static_cast<Count>(size), &chunk_elements_))
      fail_here("its chunks are too large");
  }
}

Count Dataset::elements() const { return product_of(shape_); }

void Dataset::check_stored() const {
  constexpr Bytes kBestPacking = 1032;  // gzip's, of zeros: 258 bytes in 2 bits
  if (virtual_) return;
  const Turn turn;
  const Bytes stored = static_cast<Bytes>(H5Dget_storage_size(id()));
  if (elements() / kBestPacking * size_of(element_) <= stored && (elements() == 0 || stored > 0)) return;
  throw Error(origin_->code,
              fmt::format("{}: {}: claims {} elements and stores {} bytes: damaged", path(), name_, elements(), stored));
}

std::optional<Bytes> Dataset::offset() const {
  const Turn turn;
  const haddr_t address = H5Dget_offset(id());
  H5Eclear2(H5E_DEFAULT);  // that there is none is no error here
  return address == HADDR_UNDEF ? std::nullopt : std::optional(static_cast<Bytes>(address));
}

void Dataset::check_element(Element element) const {
  if (element == element_) return;
  throw Error(origin_->code,
              fmt::format("{}: {}: holds {} where {} is wanted", path(), name_, name_of(element_), name_of(element)));
}

void Dataset::check_range(Count begin, Count element_count, Element element) const {
  check_element(element);
  COHORT_CHECK(begin >= 0 && element_count >= 0 && begin <= elements() && element_count <= elements() - begin,
               "{}: {}: the range of {} elements from {} is outside of the shape {}", path(), name_, element_count, begin,
               text_of_sizes(shape_));
}

// HDF5's read and write differ only in the constness of the buffer.
void Dataset::transfer_one_box(bool writing, std::span<const Count> start, std::span<const Count> count, void* data) const {
  const Handle memory_space = make_space(count);
  const Handle file_space(Handle::Kind::dataspace, H5Dget_space(id()));
  bool ok = file_space.id() >= 0;
  if (!shape_.empty()) {
    const std::vector<hsize_t> first(start.begin(), start.end());
    const std::vector<hsize_t> size(count.begin(), count.end());
    ok = ok && H5Sselect_hyperslab(file_space.id(), H5S_SELECT_SET, first.data(), nullptr, size.data(), nullptr) >= 0;
  }
  if (!ok) fail_here("cannot select a block");
  const Handle type = make_type(element_);
  const herr_t status = writing ? H5Dwrite(id(), type.id(), memory_space.id(), file_space.id(), H5P_DEFAULT, data)
                                : H5Dread(id(), type.id(), memory_space.id(), file_space.id(), H5P_DEFAULT, data);
  if (status < 0) fail_here(writing ? "cannot be written" : "cannot be read");
}

// The elements [begin, begin + elements) of the block {start, count}, in slabs that end at multiples of the slab's size.
void Dataset::transfer_boxes(bool writing, std::span<const Count> start, std::span<const Count> count, Count begin,
                             Count element_count, void* data) const {
  COHORT_CHECK(!writing || !virtual_, "{}: {}: a virtual dataset is written through the files that it is put together from",
               path(), name_);
  if (element_count == 0) return;
  if (virtual_ && !sources_checked_) check_sources();
  Count slab = kSlabBytes / size_of(element_);
  // Whole chunks: a chunk that two slabs share may have to be unpacked for each.
  if (chunk_elements_ > 0) slab = std::max<Count>(1, slab / chunk_elements_) * chunk_elements_;
  auto* bytes = static_cast<std::byte*>(data);
  for (Count at = begin; at < begin + element_count;) {
    const Count next = std::min((at / slab + 1) * slab, begin + element_count);
    const Turn turn;
    for (Box& box : boxes_of_range(count, at, next - at)) {
      for (std::size_t dim = 0; dim < start.size(); ++dim) box.start[dim] += start[dim];
      transfer_one_box(writing, box.start, box.count, bytes);
      bytes += product_of(box.count) * size_of(element_);
    }
    at = next;
  }
}

void Dataset::transfer_range(bool writing, Count begin, Count element_count, void* data, Element element) const {
  check_range(begin, element_count, element);
  transfer_boxes(writing, std::vector<Count>(shape_.size(), 0), shape_, begin, element_count, data);
}

void Dataset::write_range(Count begin, Count element_count, const void* data, Element element) {
  transfer_range(true, begin, element_count, const_cast<void*>(data), element);
}

void Dataset::read_range(Count begin, Count element_count, void* data, Element element) const {
  transfer_range(false, begin, element_count, data, element);
}

void Dataset::write_raw(const void* data, Count element_count, Element element) {
  COHORT_CHECK(element_count == elements(), "{}: {}: {} elements written to a dataset of {}", path(), name_, element_count,
               elements());
  transfer_range(true, 0, element_count, const_cast<void*>(data), element);
}

void Dataset::read_raw(void* data, Count element_count, Element element) const {
  COHORT_CHECK(element_count == elements(), "{}: {}: {} elements read from a dataset of {}", path(), name_, element_count,
               elements());
  transfer_range(false, 0, element_count, data, element);
}

void Dataset::transfer_block(bool writing, std::span<const Count> start, std::span<const Count> count, void* data,
                             Element element) const {
  check_element(element);
  COHORT_CHECK(start.size() == shape_.size() && count.size() == shape_.size() && !shape_.empty(),
               "{}: {}: a block of {} dims in a dataset of {}", path(), name_, start.size(), shape_.size());
  for (std::size_t dim = 0; dim < shape_.size(); ++dim) {
    COHORT_CHECK(start[dim] >= 0 && count[dim] >= 0 && start[dim] <= shape_[dim] && count[dim] <= shape_[dim] - start[dim],
                 "{}: {}: the block at {} of size {} is outside of the shape {}", path(), name_, text_of_sizes(start),
                 text_of_sizes(count), text_of_sizes(shape_));
  }
  transfer_boxes(writing, start, count, 0, product_of(count), data);
}

void Dataset::write_block(std::span<const Count> start, std::span<const Count> count, const void* data, Element element) {
  transfer_block(true, start, count, const_cast<void*>(data), element);
}

void Dataset::read_block(std::span<const Count> start, std::span<const Count> count, void* data, Element element) const {
  transfer_block(false, start, count, data, element);
}

Count Dataset::collective_rounds(Count elements, Element element) {
  const Count most = kRoundBytes / size_of(element);
  return (elements + most - 1) / most;
}

}  // namespace cohort::hdf5
