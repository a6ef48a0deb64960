#!/usr/bin/env python3
"""The Debian package and the source tarball: package_test.py SOURCE BUILD CPACK CMAKE

The package is made of what BUILD has compiled, and unpacked, not installed: its dependencies, its files, and that the program runs from there.
The tarball is made by `make dist` of the last commit: it has every file, and configures."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE, BUILD = Path(sys.argv[1]), Path(sys.argv[2])
CPACK, CMAKE = sys.argv[3:5]
VERSION = re.search(r"project\(cohort VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
    if done.returncode:
        raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


@unittest.skipUnless(shutil.which("dpkg-shlibdeps"), "this is no Debian")
class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        run(CPACK, "--config", str(BUILD / "CPackConfig.cmake"), "-B", cls.folder.name)
        cls.package, = Path(cls.folder.name).glob("*.deb")
        cls.root = Path(cls.folder.name) / "root"
        run("dpkg-deb", "--extract", str(cls.package), str(cls.root))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def field(self, name):
        return run("dpkg-deb", "--field", str(self.package), name).strip()

    def test_its_name_is_debians(self):
        self.assertEqual(self.package.name, f"cohort_{VERSION}_{self.field('Architecture')}.deb")
        self.assertEqual((self.field("Package"), self.field("Version"), self.field("Section")), ("cohort", VERSION, "science"))

    def test_it_depends_on_what_the_program_needs(self):
        named = set(re.findall(r"(?:^|, )([a-z0-9.+-]+)", self.field("Depends")))
        self.assertIn("openmpi-bin", named)  # mpirun
        for library in re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", str(self.root / "usr/bin/cohort"))):
            if library.startswith(("libm.so", "ld-linux", "libasan", "libubsan")):
                continue  # libc6 has the first two; nobody packages a build with sanitizers
            owners = {line.split(":")[0] for line in run("dpkg-query", "--search", f"*/{library}").splitlines()}
            self.assertTrue(owners & named, f"{library}: of {sorted(owners)}, none is in {sorted(named)}")

    def test_it_is_the_installation_below_usr(self):
        files = {path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file()}
        self.assertTrue({"usr/bin/cohort", "usr/share/cohort/inputs/demo.toml", "usr/share/cohort/jobs/lab01.sbatch",
                         "usr/share/doc/cohort/README.md"} <= files)
        self.assertEqual([name for name in files if not name.startswith(("usr/bin/", "usr/share/cohort/", "usr/share/doc/cohort/"))], [])

    def test_the_program_runs_and_finds_its_job_templates(self):
        self.assertEqual(run(self.root / "usr/bin/cohort", "--version"), f"cohort {VERSION}\n")
        self.assertIn("single_node", run(self.root / "usr/bin/cohort", "job", "--list", env={**os.environ, "COHORT_SITE": "generic"}))


@unittest.skipUnless(shutil.which("git") and (SOURCE / ".git").exists(), "the sources are no clone")
class Tarball(unittest.TestCase):
    def test_make_dist_holds_every_file_and_configures(self):
        with tempfile.TemporaryDirectory() as folder:
            # a clone, so that a tarball which somebody made stays as it is
            run("git", "-c", "safe.directory=*", "clone", "--quiet", "--no-local", str(SOURCE), "clone", cwd=folder)
            run("make", "--silent", "dist", cwd=f"{folder}/clone")
            run("tar", "-xzf", f"clone/build/cohort-{VERSION}.tar.gz", cwd=folder)
            tree = Path(folder) / f"cohort-{VERSION}"
            files = {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}
            self.assertEqual(files, set(run("git", "ls-files", cwd=f"{folder}/clone").splitlines()))
            said = run(CMAKE, "--preset", "cpu", "-DCOHORT_ENABLE_TESTS=OFF", cwd=tree)
            self.assertIn(f"Cohort {VERSION}", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
