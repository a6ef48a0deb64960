# Everything Cohort builds on. Required: MPI, Kokkos, HDF5, a CBLAS, fmt, toml++, CLI11, nlohmann-json, zlib. Optional: oneDNN, CUDA.
if(COHORT_ENABLE_CUDA)
  message(FATAL_ERROR "COHORT_ENABLE_CUDA is ON, and this version of Cohort has no CUDA code yet: use the preset cpu")
endif()
find_package(Threads REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
# mpi.h would pull in the C++ bindings, which MPI dropped in 2012 and which need a library of their own.
target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
find_package(Kokkos REQUIRED)   # tools/cmake/FindKokkos.cmake: Kokkos_ROOT, else Debian's Trilinos build
set(HDF5_PREFER_PARALLEL ON)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(CBLAS REQUIRED)    # tools/cmake/FindCBLAS.cmake
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
if(COHORT_ENABLE_ONEDNN)
  find_package(OneDNN)          # tools/cmake/FindOneDNN.cmake
  if(COHORT_REQUIRE_ONEDNN AND NOT OneDNN_FOUND)
    message(FATAL_ERROR "oneDNN was required and not found: install libdnnl-dev, or set OneDNN_ROOT")
  endif()
endif()
if(COHORT_ENABLE_TESTS)
  find_package(GTest REQUIRED)
endif()

# System headers, so that our warnings are about our code.
add_library(cohort_dep_hdf5 INTERFACE)
target_include_directories(cohort_dep_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(cohort_dep_hdf5 INTERFACE ${HDF5_C_LIBRARIES} MPI::MPI_C)  # parallel HDF5: hdf5.h includes mpi.h
