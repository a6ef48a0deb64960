#!/usr/bin/env python3
"""tools/lint and check_std_includes.py can fail: a small repository passes, and each fault planted in it is found, at its line. What needs
a clang that is not installed is skipped."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True  # the source tree stays clean
sys.path.insert(0, str(Path(__file__).parent))
from check_std_includes import check_std_includes  # noqa: E402

TREE = Path(__file__).parents[2]
HEADER = "#pragma once\n\n#include <string>\n\nstd::string name();\n"
SOURCE = '#include "base/name.hpp"\n\nstd::string name() { return "cohort"; }\n'
PLAIN = "#pragma once\n\nint count();\n"  # no source begins with it


def load_lint():
    loader = importlib.machinery.SourceFileLoader("lint", str(TREE / "tools" / "lint"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("lint", loader))
    loader.exec_module(module)
    return module


class Planted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.lint = load_lint()
        self.lint.ROOT = self.root
        self.lint.DATABASE = self.root / "build/compile-commands/compile_commands.json"
        self.lint.LIBRARIES = ["string", "vector"]
        for name in (".clang-format", ".clang-tidy"):
            (self.root / name).write_text((TREE / name).read_text())
        (self.root / "src/base").mkdir(parents=True)
        (self.root / "tests").mkdir()
        (self.root / ".gitignore").write_text("build/\n")
        self.write("name.hpp", HEADER)
        self.write("name.cpp", SOURCE)
        self.write("plain.hpp", PLAIN)
        self.lint.DATABASE.parent.mkdir(parents=True)
        self.write_database("name.cpp")
        self.git("init", "-q", "-b", "main")
        self.commit()

    def write(self, name, text):
        (self.root / "src/base" / name).write_text(text)

    def write_database(self, *names):
        flags = f"-I{self.root}/src -Wall -Wextra -Wshadow -Wconversion -std=c++20 -fopenmp -O3 -fno-thread-jumps"  # which GCC alone knows
        files = {name: f"{self.root}/src/base/{name}" for name in names}
        self.lint.DATABASE.write_text(json.dumps([{"directory": str(self.root), "file": file,
                                                   "command": f"c++ {flags} -o base.dir/{name}.o -c {file}"} for name, file in files.items()]))

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(self.root), *arguments], check=True, capture_output=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "more", "--allow-empty")

    def check(self, *arguments):
        """Exit status and output of tools/lint; skips the test where its tool is missing."""
        output = io.StringIO()
        with mock.patch.object(sys, "argv", ["lint", *arguments]), contextlib.redirect_stdout(output):
            status = self.lint.main()
        if status == self.lint.SKIPPED:
            self.skipTest(output.getvalue())
        return status, output.getvalue()

    def assert_found(self, *arguments, says):
        status, output = self.check(*arguments)
        self.assertEqual(status, 1, output)
        self.assertRegex(output, says)

    def assert_clean(self, *arguments, says="nothing found"):
        status, output = self.check(*arguments)
        self.assertEqual(status, 0, output)
        self.assertRegex(output, says)

    def test_format(self):
        self.assert_clean("format", says="3 files, nothing found")
        self.write("plain.hpp", PLAIN.replace("int count", "int  count"))
        self.assert_found("format", says=r"plain.hpp:3:")
        self.assert_clean("format", "--fix")
        self.assert_clean("format")

    def test_only_what_changed_is_looked_at(self):
        self.assert_clean("format", "--changed", "HEAD", says="no C\\+\\+ source")
        self.write("new.hpp", PLAIN)
        self.assert_clean("format", "--changed", "HEAD", says="1 files")
        self.commit()
        self.assert_clean("format", "--changed", "HEAD^", says="1 files")

    def test_a_rotation_looks_at_every_file(self):
        seen, everything = set(), set(self.lint.all_files())
        for _ in range(64):  # each a toss of a coin
            seen.update(self.lint.part_of(self.lint.all_files(), 2))
            if seen == everything:
                break
            self.commit()
        self.assertEqual(seen, everything)

    def test_an_unknown_base_is_named(self):
        with self.assertRaises(SystemExit) as raised:
            self.check("format", "--changed", "nowhere")
        self.assertIn("since nowhere is not known", str(raised.exception))

    def test_tidy(self):
        self.assert_clean("tidy")
        self.write("name.cpp", SOURCE + "int half(int n) { return n == n ? n : 0; }\n")
        self.assert_found("tidy", says=r"name.cpp:4:.*misc-redundant-expression")

    def test_tidy_needs_no_openmp(self):
        self.write("name.cpp", "#include <omp.h>\n\n" + SOURCE + "int threads() { return omp_get_max_threads(); }\n")
        self.assert_clean("tidy")

    def test_tidy_looks_at_a_header_through_a_source(self):
        self.write("name.hpp", HEADER + "inline bool none(const std::string& text) { return text.size() == 0; }\n")
        self.assert_found("tidy", "--changed", "HEAD", says=r"name.hpp:6:.*readability-container-size-empty")

    def test_tidy_looks_at_sources_together(self):
        names = [f"part{n}.cpp" for n in range(self.lint.UNIT + 1)]
        for name in names:
            self.write(name, f"int {name[:-4]}(int n) {{ return n; }}\n")
        self.write_database(*names)
        commands = self.lint.database()
        self.assertEqual([len(unit) for unit in self.lint.units_of(sorted(commands), commands)], [self.lint.UNIT, 1])
        self.assert_clean("tidy")
        self.write("part0.cpp", "#include <string.h>\n")  # which the check overlooks in what is included, if it is not told
        self.write("part1.cpp", "int part1(int n) { return n == n ? n : 0; }\n")
        self.assert_found("tidy", says=r"(?s)part0.cpp:1:.*deprecated-headers.*part1.cpp:1:.*misc-redundant-expression")

    def test_tidy_looks_alone_at_what_does_not_compile_together(self):
        self.write("first.cpp", "namespace {\nconst int kSize = 1;\n}\nint first() { return kSize; }\n")
        self.write("second.cpp", "namespace {\nconst int kSize = 2;\n}\nint second() { return kSize; }\n")
        self.write_database("first.cpp", "second.cpp")
        self.assert_clean("tidy")
        self.write("second.cpp", "namespace {\nconst int kSize = 2;\n}\nint second(int n) { return n == n ? n : kSize; }\n")
        self.assert_found("tidy", says=r"second.cpp:4:.*misc-redundant-expression")

    def test_compile(self):
        self.assert_clean("compile")
        self.write("name.cpp", SOURCE.replace('#include "base/name.hpp"\n', "#include <string>\n") + "int two() { return 2 * count(); }\n")
        self.assert_found("compile", says=r"name.cpp:4:.*undeclared identifier 'count'")  # plain.hpp is not included

    def test_compile_of_a_header_alone(self):
        self.write("plain.hpp", PLAIN + "Count many();\n")
        self.assert_found("compile", says=r"plain.hpp:4:.*unknown type name 'Count'")

    def test_compile_of_a_warning(self):
        self.write("name.cpp", SOURCE + "int low(long n) { return n; }\n")
        self.assert_found("compile", says=r"name.cpp:4:.*Wshorten-64-to-32")

    def test_std_includes(self):
        self.assertEqual(check_std_includes(self.root), [])
        self.write("plain.hpp", PLAIN + "std::vector<int> counts();  // std::map\n")
        self.assertEqual(check_std_includes(self.root), [("src/base/plain.hpp", 4, "uses std::vector without #include <vector>")])
        self.write("plain.hpp", PLAIN + "std::string named(int n) { return fmt::format(\"{}\", n); }\n")
        self.assertEqual(check_std_includes(self.root)[-1], ("src/base/plain.hpp", 4, "uses fmt::format without #include <fmt/format.h>"))


if __name__ == "__main__":
    unittest.main()
