// HDF5 files, groups, datasets and attributes as move-only handles that close themselves. The only door to HDF5: <hdf5.h> is
// included by the sources of this folder alone. Serial access (one process per file at a time for writing, any number for
// reading).
//
// Files are written in HDF5's 1.8 format: superblock version 2 and version 2 object headers. All of its metadata carries
// checksums, so that a damaged file is refused instead of misread; and it has no "open for writing" mark, so that a killed writer
// does not leave a file that can never be opened again. Strings have a fixed length for the same reason: variable-length ones
// live in a heap without checksum. No times are stored: the same content gives the same bytes. Files are not locked (locks fail
// on many network file systems): who writes uses a temporary name and commit_file() (base/file.hpp).
//
// Errors: every function throws Error with the file's path, the object, what was being done and HDF5's own reason. The exit code
// is the one given when the file was opened or created (data for token files, checkpoint for checkpoints, io for what is being
// written). HDF5's own printing to stderr is turned off. Not thread-safe: one thread at a time uses any of this.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/units.hpp"

namespace cohort::hdf5 {

/// What the elements of a dataset are, in the file (little-endian) and in memory. f16 is what h5py calls float16; bf16 is a
/// custom 16-bit float (8 exponent, 7 mantissa bits) that HDF5's tools understand.
enum class Element : std::uint8_t { u8, u16, u32, u64, i32, i64, f16, bf16, f32, f64 };

std::string_view name_of(Element element);  // "uint8", "float32", ...
Bytes size_of(Element element);
Element element_of(DType dtype);
/// Throws Error(internal) for the elements that no tensor has (u16, u32, u64).
DType dtype_of(Element element);

template <class T>
struct ElementOf;
#define COHORT_HDF5_ELEMENT(type, element)             \
  template <>                                          \
  struct ElementOf<type> {                             \
    static constexpr Element value = Element::element; \
  }
COHORT_HDF5_ELEMENT(std::uint8_t, u8);
COHORT_HDF5_ELEMENT(std::uint16_t, u16);
COHORT_HDF5_ELEMENT(std::uint32_t, u32);
COHORT_HDF5_ELEMENT(std::uint64_t, u64);
COHORT_HDF5_ELEMENT(std::int32_t, i32);
COHORT_HDF5_ELEMENT(std::int64_t, i64);
COHORT_HDF5_ELEMENT(f16, f16);
COHORT_HDF5_ELEMENT(bf16, bf16);
COHORT_HDF5_ELEMENT(float, f32);
COHORT_HDF5_ELEMENT(double, f64);
#undef COHORT_HDF5_ELEMENT

/// An HDF5 identifier (hid_t) that is closed when the handle goes.
class Handle {
 public:
  enum class Kind : std::uint8_t { none, file, group, dataset, dataspace, datatype, property_list, attribute };

  Handle() = default;
  /// Takes over `id`, which the caller has checked to be valid (>= 0).
  Handle(Kind kind, std::int64_t id) : kind_(kind), id_(id) {}
  Handle(Handle&& other) noexcept : kind_(other.kind_), id_(other.id_) { other.kind_ = Kind::none; }
  Handle& operator=(Handle&& other) noexcept;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { close(); }

  std::int64_t id() const { return id_; }
  /// False if HDF5 could not close it (a full disk shows here); closing twice is fine.
  bool close() noexcept;

 private:
  Kind kind_ = Kind::none;
  std::int64_t id_ = -1;
};

/// Which file an object belongs to and how its errors are classified.
struct Origin {
  std::string path;
  ExitCode code;
};

/// What files, groups and datasets have in common: a place in a file, and attributes.
class Object {
 public:
  /// Absolute name within the file ("/model/wte"), "/" for the file itself.
  const std::string& name() const { return name_; }
  const std::string& path() const { return origin_->path; }

  /// Attributes: scalars. Setting one that exists replaces it. A string attribute holds at most 60,000 bytes (HDF5 limits the
  /// object header to 64 KiB): longer text belongs in Group::write_text.
  void set_attribute(const std::string& name, std::int64_t value);
  void set_attribute(const std::string& name, double value);
  void set_attribute(const std::string& name, const std::string& value);
  bool has_attribute(const std::string& name) const;
  /// Reading converts any integer type to 64 bits, any number to double, fixed- and variable-length strings; another type is an
  /// error.
  std::int64_t int_attribute(const std::string& name) const;
  double double_attribute(const std::string& name) const;
  std::string string_attribute(const std::string& name) const;

