# Finds Kokkos and defines the target Kokkos::kokkos.
#   1. With Kokkos_ROOT (a CMake or environment variable), or any Kokkos >= 4 on the prefix path: Kokkos's own package file.
#   2. Else Debian's libtrilinos-kokkos-dev (3.4.1, Serial), whose package file names a directory that does not exist:
#      headers and library are looked for by hand.
include(FindPackageHandleStandardArgs)

find_package(Kokkos 4 CONFIG QUIET)
if(TARGET Kokkos::kokkos)
  set(Kokkos_SOURCE "${Kokkos_DIR}")
  find_package_handle_standard_args(Kokkos CONFIG_MODE)
  return()
endif()
if(Kokkos_ROOT OR DEFINED ENV{Kokkos_ROOT})
  message(FATAL_ERROR "Kokkos_ROOT is set to '${Kokkos_ROOT}$ENV{Kokkos_ROOT}', but no Kokkos >= 4 was found there: "
                      "it must be the prefix that Kokkos was installed to (the folder with lib/cmake/Kokkos in it)")
endif()

find_path(Kokkos_INCLUDE_DIR Kokkos_Core.hpp PATH_SUFFIXES trilinos)
find_library(Kokkos_LIBRARY NAMES trilinos_kokkoscore kokkoscore)
if(Kokkos_INCLUDE_DIR AND EXISTS ${Kokkos_INCLUDE_DIR}/KokkosCore_config.h)
  file(STRINGS ${Kokkos_INCLUDE_DIR}/KokkosCore_config.h version_line REGEX "define KOKKOS_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+$" version_number "${version_line}")
  if(version_number)
    math(EXPR major "${version_number} / 10000")
    math(EXPR minor "${version_number} / 100 % 100")
    math(EXPR patch "${version_number} % 100")
    set(Kokkos_VERSION ${major}.${minor}.${patch})
  endif()
endif()
find_package_handle_standard_args(Kokkos REQUIRED_VARS Kokkos_LIBRARY Kokkos_INCLUDE_DIR VERSION_VAR Kokkos_VERSION)
if(Kokkos_FOUND AND NOT TARGET Kokkos::kokkos)
  add_library(Kokkos::kokkos UNKNOWN IMPORTED)
  set_target_properties(Kokkos::kokkos PROPERTIES IMPORTED_LOCATION ${Kokkos_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${Kokkos_INCLUDE_DIR})
  target_link_libraries(Kokkos::kokkos INTERFACE ${CMAKE_DL_LIBS})
  set(Kokkos_SOURCE "${Kokkos_LIBRARY}")
endif()
mark_as_advanced(Kokkos_INCLUDE_DIR Kokkos_LIBRARY)
