# Options, build type and compiler flags.
include(CMakeDependentOption)

option(COHORT_ENABLE_TESTS "Build the tests (needs GoogleTest)" ON)
option(COHORT_ENABLE_CUDA "Build the CUDA, NCCL and cuBLASLt backends (needs a Kokkos with CUDA in Kokkos_ROOT)" OFF)
option(COHORT_ENABLE_ONEDNN "Use oneDNN's sgemm for CPU matrix products where it is found" ON)
option(COHORT_REQUIRE_ONEDNN "Stop the configure step if oneDNN is not found" OFF)
option(COHORT_WARNINGS_AS_ERRORS "Treat compiler warnings as errors" OFF)
option(COHORT_COVERAGE "Count which lines run (make coverage)" OFF)
set(COHORT_SANITIZE OFF CACHE STRING "Sanitizers: OFF, address (with the one of undefined behaviour) or thread")
set_property(CACHE COHORT_SANITIZE PROPERTY STRINGS OFF address thread)
if(NOT COHORT_SANITIZE MATCHES "^(OFF|address|thread)$")
  message(FATAL_ERROR "COHORT_SANITIZE=${COHORT_SANITIZE}: must be OFF, address or thread")
endif()
option(COHORT_FUZZ "Link the fuzz targets with libFuzzer (needs clang; tests/fuzz/CMakeLists.txt says how)" OFF)
cmake_dependent_option(COHORT_PRECOMPILED_HEADERS "Compile the headers of GoogleTest, of CLI11 and of the standard library once for all that use them" ON
                       "NOT COHORT_ENABLE_CUDA;NOT COHORT_FUZZ" OFF)
if(APPLE)
  set(arch "")  # Apple's clang compiles for the processors of Macs by itself, and knows no -march=native on its own
else()
  set(arch native)
endif()
set(COHORT_ARCH "${arch}" CACHE STRING "Value of -march; empty leaves it to the compiler. On mixed clusters name the oldest CPU")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# ccache asks for this leniency before it keeps what was compiled with a precompiled header ("Precompiled headers" in its manual).
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
endif()

# A test program is linked in a third of the time.
find_program(LLD_PROGRAM ld.lld)
if(LLD_PROGRAM AND NOT APPLE AND NOT COHORT_ENABLE_CUDA)  # nvcc would not understand the flag
  add_link_options(-fuse-ld=lld)
endif()

# Flags of every target of ours. -fopenmp-simd only enables "#pragma omp simd", which marks the loops whose sums may be reordered;
# -ffast-math is not used, so that results do not depend on what the compiler fancies.
add_library(cohort_flags INTERFACE)
target_include_directories(cohort_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
set(warnings -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion)
set(host_flags -fopenmp-simd -fno-math-errno -fno-trapping-math)
if(COHORT_ARCH)
  list(APPEND host_flags -march=${COHORT_ARCH})
endif()
list(JOIN host_flags "," host_flags_of_nvcc)
list(JOIN warnings " " COHORT_HOST_FLAGS)  # as `cohort info` prints them
list(JOIN host_flags " " joined_host_flags)
string(APPEND COHORT_HOST_FLAGS " ${joined_host_flags}")
target_compile_options(cohort_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${warnings};${host_flags}>"
  # nvcc compiles the CUDA kernels, and the sources that include Kokkos when it has the CUDA backend. fmt 9 takes nvcc for a compiler
  # without constexpr.
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host_flags_of_nvcc};--expt-relaxed-constexpr;--extended-lambda;-DFMT_USE_CONSTEXPR=1>")
target_compile_definitions(cohort_flags INTERFACE COHORT_CUDA=$<BOOL:${COHORT_ENABLE_CUDA}>)
if(COHORT_WARNINGS_AS_ERRORS)
  # GCC 12 takes some std::string that it inlines for one that is written beyond its end.
  target_compile_options(cohort_flags INTERFACE -Werror -Wno-error=array-bounds)
endif()
if(COHORT_SANITIZE STREQUAL address)
  # Left out: what the address sanitizer and the processor find, too, and what takes half as long again to compile.
  target_compile_options(cohort_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
    -fno-sanitize=null,alignment,vptr,object-size,pointer-overflow,nonnull-attribute,returns-nonnull-attribute)
  target_compile_definitions(cohort_flags INTERFACE _GLIBCXX_ASSERTIONS)  # indices within a vector's capacity but beyond its size
  target_link_options(cohort_flags INTERFACE -fsanitize=address,undefined)
elseif(COHORT_SANITIZE STREQUAL thread)
  target_compile_options(cohort_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(cohort_flags INTERFACE -fsanitize=thread)
endif()
if(COHORT_COVERAGE)
  target_compile_options(cohort_flags INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(cohort_flags INTERFACE --coverage)
endif()
if(COHORT_FUZZ)
  target_compile_options(cohort_flags INTERFACE -fsanitize=fuzzer-no-link,address -fno-omit-frame-pointer)
  target_link_options(cohort_flags INTERFACE -fsanitize=address)
endif()
