// HDF5 files, groups, datasets and attributes as move-only handles that close themselves. The only door to HDF5: <hdf5.h> is
// included only by the sources of this folder. Serial files: one process at a time writes a file, any number read it. Parallel
// files: the ranks of an MPI communicator write one file together (File::create_parallel).
//
// Files are written in HDF5's 1.8 format: superblock version 2 and version 2 object headers. All of its metadata carries
// checksums, so that a damaged file is refused instead of misread; and it has no "open for writing" mark, so that a killed writer
// does not leave a file that can never be opened again. Strings have a fixed length for the same reason: variable-length ones
// live in a heap without checksum. (Files with virtual datasets need the 1.10 format, which has that mark: see FileOptions.) No
// times are stored: the same content gives the same bytes. Files are not locked unless asked for (locks fail on many network
// file systems): who writes uses a temporary name and commit_file() (base/file.hpp).
//
// Threads take turns: one lock of the process guards every call into HDF5, also the closing of handles, and who waits longest is
// next. Different threads may use different files at any time; one object (File, Group, Dataset) belongs to one thread at a time.
// Reads and writes of more than kSlabBytes go slab by slab and give the turn up in between, so that another thread waits for one
// slab, not for a whole tensor.
//
// Errors: every function throws Error with the file's path, the object, what was being done and HDF5's own reason. The exit code
// is the one given when the file was opened or created (data for token files, checkpoint for checkpoints, io for what is being
// written). HDF5's own printing to stderr is turned off.
//
// Damage is refused by HDF5's checksums. A file that was forged, with right checksums over wrong addresses, is another matter:
// HDF5 1.10 itself crashes on some (tests/fuzz finds them with --forged), so read only files of people whom you trust.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"
#include "hdf5/element.hpp"
#include "hdf5/options.hpp"

namespace cohort::hdf5 {

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
  /// False if HDF5 could not close it (a full disk shows here); closing twice is fine. A file that cannot be flushed is given up
  /// instead: it stays open and unused until the process ends, because HDF5 frees it and keeps its identifier if closing fails.
  /// So is a parallel file: closing it is collective, and only File::close() knows that the ranks are in step.
  bool close() noexcept;
  /// Lets go of it without closing it.
  std::int64_t release() {
    kind_ = Kind::none;
    return id_;
  }

 private:
  Kind kind_ = Kind::none;
  std::int64_t id_ = -1;
};

/// Which file an object belongs to and how its errors are classified.
struct Origin {
  std::string path;
  ExitCode code;
  std::string folder;  // of `path`, absolute: stays right when the process changes its working folder
  bool parallel = false;
  mutable std::string lost;  // HDF5's reason why a dataset could not be closed, with data of it still in memory; guarded by Turn
};

/// What files, groups and datasets have in common: a place in a file, and attributes.
class Object {
 public:
  /// Absolute name within the file ("/model/wte"), "/" for the file itself.
  const std::string& name() const { return name_; }
  const std::string& path() const { return origin_->path; }

  /// Attributes: scalars, and arrays of counts (at most 7,500). Setting one that exists replaces it. A string attribute holds at
  /// most 60,000 bytes (HDF5 limits the object header to 64 KiB): longer text belongs in Group::write_text.
  void set_attribute(const std::string& name, std::int64_t value);
  void set_attribute(const std::string& name, double value);
  void set_attribute(const std::string& name, const std::string& value);
  void set_attribute(const std::string& name, std::span<const Count> values);
  bool has_attribute(const std::string& name) const;
  /// Reading converts any integer type to 64 bits, any number to double, fixed- and variable-length strings; another type is an
  /// error.
  std::int64_t int_attribute(const std::string& name) const;
  double double_attribute(const std::string& name) const;
  std::string string_attribute(const std::string& name) const;
  /// An array with one dim, of any integer type.
  std::vector<Count> counts_attribute(const std::string& name) const;

  std::int64_t id() const { return handle_.id(); }

  Object(Object&&) noexcept = default;
  Object& operator=(Object&& other) noexcept;
  ~Object() { close_handle(); }

