#!/usr/bin/env python3
"""The modulefiles in the module systems that read them: modulefiles_test.py SYSTEM SOURCE PREFIX VERSION CMAKE

SYSTEM: lmod (the Lua files), environment-modules (the Tcl files), or lmod-with-tcl, since Lmod reads Tcl files too. PREFIX holds an
installation that was made for another prefix."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays clean
sys.path.insert(0, str(Path(__file__).parent))
from module_shell import PATH, ModuleShell, lines, unpacked  # noqa: E402

SYSTEM, SOURCE, PREFIX, VERSION, CMAKE = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], sys.argv[5]
SHELL = ModuleShell(unpacked(SOURCE, SYSTEM))
IS_LMOD = SYSTEM != "environment-modules"
LANGUAGE = "lmod" if SYSTEM == "lmod" else "tcl"
SUFFIX = ".lua" if LANGUAGE == "lmod" else ""


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def site_module(self, name, **variables):
        """A module of the site, which sets variables and prepends /opt/NAME/bin to PATH."""
        if LANGUAGE == "lmod":
            text = "".join(f'setenv("{key}", "{value}")\n' for key, value in variables.items())
            text += f'prepend_path("PATH", "/opt/{name}/bin")\n'
        else:
            text = "#%Module1.0\n" + "".join(f"setenv {key} {value}\n" for key, value in variables.items())
            text += f"prepend-path PATH /opt/{name}/bin\n"
        lines(self.folder / "site" / (name + SUFFIX), text)


class Installed(Folder):
    use = f"module use {PREFIX}/share/cohort/modulefiles/{LANGUAGE}\n"

    def test_load_gives_the_program_of_this_prefix(self):
        out, said = SHELL.run(self.use + 'module load cohort && type -P cohort && cohort --version && echo "$COHORT_ROOT"')
        self.assertEqual(out.splitlines(), [f"{PREFIX}/bin/cohort", f"cohort {VERSION}", str(PREFIX)], said)
        self.assertEqual(said, "")

    def test_load_by_version_is_listed(self):
        _, said = SHELL.run(self.use + f"module load cohort/{VERSION}; module list")
        self.assertIn(f"cohort/{VERSION}", said)

    def test_unload_leaves_the_environment_as_it_was(self):
        out, said = SHELL.run(self.use + 'module load cohort; module unload cohort; echo "$PATH|${COHORT_ROOT-unset}"')
        self.assertEqual(out, f"{PATH}|unset\n", said)

    def test_show_help_whatis_and_avail(self):
        for command, wanted in {
            "show cohort": [f"{PREFIX}/bin", "COHORT_ROOT", "PATH"],
            "help cohort": ["cohort info", "srun --mpi=pmix", "$COHORT_ROOT/share/cohort/inputs"],
            "whatis cohort": [VERSION, "trains transformer language models"],
            "avail": [f"cohort/{VERSION}"],
        }.items():
            out, said = SHELL.run(self.use + f"module {command}")
            for part in wanted:
                self.assertIn(part, out + said, command)
            self.assertNotRegex(said, "(?i)error", command)

    def test_an_mpi_that_is_missing_is_said_and_stops_nothing(self):
        out, said = SHELL.run(self.use + 'PATH=/nowhere; module load cohort; echo "$COHORT_ROOT"')
        self.assertEqual(out, f"{PREFIX}\n")
        self.assertEqual(said.count("no mpirun on the PATH"), 1, said)

    def test_a_modulefile_that_was_copied_away_says_so(self):
        lines(self.folder / "cohort" / (VERSION + SUFFIX), self.modulefile().read_text())
        out, said = SHELL.run(f'module use {self.folder}\nmodule load cohort; echo "$PATH|${{COHORT_ROOT-unset}}"')
        self.assertIn("module use PREFIX", " ".join(said.split()))
        self.assertEqual(out, f"{PATH}|unset\n")

    def modulefile(self):
        return PREFIX / "share/cohort/modulefiles" / LANGUAGE / "cohort" / (VERSION + SUFFIX)

    def test_two_versions_are_never_loaded_at_once(self):
        other = self.folder / "9.9.9"
        shutil.copytree(PREFIX / "bin", other / "bin")
        lines(other / "share/cohort/modulefiles" / LANGUAGE / "cohort" / ("9.9.9" + SUFFIX), self.modulefile().read_text())
        both = self.use + f"module use {other}/share/cohort/modulefiles/{LANGUAGE}\nmodule load cohort/{VERSION}; module load cohort/9.9.9"
        report = '\necho "$COHORT_ROOT|$PATH"'
        first, second = f"{PREFIX}|{PREFIX}/bin:{PATH}\n", f"{other}|{other}/bin:{PATH}\n"
        out, said = SHELL.run(both + report)
        self.assertEqual(out, second if IS_LMOD else first, said)  # Lmod takes the new one for the old, the other refuses it
        self.assertRegex(said, "reloaded with a version change" if IS_LMOD else "conflict")
        if IS_LMOD:  # a site may switch that off
            out, said = SHELL.run(both + report, LMOD_DISABLE_SAME_NAME_AUTOSWAP="yes")
            self.assertEqual(out, first, said)

    def test_required_modules_are_loaded_first_and_unloaded_last(self):
        self.site_module("gcc/12.2")
        self.site_module("openmpi/4.1.4")
        program = f"""include({SOURCE}/tools/cmake/CohortModulefiles.cmake)
