#include <algorithm>
#include <array>
#include <filesystem>

#include "hdf5/hdf5_internal.hpp"

namespace cohort::hdf5 {
namespace {

/// A selection of one box in an array.
Handle select(std::span<const Count> shape, const Box& box) {
  Handle space = make_space(shape);
  const std::vector<hsize_t> start(box.start.begin(), box.start.end());
  const std::vector<hsize_t> count(box.count.begin(), box.count.end());
  COHORT_CHECK(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) >= 0,
               "HDF5 cannot select the block at {} of size {}: {}", text_of_sizes(box.start), text_of_sizes(box.count),
               take_reason());
  return space;
}

void check_part(const VirtualPart& part, std::span<const Count> shape, const std::string& where) {
  COHORT_CHECK(std::ranges::equal(part.part.shape().vector(), shape), "{}: a part of the shape {} in {}", where,
               part.part.shape().str(), text_of_sizes(shape));
  COHORT_CHECK(part.flat || part.part.holds_whole_box(), "{}: {} of {} holds a piece of its box and must be flat", where,
               part.dataset, part.file);
  COHORT_CHECK(!part.file.empty() && part.file.find('%') == std::string::npos, "{}: the source '{}' has no name or a '%' in it",
               where, part.file);
}

// The bits of what stands where a source is missing: a quiet NaN; of integers the least, of unsigned ones the largest, since zero
// would pass for data.
std::uint64_t hole_of(Element element) {
  switch (element) {
    case Element::f16:
      return 0x7e00;
    case Element::bf16:
      return 0x7fc0;
    case Element::f32:
      return 0x7fc00000;
    case Element::f64:
      return 0x7ff8000000000000;
    case Element::i32:
      return 0x80000000;
    case Element::i64:
      return 0x8000000000000000;
    case Element::u8:
    case Element::u16:
    case Element::u32:
    case Element::u64:
      break;
  }
  return ~std::uint64_t{0};
}

/// One mapping for each box of the part: simple selections on both sides, which every reader of HDF5 files understands.
bool map_part(std::int64_t creation, std::span<const Count> shape, const VirtualPart& part) {
  const Box& all = part.part.box();
  const Count elements = part.part.elements();
  Count offset = 0;
  for (Box& box : boxes_of_range(all.count, part.part.begin(), elements)) {
    const Count size = box.elements();
    const Handle source = part.flat ? select(std::array<Count, 1>{elements}, Box{{offset}, {size}}) : select(all.count, box);
    offset += size;
    for (std::size_t dim = 0; dim < shape.size(); ++dim) box.start[dim] += all.start[dim];
    const Handle whole = select(shape, box);
    if (H5Pset_virtual(creation, whole.id(), part.file.c_str(), part.dataset.c_str(), source.id()) < 0) return false;
  }
  return true;
}

struct Source {
  std::string file;
  std::string dataset;
  std::vector<Count> least_shape;  // what is read of it lies within this shape
};

std::string name_at(ssize_t (*get)(hid_t, std::size_t, char*, std::size_t), hid_t creation, std::size_t index) {
  const ssize_t length = get(creation, index, nullptr, 0);
  COHORT_CHECK(length >= 0, "HDF5 cannot name a source of a virtual dataset: {}", take_reason());
  std::string name(static_cast<std::size_t>(length) + 1, '\0');
  COHORT_CHECK(get(creation, index, name.data(), name.size()) >= 0, "HDF5 cannot name a source of a virtual dataset: {}",
               take_reason());
  name.resize(static_cast<std::size_t>(length));
  return name;
}

/// Where a selection ends along each dim.
std::vector<Count> ends_of(hid_t space) {
  const int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> first(static_cast<std::size_t>(std::max(rank, 0)));
  std::vector<hsize_t> last(first.size());
  COHORT_CHECK(rank >= 0 && H5Sget_select_bounds(space, first.data(), last.data()) >= 0,
               "HDF5 cannot read what a virtual dataset takes of a source: {}", take_reason());
  std::vector<Count> ends;
  for (const hsize_t index : last) ends.push_back(static_cast<Count>(index) + 1);
  return ends;
}

/// The datasets that a virtual one is put together from; consecutive mappings of one source are one entry.
std::vector<Source> sources_of(hid_t dataset) {
  const Handle creation(Handle::Kind::property_list, H5Dget_create_plist(dataset));
  std::size_t mappings = 0;
  COHORT_CHECK(creation.id() >= 0 && H5Pget_virtual_count(creation.id(), &mappings) >= 0,
               "HDF5 cannot count the sources of a virtual dataset: {}", take_reason());
  std::vector<Source> sources;
  for (std::size_t i = 0; i < mappings; ++i) {
    const Handle space(Handle::Kind::dataspace, H5Pget_virtual_srcspace(creation.id(), i));
    Source next{name_at(H5Pget_virtual_filename, creation.id(), i), name_at(H5Pget_virtual_dsetname, creation.id(), i),
                ends_of(space.id())};
    if (sources.empty() || sources.back().file != next.file || sources.back().dataset != next.dataset) {
      sources.push_back(std::move(next));
      continue;
    }
    std::vector<Count>& shape = sources.back().least_shape;
    for (std::size_t dim = 0; dim < std::min(shape.size(), next.least_shape.size()); ++dim) {
      shape[dim] = std::max(shape[dim], next.least_shape[dim]);
    }
  }
  return sources;
}

bool holds(std::span<const Count> shape, std::span<const Count> least) {
  if (shape.size() != least.size()) return false;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] < least[dim]) return false;
  }
  return true;
}

