// Shared by the sources of this folder only: HDF5's error stack as text, property lists, and types. Whoever calls these has a
// Turn.
#pragma once

#include <hdf5.h>

#include <span>
#include <string>

#include "hdf5/hdf5.hpp"
#include "hdf5/turn.hpp"

namespace cohort::hdf5 {

/// HDF5's explanation of the last failed call: the innermost description on its error stack, and the outermost if it differs.
/// Clears the stack.
std::string take_reason();

/// Stops HDF5 from printing to stderr; called wherever a file is opened or created.
void silence();

/// The little-endian file type of an element; memory types are the same on the machines we run on.
Handle make_type(Element element);

/// The element that a stored type is, exactly; false if none.
bool find_element(hid_t type, Element& element);

/// The extents of an array; a scalar for no sizes.
Handle make_space(std::span<const Count> shape);

/// A property list of a class of HDF5's.
Handle make_property_list(hid_t list_class);

/// Properties for creating a group, dataset or file: without times, so that the same content gives the same bytes.
Handle make_creation_list(hid_t list_class);

/// Properties for creating a file with these options.
Handle make_file_access_list(const FileOptions& options);

/// Properties for opening and creating datasets: a chunk cache that holds the largest chunk, so that a chunk that two slabs share
/// is neither unpacked nor packed twice. Made once and never closed, as HDF5 is never ended: a list for each of many small
/// datasets takes a good part of the time in which they are written.
hid_t dataset_access_list();

/// Whether ranks write the file together.
bool is_parallel(hid_t file);

/// Writes what HDF5 holds in memory for a file. Returns the reason if that failed, on any rank of a parallel file; "" if not.
// Parallel files: collective
std::string flush_file(hid_t file);

/// Leaves a file open until the process ends: closing it would fail, and HDF5 then frees it and keeps its identifier, which later
/// stands for whatever file takes its place in memory.
void give_up(hid_t file);

/// Removes `path` if it was given up: HDF5 refuses to empty a file that it holds open, while a new file of the same name is
/// another.
void remove_given_up(const std::string& path);

/// Checks file options that have nothing to do with MPI. Throws Error(config).
void check_options(const std::string& path, const FileOptions& options);

Origin make_origin(const std::string& path, ExitCode code, bool parallel);

/// "[2, 3]"
std::string text_of_sizes(std::span<const Count> sizes);

}  // namespace cohort::hdf5