 protected:
  /// Closes the handle; a failure is kept for File::close().
  void close_handle() noexcept;
  Object(Handle handle, std::shared_ptr<const Origin> origin, std::string name)
      : handle_(std::move(handle)), origin_(std::move(origin)), name_(std::move(name)) {}
  /// Throws with path, name, `doing` and HDF5's reason.
  [[noreturn]] void fail_here(const std::string& doing) const;
  /// Opens an attribute that must exist, have so many dims (0: be a scalar) and be of one of these HDF5 type classes (`wanted`:
  /// for the message).
  Handle open_attribute(const std::string& name, std::span<const int> classes, int dims, const char* wanted) const;
  /// Replaces one that exists.
  void write_attribute(const std::string& name, std::int64_t type, std::int64_t space, const void* value);

  Handle handle_;
  std::shared_ptr<const Origin> origin_;
  std::string name_;
};

/// An array of any rank; shape {} is a scalar. Sizes are elements, slowest dim first (C order), 64 bits. `data` and `values` lie
/// in host memory; their elements are of exactly the dataset's type. In a parallel file, the functions that are not collective
/// write what the calling rank gives.
class Dataset : public Object {
 public:
  const std::vector<Count>& shape() const { return shape_; }
  Element element() const { return element_; }
  Count elements() const;

  /// The whole dataset. `values` must have elements() elements.
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

  /// The elements [begin, begin + elements) of the row-major order of the dataset. A range outside of the dataset is an error.
  void write_range(Count begin, Count elements, const void* data, Element element);
  void read_range(Count begin, Count elements, void* data, Element element) const;

  /// write_range of all ranks together, in `rounds` collective writes: the range is cut into as many equal pieces. All ranks name
  /// the same `rounds`, at least collective_rounds() of the largest range among them; `elements` may differ, and be 0. Ranges of
  /// different ranks do not overlap. Each rank writes its own piece to the file, none is sent to another rank. A rank that fails
  /// takes part in the remaining rounds, with nothing, before it throws. Parallel files only. // Collective over: the file's
  /// communicator
  void write_range_collectively(Count begin, Count elements, const void* data, Element element, Count rounds);
  /// How many rounds a rank with this many elements needs; 0 for 0 elements.
  static Count collective_rounds(Count elements, Element element);

  /// A damaged header can claim any size. Throws Error if the file stores fewer bytes than the elements could be packed into: for
  /// readers to call before they ask for memory or time for them. Virtual datasets, which store nothing, pass.
  void check_stored() const;

  /// Where the elements lie in the file, in bytes from its start, row-major and one behind the other; nothing if they do not lie
  /// so (chunks, virtual datasets) or are not stored. For who reads them without HDF5, from File::descriptor().
  std::optional<Bytes> offset() const;

  /// Virtual datasets are put together from those of other files; they are read like others and never written. HDF5 reads fill
  /// values where a source is missing, without a word: NaN, the least of signed integers, the largest of unsigned ones. The first
  /// read here opens every source, and throws an Error that names the file if it is missing, is damaged, lacks the dataset, or is
  /// open in this process (HDF5 cannot open it twice in two ways).
  bool is_virtual() const { return virtual_; }
  /// The files that a virtual dataset is put together from, as its file names them, sorted; each once.
  std::vector<std::string> virtual_sources() const;

 private:
  friend class Group;
  Dataset(Handle handle, std::shared_ptr<const Origin> origin, std::string name);
  void read_shape();
  void read_layout();
  void transfer_boxes(bool writing, std::span<const Count> start, std::span<const Count> count, Count begin, Count elements,
                      void* data) const;
  void transfer_one_box(bool writing, std::span<const Count> start, std::span<const Count> count, void* data) const;
  void transfer_block(bool writing, std::span<const Count> start, std::span<const Count> count, void* data,
                      Element element) const;
  void transfer_range(bool writing, Count begin, Count elements, void* data, Element element) const;
  void write_round(Count begin, Count elements, const void* data);
  void check_range(Count begin, Count elements, Element element) const;
  void check_element(Element element) const;
  void check_sources() const;

