# Everything Cohort builds on. Required: MPI, Kokkos, HDF5, a CBLAS, fmt, toml++, CLI11, nlohmann-json, zlib, zstd, PCRE2. Optional: oneDNN, libdeflate, SentencePiece, utf8proc;
# and CUDA with cuBLASLt and NCCL, which needs a Kokkos with the CUDA backend.

find_package(Threads REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
# mpi.h would pull in the C++ bindings, which MPI dropped in 2012 and which need a library of their own.
target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
if(COHORT_ENABLE_CUDA)
  include(CohortCuda)           # the language CUDA, CUDA::cudart, CUDA::cublasLt, NCCL::NCCL
endif()
find_package(Kokkos REQUIRED)   # tools/cmake/FindKokkos.cmake: Kokkos_ROOT, else Debian's Trilinos build
if(COHORT_ENABLE_CUDA AND NOT "CUDA" IN_LIST Kokkos_DEVICES)
  message(FATAL_ERROR "the preset cuda needs a Kokkos built with -DKokkos_ENABLE_CUDA=ON (and -DKokkos_ENABLE_COMPILE_AS_CMAKE_LANGUAGE=ON); "
                      "${Kokkos_SOURCE} has no CUDA. Name the prefix of one in Kokkos_ROOT; docs/gpus.md says where to get it")
endif()
set(HDF5_PREFER_PARALLEL ON)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(CBLAS REQUIRED)    # tools/cmake/FindCBLAS.cmake
find_package(ZLIB REQUIRED)
find_package(Zstd REQUIRED)     # tools/cmake/FindZstd.cmake
find_package(Libdeflate)       # tools/cmake/FindLibdeflate.cmake
find_package(SentencePiece)    # tools/cmake/FindSentencePiece.cmake
find_package(Utf8proc)         # tools/cmake/FindUtf8proc.cmake
find_package(PCRE2 REQUIRED)    # tools/cmake/FindPCRE2.cmake
find_package(fmt REQUIRED)
if(fmt_VERSION VERSION_LESS 9)  # Ubuntu 22.04: its format.h must come before what core.h alone has used, which in a unity build it may not
  target_compile_options(fmt::fmt INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include fmt/format.h>")
endif()
find_package(tomlplusplus REQUIRED)  # tools/cmake/Findtomlplusplus.cmake
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
if(COHORT_ENABLE_ONEDNN)
  find_package(OneDNN)          # tools/cmake/FindOneDNN.cmake
  if(COHORT_REQUIRE_ONEDNN AND NOT OneDNN_FOUND)
    message(FATAL_ERROR "oneDNN was required and not found: install libdnnl-dev, or set OneDNN_ROOT")
  endif()
  if(OneDNN_FOUND)
    find_package(OpenMP REQUIRED COMPONENTS CXX)  # oneDNN's threads are OpenMP threads
  endif()
endif()
if(COHORT_ENABLE_TESTS)
  find_package(GTest REQUIRED)
endif()

# System headers, so that our warnings are about our code.
add_library(cohort_dep_hdf5 INTERFACE)
target_include_directories(cohort_dep_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(cohort_dep_hdf5 INTERFACE ${HDF5_C_LIBRARIES} MPI::MPI_C)  # parallel HDF5: hdf5.h includes mpi.h
