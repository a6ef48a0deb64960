#!/usr/bin/env python3
"""The Spack environment and recipe, as far as they can be judged without Spack: spack_test.py SOURCE"""

import ast
import os
import re
import sys
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1])
FOLDER = SOURCE / "modules/spack"
try:
    import yaml
except ImportError as error:
    required = os.environ.get("COHORT_REQUIRE_MODULES") == "1"
    print(f"{'FAILED' if required else 'skipped'}: {error}; tools/install-dependencies modules installs it")
    sys.exit(1 if required else 77)

RECIPE = (FOLDER / "spack_repo/cohort/packages/cohort/package.py").read_text()
# What CMake looks for, and the name that Spack has for it; "" comes with the compiler.
NAMES = {"Threads": "", "OpenMP": "", "MPI": "mpi", "Kokkos": "kokkos", "HDF5": "hdf5", "CBLAS": "openblas", "ZLIB": "zlib-api", "Zstd": "zstd",
         "PCRE2": "pcre2",
         "Libdeflate": "libdeflate", "SentencePiece": "sentencepiece", "Utf8proc": "utf8proc",
         "fmt": "fmt", "tomlplusplus": "tomlplusplus", "CLI11": "cli11", "nlohmann_json": "nlohmann-json", "OneDNN": "onednn",
         "GTest": "googletest", "CUDAToolkit": "cuda", "NCCL": "nccl"}


def calls(function):
    """First arguments of the calls of a function in the recipe, where they are plain strings."""
    for node in ast.walk(ast.parse(RECIPE)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == function:
            if isinstance(node.args[0], ast.Constant):
                yield node.args[0].value


class Spack(unittest.TestCase):
    def test_every_library_that_cmake_looks_for_is_a_dependency(self):
        text = "".join((SOURCE / f"tools/cmake/Cohort{part}.cmake").read_text() for part in ("Dependencies", "Cuda"))
        wanted = set(re.findall(r"find_package\((\w+)", text))
        self.assertGreater(len(wanted), 10)
        self.assertEqual(wanted - set(NAMES), set(), "libraries that this test does not know")
        named = {re.split(r"[@ +~]", spec)[0] for spec in calls("depends_on")}
        self.assertEqual({NAMES[name] for name in wanted} - {""} - named, set(), "not in the recipe")

    def test_options_exist(self):
        options = (SOURCE / "tools/cmake/CohortOptions.cmake").read_text()
        for name in [*calls("define"), *calls("define_from_variant")]:
            if name.startswith("COHORT_"):
                self.assertRegex(options, rf"\b{name}\b")

    def test_version_and_cmake_are_those_of_the_tree(self):
        cmake = (SOURCE / "CMakeLists.txt").read_text()
        version = re.search(r"project\(cohort VERSION ([\d.]+)", cmake)[1]
        self.assertEqual(list(calls("version")), [version])
        self.assertIn(f"cmake@{re.search(r'cmake_minimum_required.VERSION ([0-9.]+)', cmake)[1]}:", list(calls("depends_on")))
        environment = yaml.safe_load((FOLDER / "spack.yaml").read_text())["spack"]
        self.assertEqual(environment["specs"], [f"cohort@={version}"])
        self.assertEqual(environment["develop"]["cohort"]["spec"], f"cohort@={version}")
        self.assertEqual((FOLDER / environment["develop"]["cohort"]["path"]).resolve(), SOURCE.resolve())
        repository = yaml.safe_load((FOLDER / environment["repos"][0] / "repo.yaml").read_text())["repo"]
        self.assertEqual((repository["namespace"], repository["api"]), ("cohort", "v2.0"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