  std::int64_t id() const { return handle_.id(); }

 protected:
  Object(Handle handle, std::shared_ptr<const Origin> origin, std::string name)
      : handle_(std::move(handle)), origin_(std::move(origin)), name_(std::move(name)) {}
  /// Throws with path, name, `doing` and HDF5's reason.
  [[noreturn]] void fail_here(const std::string& doing) const;
  /// Opens an attribute that must exist and be a scalar of this HDF5 type class (`wanted`: for the message).
  Handle open_attribute(const std::string& name, std::span<const int> classes, const char* wanted) const;
  Handle make_attribute(const std::string& name, std::int64_t type);

  Handle handle_;
  std::shared_ptr<const Origin> origin_;
  std::string name_;
};

/// An array of any rank; shape {} is a scalar. Sizes are elements, slowest dim first (C order), 64 bits.
class Dataset : public Object {
 public:
  const std::vector<Count>& shape() const { return shape_; }
  Element element() const { return element_; }
  Count elements() const;

  /// The whole dataset. `values` must have elements() elements of exactly the dataset's type.
  template <class T>
  void write(std::span<const T> values) {
    write_raw(values.data(), static_cast<Count>(values.size()), ElementOf<T>::value);
  }
  template <class T>
  void read(std::span<T> values) const {
    read_raw(values.data(), static_cast<Count>(values.size()), ElementOf<T>::value);
  }
  /// The same for an element type known only when running; `elements` is what `data` holds.
  void write_raw(const void* data, Count elements, Element element);
  void read_raw(void* data, Count elements, Element element) const;

  /// The block that starts at `start` and has `count` elements along each dim; `data` is that block, packed, in C order. A block
  /// outside of the dataset is an error.
  void write_block(std::span<const Count> start, std::span<const Count> count, const void* data, Element element);
  void read_block(std::span<const Count> start, std::span<const Count> count, void* data, Element element) const;

 private:
  friend class Group;
  Dataset(Handle handle, std::shared_ptr<const Origin> origin, std::string name);
  void transfer(bool writing, std::int64_t memory_space, std::int64_t file_space, void* data) const;
  void transfer_block(bool writing, std::span<const Count> start, std::span<const Count> count, void* data,
                      Element element) const;
  void check_element(Element element) const;

  std::vector<Count> shape_;
  Element element_ = Element::u8;
};

/// A group: a folder of groups and datasets. Names are relative to it; names with slashes ("model/wte") walk down, and creating
/// makes the groups between.
class Group : public Object {
 public:
  Group create_group(const std::string& name);
  Group open_group(const std::string& name) const;
  /// Contiguous layout; the content is undefined until written.
  Dataset create_dataset(const std::string& name, Element element, std::span<const Count> shape);
  Dataset open_dataset(const std::string& name) const;
  /// Text of any length as one scalar string dataset, which h5dump and h5py show as text.
  void write_text(const std::string& name, const std::string& text);
  std::string read_text(const std::string& name) const;

  bool has_group(const std::string& name) const;
  bool has_dataset(const std::string& name) const;
  /// Names of direct children, sorted by byte.
  std::vector<std::string> children() const;

 protected:
  using Object::Object;
  std::string full_name(const std::string& name) const;
  bool has(const std::string& name, Handle::Kind kind) const;
  void create_parents(const std::string& name);
};

/// A file, which is also its root group.
class File : public Group {
 public:
  /// Creates or empties `path`.
  static File create(const std::string& path, ExitCode code = ExitCode::io);
  /// Read only. Says apart: no such file or no permission (Error(io)), not an HDF5 file, truncated or damaged (Error(code)).
  static File open(const std::string& path, ExitCode code);
  /// Flushes HDF5's buffers and closes. Call it after writing: an error (full disk) is thrown here, while the destructor swallows
  /// it.
  void close();

 private:
  using Group::Group;
};

}  // namespace cohort::hdf5
