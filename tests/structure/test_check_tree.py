#!/usr/bin/env python3
"""check_tree.py can fail: a small tree that follows every rule passes, and each fault planted in it is found, at its line."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays clean
sys.path.insert(0, str(Path(__file__).parent))
from check_tree import MAX_LINES, check_tree  # noqa: E402

GOOD = {
    "src/CMakeLists.txt": "foreach(module base hdf5 gpu runtime comm mesh tensor ops models optim data)\nendforeach()\n",
    "src/base/a.hpp": "#pragma once\n#include <string>\n",
    "src/base/error.hpp": "#pragma once\n",
    "src/gpu/device_cuda.cpp": "#include <cuda_runtime.h>\n",
    "src/hdf5/file.cpp": "#include <hdf5.h>\n",
    "src/runtime/CMakeLists.txt": """if(COHORT_ENABLE_CUDA)
  set(kokkos_source kokkos_cuda.cpp)
else()
  set(kokkos_source kokkos_host.cpp)
endif()
cohort_module(runtime
  SOURCES bring_up.cpp
  KOKKOS_SOURCES ${kokkos_source}
  DEPENDS base)
""",
    "src/runtime/bring_up.cpp": "#include <mpi.h>\n",
    "src/runtime/kokkos_cuda.cpp": "#include <Kokkos_Core.hpp>\n",
    "src/runtime/kokkos_host.cpp": "#include <Kokkos_Core.hpp>\n",
    "src/tensor/CMakeLists.txt": "cohort_module(tensor KOKKOS_SOURCES spaces.cpp)\n",
    "src/tensor/spaces.hpp": "#pragma once\n#include <Kokkos_Core.hpp>\n",
    "src/tensor/spaces.cpp": '#include "tensor/spaces.hpp"\n',
    "src/ops/CMakeLists.txt": "cohort_module(ops SOURCES a.cpp KOKKOS_SOURCES norm.cpp rope.cpp LIBRARIES x)\n",
    "src/ops/parallel.hpp": '#pragma once\n#include "tensor/spaces.hpp"\n',
    "src/ops/rope.cpp": '#include "ops/parallel.hpp"\n',
    "src/ops/cuda/norm/norm.cu": '#include <cuda_runtime.h>\n#include "ops/cuda/norm/norm.hpp"\n',
    "src/ops/cuda/norm/norm.hpp": "#pragma once\nstruct CUstream_st;\n",
    "src/ops/cuda/common/tile.cuh": "#pragma once\n#include <cuda_bf16.h>\n",
    "src/ops/cuda/gemm/cublaslt_plan.hpp": "#pragma once\n#include <cublasLt.h>\n",
    "src/comm/communicator.hpp": "#pragma once\n",
    "tests/comm/reader/block_test.cpp": "",
    "tests/slurm/queue/order_test.cpp": "",
    "src/comm/mpi_communicator.cpp": '#include <mpi.h>\n#include "base/a.hpp"\n#include "comm/communicator.hpp"\n',
    "src/ops/cpu/gemm_onednn.cpp": '#include <oneapi/dnnl/dnnl.h>\n#include "base/a.hpp"\n',
    "src/ops/norm.cpp": """#include <Kokkos_Core.hpp>
