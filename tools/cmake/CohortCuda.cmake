# CUDA as a language, and the libraries of the GPU path.
set(CMAKE_CUDA_ARCHITECTURES "80;90a" CACHE STRING
    "GPU architectures to compile for: 80 Ampere (A100), 86 Ampere (RTX 30, A40), 89 Ada, 90a Hopper (H100, H200)")
find_package(CUDAToolkit 12.5 QUIET)
if(NOT CUDAToolkit_FOUND)
  message(FATAL_ERROR "the preset cuda needs the CUDA toolkit 12.5 or newer: put nvcc on the PATH, or set CUDAToolkit_ROOT")
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 12 and newer have it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
# CUPTI, for the kernels in a trace. Optional: some toolkits come without it.
find_path(CUPTI_INCLUDE_DIR cupti.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_TARGET_DIR}/extras/CUPTI/include)
mark_as_advanced(CUPTI_INCLUDE_DIR)
set(COHORT_CUPTI OFF)
if(CUPTI_INCLUDE_DIR AND TARGET CUDA::cupti)
  set(COHORT_CUPTI ON)
  target_include_directories(CUDA::cupti INTERFACE ${CUPTI_INCLUDE_DIR})
endif()
find_package(NCCL REQUIRED)  # tools/cmake/FindNCCL.cmake