// The files that this process has open.
std::vector<std::filesystem::path> open_files() {
  std::vector<hid_t> ids(static_cast<std::size_t>(std::max<ssize_t>(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_FILE), 0)));
  const ssize_t count = H5Fget_obj_ids(H5F_OBJ_ALL, H5F_OBJ_FILE, ids.size(), ids.data());
  std::vector<std::filesystem::path> names;
  for (ssize_t i = 0; i < count; ++i) {
    const ssize_t length = H5Fget_name(ids[static_cast<std::size_t>(i)], nullptr, 0);
    if (length < 0) continue;
    std::string name(static_cast<std::size_t>(length) + 1, '\0');
    if (H5Fget_name(ids[static_cast<std::size_t>(i)], name.data(), name.size()) >= 0) names.emplace_back(name.c_str());
  }
  return names;
}

}  // namespace

void Group::create_virtual_dataset(const std::string& name, Element element, std::span<const Count> shape,
                                   std::span<const VirtualPart> parts) {
  const Turn turn;
  const std::string where = fmt::format("{}: {}", path(), full_name(name));
  COHORT_CHECK(!shape.empty(), "{}: a scalar cannot be virtual", where);
  Count covered = 0;
  for (const VirtualPart& part : parts) {
    check_part(part, shape, where);
    covered += part.part.elements();
  }
  COHORT_CHECK(covered == product_of(shape), "{}: its parts hold {} elements, the shape {} has {}", where, covered,
               text_of_sizes(shape), product_of(shape));
  const Handle creation = make_creation_list(H5P_DATASET_CREATE);
  const std::uint64_t hole = hole_of(element);  // little-endian, as the type: its first bytes are the value
  if (H5Pset_fill_value(creation.id(), make_type(element).id(), &hole) < 0) {
    fail_here(fmt::format("cannot set the fill value of '{}'", name));
  }
  for (const VirtualPart& part : parts) {
    if (!map_part(creation.id(), shape, part)) fail_here(fmt::format("cannot map the source {} of '{}'", part.file, name));
  }
  make_dataset(name, make_type(element).id(), make_space(shape).id(), creation.id());
}

std::vector<std::string> Dataset::virtual_sources() const {
  if (!virtual_) return {};
  const Turn turn;
  std::vector<std::string> files;
  for (Source& source : sources_of(id())) files.push_back(std::move(source.file));
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

void Dataset::check_sources() const {
  const Turn turn;
  const std::vector<std::filesystem::path> open = open_files();
  for (const Source& source : sources_of(id())) {
    const std::filesystem::path file = std::filesystem::path(origin_->folder) / source.file;  // an absolute name stays as it is
    try {
      std::error_code missing;  // told below
      for (const auto& name : open) {
        if (std::filesystem::equivalent(name, file, missing)) {
          fail(origin_->code, "{}: is open in this process, where HDF5 gives fill values for its elements; close it first",
               file.string());
        }
      }
      const std::string name = source.dataset.substr(source.dataset.starts_with('/') ? 1 : 0);
      const Dataset dataset = File::open(file.string(), origin_->code).open_dataset(name);
      dataset.check_element(element_);
      if (!holds(dataset.shape(), source.least_shape)) {
        fail(origin_->code, "{}: {}: has the shape {} where at least {} is wanted", file.string(), source.dataset,
             text_of_sizes(dataset.shape()), text_of_sizes(source.least_shape));
      }
    } catch (const Error& error) {
      throw Error(origin_->code, fmt::format("{}: {}: cannot be put together from its sources: {}", path(), name_, error.what()));
    }
  }
  sources_checked_ = true;
}

}  // namespace cohort::hdf5
