#!/usr/bin/env python3
"""What `cmake --install` copies, and that the installed program needs nothing of the source tree.

install_test.py SOURCE BUILD STAGE CMAKE: leaves the installation in STAGE/opt/cohort, where the tests of modulefiles load it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE, BUILD, STAGE = (Path(word) for word in sys.argv[1:4])
CMAKE = sys.argv[4]
ROOT = STAGE / "opt/cohort"
PREFIX = "/opt/cohort"  # asked for, but only STAGE/opt/cohort exists


def files_below(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def setUpModule():
    shutil.rmtree(STAGE, ignore_errors=True)
    subprocess.run([CMAKE, "--install", BUILD, "--prefix", PREFIX], env={**os.environ, "DESTDIR": str(STAGE)}, check=True, capture_output=True)


class Install(unittest.TestCase):
    def test_labs_need_nothing_but_what_is_installed(self):
        program = ROOT / "bin/cohort"
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([program, "lab", "start", "3"], cwd=folder, check=True, capture_output=True)
            shutil.copy(ROOT / "share/cohort/labs/03_collectives/solution.cpp", f"{folder}/labs/03_collectives/exercise.cpp")
            done = subprocess.run([program, "lab", "check", "3"], cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_tree_is_exactly_this(self):
        version = re.search(r"project\(cohort VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        wanted = {"bin/cohort", *(f"share/doc/cohort/{name}" for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"))}
        wanted |= {f"share/doc/cohort/docs/{name}" for name in files_below(SOURCE / "docs")}
        wanted |= {f"share/cohort/modulefiles/lmod/cohort/{version}.lua", f"share/cohort/modulefiles/tcl/cohort/{version}"}
        for folder in ("inputs", "jobs"):
            wanted |= {f"share/cohort/{folder}/{name}" for name in files_below(SOURCE / folder)}
        labs = SOURCE / "src/labs"
        wanted |= {f"share/cohort/labs/include/cohort/{path.name}" for path in (labs / "include/cohort").iterdir()}
        for grader in labs.glob("*/grader.cpp"):
            wanted |= {f"share/cohort/labs/{grader.parent.name}/{name}" for name in ("handout.md", "hints.md", "questions.md", "exercise.cpp", "solution.cpp")}
            wanted |= {f"share/cohort/labs/{grader.parent.name}/{path.name}" for path in grader.parent.glob("*.svg")}
        self.assertEqual(files_below(ROOT), wanted)
        self.assertEqual(files_below(STAGE), {f"opt/cohort/{name}" for name in wanted})  # DESTDIR holds all of it

    def test_no_text_file_names_the_prefix_or_the_source_tree(self):
        for name in files_below(ROOT) - {"bin/cohort"}:
            text = (ROOT / name).read_text()
            self.assertNotIn(str(SOURCE), text, name)
            if "modulefiles" in name:
                self.assertNotIn(PREFIX, text, name)

    def test_the_program_names_the_source_tree_only_where_a_check_failed(self):
        program = (ROOT / "bin/cohort").read_bytes()
        for match in re.finditer(re.escape(os.fsencode(SOURCE)) + rb"/[\x20-\x7e]*", program):
            self.assertRegex(match[0], rb"\.(cpp|hpp|cu|cuh)$")

    def test_libraries_are_looked_for_outside_of_source_and_build_tree(self):
        dynamic = subprocess.run(["readelf", "-d", ROOT / "bin/cohort"], capture_output=True, text=True, check=True).stdout
        for path in re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", dynamic):
            for folder in path.split(":"):
                self.assertFalse(Path(folder).is_relative_to(SOURCE) or Path(folder).is_relative_to(BUILD), path)

    def test_it_trains_from_its_own_run_files_in_any_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            def cohort(*words):
                environment = {k: v for k, v in os.environ.items() if not k.startswith("COHORT")}
                done = subprocess.run([ROOT / "bin/cohort", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                return done.stdout

            self.assertRegex(cohort("--version"), r"^cohort \d+\.\d+\.\d+$")
            Path(folder, "data").mkdir()
            cohort("data", "synth", "stories", "--out", "data/stories.txt")
            cohort("data", "prepare", "--input", "data/stories.txt", "--out", "data/stories.h5", "--tokenizer", "char")
            cohort("train", f"{ROOT}/share/cohort/inputs/demo.toml", "--set", "train.steps=1", "--set", "schedule.warmup_steps=0")
            self.assertTrue(Path(folder, "runs/demo/metrics.jsonl").is_file())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
