# Finds toml++ and defines the target tomlplusplus::tomlplusplus.
#   1. With tomlplusplus_ROOT, or on the prefix path: toml++'s own package file.
#   2. Else its headers alone, which are all that it needs (Ubuntu 22.04 has no package of it; docs/install.md).
include(FindPackageHandleStandardArgs)

find_package(tomlplusplus CONFIG QUIET)
if(TARGET tomlplusplus::tomlplusplus)
  find_package_handle_standard_args(tomlplusplus CONFIG_MODE)
  return()
endif()

find_path(tomlplusplus_INCLUDE_DIR toml++/toml.h)
find_package_handle_standard_args(tomlplusplus REQUIRED_VARS tomlplusplus_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libtomlplusplus-dev, or put the headers of toml++ 3 into /usr/local/include (docs/install.md, \"Ubuntu 22.04\")")
if(tomlplusplus_FOUND AND NOT TARGET tomlplusplus::tomlplusplus)
  add_library(tomlplusplus::tomlplusplus INTERFACE IMPORTED)
  set_target_properties(tomlplusplus::tomlplusplus PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${tomlplusplus_INCLUDE_DIR})
endif()
mark_as_advanced(tomlplusplus_INCLUDE_DIR)