// parallel_for("in a comment", n, f);
void f() {
  Kokkos::parallel_for("cohort::norm", Kokkos::RangePolicy<>(0, n), KOKKOS_LAMBDA(int i) {});
  Kokkos::parallel_reduce(
      "cohort::sum", n, functor, sum);
  Kokkos::parallel_for(label, n, functor);
  Kokkos::parallel_for(Kokkos::TeamThreadRange(team, n), [&](int i) {});
  Kokkos::View<float*> scratch("cohort::scratch", n);
  auto view = Kokkos::View<std::byte*>("cohort::" + name, bytes);
}
""",
    "src/labs/exercise.cpp": '#include "models/mlp.hpp"\n#include "comm/communicator.hpp"\n',
    "src/comm/backend/self.hpp": "#pragma once\n",
    "src/comm/reader/block.hpp": '#pragma once\n#include "comm/backend/self.hpp"\n',
    "src/comm/record/trace.hpp": '#pragma once\n#include "comm/reader/block.hpp"\n',
    "src/optim/norm.hpp": "#pragma once\n",
    "src/models/mlp.hpp": "#pragma once\n",
    "src/models/gpt2/rules.cpp": 'const char* kind = "gpt2";  // this one\n',
    "src/config/run_config.hpp": '#pragma once\nconst char* kind = "gpt2";\n',
    "src/runtime/facts.hpp.in": "",
    "src/runtime/start/facts.cpp": '#include "facts.hpp"\n',
    "src/optim/CMakeLists.txt": "file(GLOB kinds RELATIVE ${here} CONFIGURE_DEPENDS */*.cpp)\ncohort_module(optim KOKKOS_SOURCES ${kinds})\n",
    "src/optim/adamw/rules.cpp": 'const char* kind = "adamw";\n',
    "src/optim/adamw/kind.cpp": "#include <Kokkos_Core.hpp>\n",
    "src/main.cpp": '#include "models/mlp.hpp"\n',
    "inputs/good.toml": "[run]\nname = 1  # why\n",
    "jobs/good.sbatch": "# why\n#SBATCH --nodes=1\n# sets\ncd x\n",
    "tools/script": "cd $HOME/wo" "rk/run && ls /usr/lib\n",
}

# What is planted: file, its text, the line of the fault, and a piece of the message.
PLANTED = [
    ("src/base/up.cpp", '#include <string>\n#include "models/mlp.hpp"\n', 2, "models comes after base"),
    ("src/base/up.cpp", '\n  #  include "comm/communicator.hpp"\n', 2, "comm comes after base"),
    ("src/ops/talk.cpp", '#include "comm/communicator.hpp"\n', 1, "ops must not know comm"),
    ("src/models/rank.cpp", '#include "comm/communicator.hpp"\n', 1, "models must not know comm"),
    ("src/models/lost.cpp", '#include "base/none.hpp"\n', 1, "no file below src"),
    ("src/comm/near.cpp", '#include "communicator.hpp"\n', 1, "relative to src"),
    ("src/train/loop.cpp", '#include "labs/exercise.cpp"\n', 1, "nobody but main.cpp includes labs"),
    ("src/extra/new.cpp", '#include "base/a.hpp"\n', 1, "extra is missing in the order"),
    ("src/comm/self_communicator.cpp", "#include <mpi.h>\n", 1, "headers of MPI"),
    ("src/mesh/mesh.cpp", "\n\n#include <mpi.h>\n", 3, "headers of MPI"),
    ("src/data/tokens.cpp", "#include <hdf5.h>\n", 1, "headers of HDF5"),
    ("src/ops/attention.cpp", "#include <cblas.h>\n", 1, "headers of CBLAS"),
    ("src/ops/gemm.cu.hpp", "#include <cuda_runtime.h>\n#pragma once\n", 1, "headers of CUDA"),
    ("src/comm/mpi_group.cpp", "#include <nccl.h>\n", 1, "headers of NCCL"),
    ("src/ops/cuda/norm/norm.hpp", "#include <cuda_runtime.h>\n#pragma once\n", 1, "headers of CUDA"),
    ("src/ops/cuda/ops.cpp", "#include <cuda_fp16.h>\n", 1, "headers of CUDA"),
    ("src/runtime/topology.cpp", "#include <cuda_runtime.h>\n", 1, "headers of CUDA"),
    ("src/ops/gemm_cublas.cpp", "#include <cublasLt.h>\n", 1, "headers of cuBLASLt"),
    ("src/ops/cuda/rope.cu", '#include "base/error.hpp"\n', 1, "CUDA sources know no tensor"),
    ("src/ops/cuda/common/tile.cuh", "\n#include <fmt/format.h>\n#pragma once\n", 2, "CUDA sources know no tensor"),
    ("src/base/fast.cpp", "#include <Kokkos_Core.hpp>\n", 1, "Kokkos belongs only in"),
    ("src/ops/a.cpp", '#include "ops/parallel.hpp"\n', 1, "Kokkos belongs only in"),
    ("src/models/fast.cpp", '\n#include "tensor/spaces.hpp"\n', 2, "Kokkos belongs only in"),
    ("src/tensor/tensor.hpp", "#include <Kokkos_Core.hpp>\n#pragma once\n", 1, "Kokkos belongs only in"),
    ("src/ops/a.cpp", 'void f() {\n  Kokkos::parallel_for("norm", n, functor);\n}\n', 2, "kernel without a label"),
    ("src/ops/a.cpp", "void f() {\n  Kokkos::parallel_reduce(n, functor, sum);\n}\n", 2, "kernel without a label"),
    ("src/ops/a.cpp", "Kokkos::parallel_for(Kokkos::RangePolicy<>(0, n), f);\n", 1, "kernel without a label"),
    ("src/ops/a.cpp", '\nKokkos::View<float*> scratch("scratch", n);\n', 2, 'labelled "scratch"'),
    ("src/ops/a.cpp", 'auto v = Kokkos::View<float**>("v", n, n);\n', 1, 'labelled "v"'),
    ("src/ops/a.cpp", 'HostView scratch("scratch", n);\n', 1, 'labelled "scratch"'),
    ("src/ops/a.cpp", 'f(Kokkos::view_alloc(space, "w"));\n', 1, 'labelled "w"'),
    ("src/comm/kind.cpp", 'bool f() {\n  return kind == "gpt2";\n}\n', 2, "names the family gpt2"),
    ("src/models/llama/family.cpp", 'const char* kind = "gpt2";\n', 1, "names the family gpt2"),
    ("src/comm/a.hpp", "#pragma once\n", 1, "is called a.hpp, as base/a.hpp is"),
    ("src/comm/backend/self.cpp", '\n#include "comm/record/trace.hpp"\n', 2, "comm/backend includes comm/record"),
    ("src/comm/kind.cpp", '\nreturn kind == "adamw";\n', 2, "names the optimizer adamw"),
    ("src/optim/cpu.cpp", "\n#include <Kokkos_Core.hpp>\n", 2, "Kokkos belongs only in"),
    ("src/base/bare.hpp", "// #pragma once\nstruct Bare {};\n", 1, "without #pragma once"),
    ("src/base/cut.hpp", "#pragma once\n/// // Collective over: world\nvoid f();\n", 2, "comment inside a comment"),
    ("tests/cut_test.cpp", 'f("a sentence that is so long that it is cut and goes on "\n  "wait "\n  "for those");\n', 2, "piece of a string literal"),
    ("tests/comm/nccl/queue_test.cpp", "", 1, "src/comm/nccl"),
    ("tests/ops/test_gemm.cpp", "\nTEST(Gemm, Adds) {}\n", 2, "not named x_test.cpp"),
    ("src/ops/long.cpp", "\n" * (MAX_LINES + 1), MAX_LINES, "split it"),
    ("tests/long.py", "\n" * (MAX_LINES + 1), MAX_LINES, "split it"),
    ("jobs/a.sbatch", "\ncd " + "/".join(["", "work", "main"]) + "\n", 2, "somebody's machine"),
    ("README.md", "see " + "/".join(["", "root", "notes"]) + "\n", 1, "somebody's machine"),
    ("inputs/a.toml", '# ' + "/".join(["", "home", "jane", "x"]) + '\n', 1, "somebody's machine"),
    ("inputs/bare.toml", "[run]\nname = 1\n", 2, "setting without a comment"),
    ("jobs/bare.sbatch", "# why\n#SBATCH --nodes=1\n#SBATCH --time=1\n", 3, "without a comment above"),
    ("tools/get", "curl https://mirror." + "pkg.dev/x\n", 1, "package mirror"),
]


def faults_of(files):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return check_tree(root)


class PlantedFaults(unittest.TestCase):
    def test_good_tree_passes(self):
        self.assertEqual(faults_of(GOOD), [])

    def test_each_fault_is_found_alone(self):
        for name, text, line, message in PLANTED:
            with self.subTest(name=name, message=message):
                faults = faults_of({**GOOD, name: text})
                self.assertEqual([(f[0], f[1]) for f in faults], [(name, line)], faults)
                self.assertIn(message, faults[0][2])


if __name__ == "__main__":
    unittest.main()
