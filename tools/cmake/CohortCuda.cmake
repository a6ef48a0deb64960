# CUDA as a language, and the libraries of the GPU path.
set(CMAKE_CUDA_ARCHITECTURES "80;90a" CACHE STRING
    "GPU architectures to compile for: 80 Ampere (A100), 86 Ampere (RTX 30, A40), 89 Ada, 90a Hopper (H100, H200)")
find_package(CUDAToolkit 12.3 QUIET)
if(NOT CUDAToolkit_FOUND)
  message(FATAL_ERROR "the preset cuda needs the CUDA toolkit 12.3 or newer: put nvcc on the PATH, or set CUDAToolkit_ROOT")
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 12 and newer have it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(NCCL REQUIRED)  # tools/cmake/FindNCCL.cmake

