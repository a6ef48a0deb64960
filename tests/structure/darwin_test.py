#!/usr/bin/env python3
"""What a Mac would compile: darwin_test.py SOURCE

Whatever only Linux has stands in sources named *_linux.cpp, each with a sibling *_darwin.cpp; and these siblings compile, by clang against
the stand-ins for macOS's headers in tests/structure/darwin. All other sources are the same on both systems."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1])
STANDINS = Path(__file__).parent / "darwin"
CLANG = next(filter(None, map(shutil.which, ("clang++", "clang++-19", "clang++-16", "clang++-14"))), None)
ONLY_LINUX = re.compile(
    r"#include <(?:sys/(?:epoll|eventfd|fsuid|inotify|prctl|sendfile|signalfd|statfs|sysinfo|sysmacros|timerfd|vfs)|linux/\w+|sched|malloc|link|elf)\.h>"
    r"|\b(?:MSG_NOSIGNAL|SOCK_CLOEXEC|SOCK_NONBLOCK|O_TMPFILE|O_DIRECT|O_PATH|__rlimit_resource_t|program_invocation_name)\b"
    r"|\b(?:accept4|eventfd|fallocate|get_nprocs|gettid|memfd_create|pipe2|posix_fadvise|prctl|sched_getaffinity|secure_getenv|statx)\("
    r'|"/proc/(?!driver/)')  # /proc/driver/nvidia and /sys/class/infiniband: a Mac has neither folder, nor such devices


def only_linux(text):
    """What of a source only Linux has; comments are left out."""
    return ONLY_LINUX.findall(re.sub(r"//[^\n]*", "", text))


class Darwin(unittest.TestCase):
    def test_only_sources_named_for_it_use_what_only_linux_has(self):
        for path in [*SOURCE.glob("src/**/*.cpp"), *SOURCE.glob("src/**/*.hpp")]:
            if not path.stem.endswith("_linux") and "cuda" not in path.parts:
                self.assertEqual(only_linux(path.read_text()), [], path)

    def test_planted_uses_are_found(self):
        for line in ("#include <sys/eventfd.h>", "send(fd, p, n, MSG_NOSIGNAL);", 'open("/proc/self/exe")', "posix_fadvise(fd, 0, 0, 4);"):
            self.assertEqual(len(only_linux(line)), 1, line)
        self.assertEqual(only_linux('"/proc/driver/nvidia/gpus"  // not /proc/self'), [])

    def test_each_has_a_sibling(self):
        def stems(system):
            return {str(path).removesuffix(f"_{system}.cpp") for path in SOURCE.glob(f"src/**/*_{system}.cpp")}
        self.assertGreater(len(stems("linux")), 3)
        self.assertEqual(stems("linux"), stems("darwin"))

    @unittest.skipIf(CLANG is None, "there is no clang")
    def test_the_siblings_compile(self):
        def problems(path):
            command = [CLANG, "-fsyntax-only", "-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/src", "-isystem", STANDINS,
                       "-include", STANDINS / "values.h", path]
            return subprocess.run(command, capture_output=True, text=True).stderr
        for path in sorted(SOURCE.glob("src/**/*_darwin.cpp")):
            self.assertEqual(problems(path), "", path)
        with tempfile.TemporaryDirectory() as folder:
            broken = Path(folder, "broken_darwin.cpp")
            broken.write_text((SOURCE / "src/base/machine_darwin.cpp").read_text().replace("HOST_VM_INFO64,", "HOST_VM_INFO63,"))
            self.assertIn("HOST_VM_INFO63", problems(broken))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
