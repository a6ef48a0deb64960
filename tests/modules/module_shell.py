"""A shell with one of the module systems that tools/module-systems unpacks, in an environment of its own."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which

# Twice the same folder in PATH would be made one by Lmod, and PATH could not be compared.
PATH = "/usr/local/bin:/usr/bin:/bin"


def unpacked(source, system):
    """The folder of the module system; without it the test is skipped (77), or fails if COHORT_REQUIRE_MODULES=1."""
    folder = source / "build/module-systems"
    if (folder / "complete").exists() and which("tclsh") and which("lua5.3"):
        return folder / ("environment-modules" if system == "environment-modules" else "lmod")
    required = os.environ.get("COHORT_REQUIRE_MODULES") == "1"
    print(f"{'FAILED' if required else 'skipped'}: no module systems in {folder}, or no tclsh or lua5.3; tools/module-systems gets them")
    sys.exit(1 if required else 77)


class ModuleShell:
    def __init__(self, folder):
        if folder.name == "lmod":
            command = f"{folder}/usr/share/lmod/lmod/libexec/lmod bash"
        else:
            command = f"{which('tclsh')} {next(folder.glob('usr/lib/*/modulecmd.tcl'))} bash"
        # What the init file of either system defines, without the settings of this machine.
        self.preamble = f'module() {{ eval "$({command} "$@")"; }}\n'

    def run(self, script, **variables):
        """Runs the script in bash. Returns its stdout and its stderr, in which module systems speak."""
        with tempfile.TemporaryDirectory() as home:
            environment = {"PATH": PATH, "HOME": home, "LMOD_PAGER": "none", "LMOD_COLORIZE": "no", **variables}
            done = subprocess.run(["bash", "-c", self.preamble + script], env=environment, capture_output=True, text=True, timeout=60)
        return done.stdout, done.stderr


def lines(path, content):
    """Writes a file, and the folders above it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
