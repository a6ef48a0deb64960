# Finds a CBLAS: a library with cblas_sgemm and its header cblas.h. OpenBLAS first, then whatever provides libcblas or libblas.
# Defines CBLAS_FOUND and the target CBLAS::CBLAS. CBLAS_ROOT names a prefix.
include(FindPackageHandleStandardArgs)
find_path(CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas openblas-pthread include/openblas)
find_library(CBLAS_LIBRARY NAMES openblas cblas blas)
find_package_handle_standard_args(CBLAS REQUIRED_VARS CBLAS_LIBRARY CBLAS_INCLUDE_DIR)
if(CBLAS_FOUND AND NOT TARGET CBLAS::CBLAS)
  add_library(CBLAS::CBLAS UNKNOWN IMPORTED)
  set_target_properties(CBLAS::CBLAS PROPERTIES IMPORTED_LOCATION ${CBLAS_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${CBLAS_INCLUDE_DIR})
endif()
mark_as_advanced(CBLAS_INCLUDE_DIR CBLAS_LIBRARY)