cohort_configure_modulefiles({SOURCE}/modules/installed {self.folder}/made {VERSION} "gcc/12.2;openmpi/4.1.4")
"""
        lines(self.folder / "make.cmake", program)
        subprocess.run([CMAKE, "-P", self.folder / "make.cmake"], check=True)
        made = self.folder / "made" / ("cohort.lua" if LANGUAGE == "lmod" else "cohort.tcl")
        lines(self.folder / f"share/cohort/modulefiles/{LANGUAGE}/cohort/{VERSION}{SUFFIX}", made.read_text())
        shutil.copytree(PREFIX / "bin", self.folder / "bin")
        out, said = SHELL.run(f"""module use {self.folder}/site {self.folder}/share/cohort/modulefiles/{LANGUAGE}
module load cohort; echo $PATH; module unload cohort; echo $PATH""")
        self.assertEqual(out, f"{self.folder}/bin:/opt/openmpi/4.1.4/bin:/opt/gcc/12.2/bin:{PATH}\n{PATH}\n", said)


@unittest.skipIf(SYSTEM == "lmod-with-tcl", "modules/tcl/cohort-build says why")
class Build(Folder):
    """cohort-build, with modules of a site that were made up."""

    names = ("CC", "CXX", "INSTALL", "Kokkos_ROOT", "HDF5_ROOT", "CBLAS_ROOT", "CUDAToolkit_ROOT", "NCCL_ROOT", "COHORT_BUILD_SET")
    report = "\nfor name in " + " ".join(names) + '; do echo "$name=${!name}"; done; echo "PATH=$PATH"\n'

    def use(self):
        return f"module use {self.folder}/site {SOURCE}/modules/{LANGUAGE}\n"

    def state(self, text):
        return dict(line.split("=", 1) for line in text.splitlines())

    def test_translates_what_the_modules_of_the_site_set(self):
        self.site_module("kokkos/4.6", KOKKOS_ROOT="/opt/kokkos")
        self.site_module("hdf5-mpi/1.14", HDF5_DIR="/opt/hdf5")
        self.site_module("cuda/12.6", CUDA_HOME="/opt/cuda")
        out, said = SHELL.run(self.use() + "module load cohort-build" + self.report + "module unload cohort-build" + self.report,
                              COHORT_BUILD_MODULES="kokkos/4.6  hdf5-mpi/1.14 cuda/12.6", HDF5_ROOT="/mine", CXX="clang++")
        rows = out.splitlines()
        loaded, unloaded = self.state("\n".join(rows[:len(rows) // 2])), self.state("\n".join(rows[len(rows) // 2:]))
        wanted = {"CC": "gcc", "CXX": "clang++", "INSTALL": "no", "Kokkos_ROOT": "/opt/kokkos", "HDF5_ROOT": "/mine", "CBLAS_ROOT": "",
                  "CUDAToolkit_ROOT": "/opt/cuda", "NCCL_ROOT": "", "COHORT_BUILD_SET": "CC:INSTALL:Kokkos_ROOT:CUDAToolkit_ROOT",
                  "PATH": f"/opt/cuda/12.6/bin:/opt/hdf5-mpi/1.14/bin:/opt/kokkos/4.6/bin:{PATH}"}
        self.assertEqual(loaded, wanted, said)
        before = {name: "" for name in wanted} | {"PATH": PATH, "HDF5_ROOT": "/mine", "CXX": "clang++"}
        self.assertEqual(unloaded, before, said)

    def test_works_without_modules_of_the_site(self):
        out, said = SHELL.run(self.use() + "module load cohort-build" + self.report)
        self.assertEqual(self.state(out)["COHORT_BUILD_SET"], "CC:CXX:INSTALL", said)

    def test_a_module_of_the_site_that_is_not_there_is_an_error(self):
        out, said = SHELL.run(self.use() + "module load cohort-build" + self.report, COHORT_BUILD_MODULES="kokkos/9")
        self.assertIn("kokkos/9", said)
        self.assertEqual(self.state(out)["COHORT_BUILD_SET"], "")

    def test_missing_programs_are_named(self):
        _, said = SHELL.run(self.use() + "PATH=/nowhere; module load cohort-build")
        for program in ("cmake", "ninja", "mpicc", "mpirun"):
            self.assertIn(f"no {program} on the PATH", said)

    def test_help_and_whatis(self):
        out, said = SHELL.run(self.use() + "module help cohort-build; module whatis cohort-build")
        self.assertIn("COHORT_BUILD_MODULES", out + said)
        self.assertIn("sets up the build of Cohort", out + said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
