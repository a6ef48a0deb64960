#!/usr/bin/env python3
"""tools/install-dependencies against a pretended system: stand-ins for apt-get, dpkg-query, sudo, id, pip and brew note what was asked of
them. tools/try-distribution runs it on real ones."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from shutil import which

SCRIPT = Path(__file__).parents[2] / "tools" / "install-dependencies"
PACKAGES = re.search(r"packages_build=\((.*?)\n\)", SCRIPT.read_text(), re.S)[1]
PACKAGES = re.sub(r"#[^\n]*", "", PACKAGES).split()
FORMULAE = re.search(r"brew_build=\((.*?)\)", SCRIPT.read_text())[1].split()


class System:
    """A folder that is the whole PATH of the script."""

    def __init__(self, folder, installed, root=True, sudo=False, apt=True, mac=False, unknown=()):
        self.bin, self.log = Path(folder), Path(folder) / "log"
        self.log.touch()
        for tool in ("bash", "env", "sed", "tr", "mktemp", "rm"):
            (self.bin / tool).symlink_to(which(tool))
        self.tool("uname", f"echo {'Darwin' if mac else 'Linux'}")
        if apt:
            self.tool("apt-get", f'echo "apt-get $*" >> {self.log}')
            answer = " ".join(f"{package}:installed" for package in installed)
            self.tool("apt-cache", f'[[ " {" ".join(unknown)} " != *" $2 "* ]]')
            self.tool("python3", f'echo "python3 $*" >> {self.log}')
            self.tool("tar", f'echo "tar $*" >> {self.log}')
            self.tool("dpkg-query", f'echo -n "{answer} "; exit 1')  # like the real one when a package is unknown
        if mac:
            self.tool("brew", f'[[ $1 == list ]] && printf "%s\\n" {" ".join(installed)} || echo "brew $*" >> {self.log}')
        if sudo:
            self.tool("sudo", f'echo -n "sudo " >> {self.log}; exec "$@"')
        self.tool("id", f"echo {0 if root else 1000}")

    def tool(self, name, body):
        (self.bin / name).write_text(f"#!{which('bash')}\n{body}\n")
        (self.bin / name).chmod(0o755)

    def run(self, *arguments, **environment):
        environment = {"PATH": str(self.bin), "TOMLPLUSPLUS_HEADERS": str(self.bin / "toml++"), **environment}
        result = subprocess.run([SCRIPT, *arguments], env=environment, capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, timeout=20)
        return result.returncode, result.stdout + result.stderr, self.log.read_text().splitlines()


class InstallDependencies(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_nothing_missing_calls_no_apt(self):
        self.assertEqual(System(self.folder, PACKAGES).run(), (0, "", []))

    def test_installs_exactly_what_is_missing(self):
        system = System(self.folder, [p for p in PACKAGES if p not in ("ccache", "libgtest-dev")])
        code, _, calls = system.run()
        self.assertEqual(code, 0)
        self.assertEqual(len(calls), 2)
        self.assertTrue(calls[0].endswith(" update"), calls)
        self.assertTrue(calls[1].endswith(" install -y --no-install-recommends ccache libgtest-dev"), calls)

    def test_check_installs_nothing_and_fails(self):
        code, text, calls = System(self.folder, [p for p in PACKAGES if p != "cmake"]).run("--check")
        self.assertEqual((code, text, calls), (1, "missing: cmake\n", []))

    def test_goes_through_sudo_when_not_root(self):
        code, _, calls = System(self.folder, [], root=False, sudo=True).run("format")
        self.assertEqual(code, 0)
        self.assertEqual(len(calls), 2)
        self.assertTrue(all(call.startswith("sudo apt-get ") for call in calls), calls)

    def test_without_root_and_sudo_prints_the_command(self):
        code, text, calls = System(self.folder, [], root=False).run("format")
        self.assertEqual((code, calls), (1, []))
        self.assertIn("apt-get install --no-install-recommends clang-format python3-venv", text)
        self.assertIn("INSTALL=no", text)

    def test_without_apt_names_the_packages_and_goes_on(self):
        code, text, _ = System(self.folder, [], apt=False).run()
        self.assertEqual(code, 0)
        for package in PACKAGES:
            self.assertIn(package, text)

    def test_another_kokkos_replaces_debians(self):
        system = System(self.folder, [p for p in PACKAGES if p != "libtrilinos-kokkos-dev"])
        self.assertEqual(system.run("--check", Kokkos_ROOT="/opt/kokkos"), (0, "", []))
        self.assertEqual(system.run("--check")[0], 1)

    def test_every_set_can_be_asked_for(self):
        for name in ("build", "format", "python", "modules", "cluster"):
            with tempfile.TemporaryDirectory() as folder:
                code, text, calls = System(folder, []).run("--check", name)
                self.assertEqual((code, calls), (1, []))
                self.assertRegex(text, r"^missing: \S+")

    def test_tomlplusplus_comes_from_pypi_where_it_has_no_package(self):
        installed = [p for p in PACKAGES if p not in ("libtomlplusplus-dev", "cmake")]
        system = System(self.folder, installed, root=False, sudo=True, unknown=["libtomlplusplus-dev"])
        code, text, calls = system.run()
        self.assertEqual(code, 0, text)
        self.assertTrue(calls[1].endswith(" install -y --no-install-recommends cmake"), calls)  # apt is not asked for what it has not
        self.assertTrue(calls[2].endswith(" install -y --no-install-recommends python3-pip"), calls)
        self.assertRegex(calls[3], r"^python3 -m pip download .* pytomlpp==[\d.]+$")
        self.assertRegex(calls[4], r"^sudo tar -C /usr/local/include ")
        (system.bin / "toml++").mkdir()
        (system.bin / "toml++/toml.h").touch()
        self.assertEqual(system.run("--check")[1], "missing: cmake\n")

    def test_failing_pip_tells_the_way_out(self):
        system = System(self.folder, [p for p in PACKAGES if p != "libtomlplusplus-dev"], unknown=["libtomlplusplus-dev"])
        system.tool("python3", "exit 1")
        code, text, _ = system.run()
        self.assertEqual(code, 1)
        self.assertIn("docs/install.md", text)

    def test_homebrew(self):
        system = System(self.folder, [f for f in FORMULAE if f not in ("kokkos", "fmt")], apt=False, mac=True)
        self.assertEqual(system.run("--check"), (1, "missing: kokkos fmt\n", []))
        self.assertEqual(system.run("--check", Kokkos_ROOT="/opt/kokkos"), (1, "missing: fmt\n", []))
        self.assertEqual(system.run(), (0, "", ["brew install kokkos fmt"]))
        code, text, _ = system.run("cluster")
        self.assertEqual(code, 1)
        self.assertIn("Debian and Ubuntu alone", text)

    def test_homebrew_with_nothing_missing(self):
        system = System(self.folder, FORMULAE, apt=False, mac=True)
        self.assertEqual(system.run("--check"), (0, "", []))
        self.assertEqual(system.run(), (0, "", []))

    def test_failing_apt_fails(self):
        system = System(self.folder, [])
        system.tool("apt-get", "exit 100")
        code, text, _ = system.run()
        self.assertEqual(code, 1)
        self.assertIn("Try it by hand", text)

    def test_wrong_argument_is_refused(self):
        self.assertEqual(System(self.folder, PACKAGES).run("--cheque")[0], 2)


if __name__ == "__main__":
    unittest.main()