  std::vector<Count> shape_;
  Element element_ = Element::u8;
  Count chunk_elements_ = 0;  // 0: not chunked
  bool virtual_ = false;
  mutable bool sources_checked_ = false;
};

/// A group: a folder of groups and datasets. Names are relative to it; names with slashes ("model/wte") walk down, and creating
/// makes the groups between. As in HDF5, several slashes are one ("a//b" is "a/b"), and a name that begins with one starts at the
/// root.
class Group : public Object {
 public:
  Group create_group(const std::string& name);
  Group open_group(const std::string& name) const;
  /// The content is undefined until written.
  Dataset create_dataset(const std::string& name, Element element, std::span<const Count> shape,
                         const DatasetLayout& layout = {});
  /// A dataset whose elements lie in other files, in a file created with FileOptions::virtual_datasets. The sources need not
  /// exist yet. `parts` cover every element once; shape has at least one dim. A dataset without elements becomes an ordinary one.
  void create_virtual_dataset(const std::string& name, Element element, std::span<const Count> shape,
                              std::span<const VirtualPart> parts);
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
  /// Makes the groups on the way too. `creation`: a property list of datasets.
  Handle make_dataset(const std::string& name, std::int64_t type, std::int64_t space, std::int64_t creation);
};

/// A file, which is also its root group.
class File : public Group {
 public:
  /// Creates or empties `path`.
  static File create(const std::string& path, ExitCode code = ExitCode::io, const FileOptions& options = {});
  /// Read only. Says apart: no such file, no permission or locked (Error(io)), not an HDF5 file, truncated or damaged
  /// (Error(code)). Of the options, only `locking` matters.
  static File open(const std::string& path, ExitCode code, const FileOptions& options = {});

  /// Creates or empties `path` on all ranks of `communicator`, a pointer to an MPI_Comm (mpi_handle() of
  /// comm/mpi_communicator.hpp), which HDF5 duplicates. Needs an HDF5 built with MPI, else Error(config): ask has_parallel().
  ///
  /// Collective, with the same arguments on all ranks: create_parallel; creating groups, datasets, texts and virtual datasets;
  /// setting attributes; write_range_collectively; close, and the closing of groups and datasets by destructors. Only write_raw,
  /// write_block and write_range are each rank's own.
  ///
  /// Errors: create_parallel throws alike on all ranks if one of them cannot open the file. Later, any rank may fail alone (its
  /// disk is full, its node lost the mount), and throws while the others continue to the next collective call and wait there for
  /// ever. So the caller lets the ranks agree after every collective step (fail_together() of comm/consensus.hpp around each):
  /// all leave the step together, and all stop using the file if one of them failed. Then all let go of it: the destructor of a
  /// file that was not closed gives it up, and asks nothing of the other ranks. A wrong argument is such an error: it is found
  /// before the rank enters the call, so give all ranks arguments that are right or wrong for all.
  ///
  /// Threads: a collective call keeps the process's turn in HDF5 until all ranks have come. Only one thread of each process makes
  /// collective calls at a time, no thread waits for another rank inside of a turn, and MPI must offer MPI_THREAD_MULTIPLE if
  /// another thread communicates meanwhile.
  // Collective over: communicator
  static File create_parallel(const std::string& path, const void* communicator, ExitCode code = ExitCode::io,
                              const FileOptions& options = {});
  /// Whether this build's HDF5 has parallel files.
  static bool has_parallel();

  /// The system's descriptor of a serial file, as long as this object lives: the file that was opened, whatever bears its name
  /// later.
  int descriptor() const;

  /// Flushes HDF5's buffers and closes. Call it after writing, when all groups and datasets of the file are gone: an error (full
  /// disk), also one of a dataset that was closed before, is thrown here, while destructors swallow it. After an error the file
  /// is given up; File::create may create it again. Of a parallel file all ranks throw if one of them fails. // Parallel files:
  /// collective
  void close();

 private:
  using Group::Group;
};

}  // namespace cohort::hdf5
