// Shared by the sources of this folder only: HDF5's error stack as text, and its types.
#pragma once

#include <hdf5.h>

#include <string>

#include "hdf5/hdf5.hpp"

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

/// A property list of a class of HDF5's.
Handle make_property_list(hid_t list_class);

/// Properties for creating a group, dataset or file: without times, so that the same content gives the same bytes.
Handle make_creation_list(hid_t list_class);

}  // namespace cohort::hdf5
