"""Spack's recipe for Cohort; modules/spack/spack.yaml says how to use it and when it was last tested."""

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Cohort(CMakePackage, CudaPackage):
    """Trains transformer language models on MPI ranks, on CPUs and NVIDIA GPUs, under SLURM and on a laptop."""

    license("MIT")

    # No download: an environment names the source tree under `develop`.
    version("0.1.0")

    variant("onednn", default=True, description="Matrix products on CPUs by oneDNN, else by OpenBLAS")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")

    depends_on("mpi")
    depends_on("hdf5@1.10: +mpi")
    depends_on("kokkos@4: cxxstd=20")
    depends_on("openblas")
    depends_on("zlib-api")
    depends_on("zstd@1.4:")
    depends_on("pcre2@10.32:")
    depends_on("libdeflate")
    depends_on("sentencepiece")
    depends_on("utf8proc")
    depends_on("fmt@9")  # newer ones are untried
    depends_on("tomlplusplus@3.3:")
    depends_on("cli11@2.3:")
    depends_on("nlohmann-json@3.11:")
    depends_on("onednn@2:", when="+onednn")
    depends_on("googletest@1.12:", type="test")

    with when("+cuda"):
        conflicts("cuda_arch=none", msg="name the GPUs, as in cuda_arch=90 for H100")
        depends_on("cuda@12.5:")
        depends_on("nccl")
        # nvcc compiles what includes Kokkos as the CMake language CUDA: no nvcc_wrapper
        for _arch in CudaPackage.cuda_arch_values:
            depends_on(f"kokkos +cuda +cmake_lang ~wrapper cuda_arch={_arch}", when=f"cuda_arch={_arch}")

    def cmake_args(self):
        arguments = [
            self.define("COHORT_ENABLE_TESTS", self.run_tests),
            self.define_from_variant("COHORT_ENABLE_CUDA", "cuda"),
            self.define_from_variant("COHORT_ENABLE_ONEDNN", "onednn"),
            self.define_from_variant("COHORT_REQUIRE_ONEDNN", "onednn"),
            self.define("COHORT_ARCH", ""),  # Spack's compilers add the flags of its target
        ]
        if self.spec.satisfies("+cuda"):
            # 90a is Hopper with the instructions that the fast attention kernels use
            archs = ["90a" if arch == "90" else arch for arch in self.spec.variants["cuda_arch"].value]
            arguments.append(self.define("CMAKE_CUDA_ARCHITECTURES", archs))
        return arguments
