#!/usr/bin/env python3
"""check_docs.py and tools/draw_house.py find what is planted: a small tree is sound, and each fault in it is named with its place."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays clean
sys.path.insert(0, str(Path(__file__).parent))
from check_docs import check_docs  # noqa: E402

DRAW = Path(__file__).resolve().parents[2] / "tools/draw_house.py"
ARCHITECTURE = """The loop is `train/trainer.cpp:Trainer::train` in `src/train/trainer.cpp`, families in `models/FAMILY/rules.cpp`; see [words](glossary.md).
Also `train/trainer.{hpp,cpp}`, `trainer.hpp`, `Trainer::train`, `runs/demo/model.h5`, `logs/rank_0/train.log` and
`train/words.h5`, which people and runs make.

```bash
cat `src/no/such.cpp`
```

| `base` | errors |
| `models` | families |
| `train` | the loop |
"""
GLOSSARY = """# Glossary

**axis** of the mesh.
**bucket** a range.
**Zero** a strategy.
"""


class Tree:
    """A small sound tree in a folder of its own."""

    def __init__(self, folder):
        self.root = Path(folder)
        self.write("src/CMakeLists.txt", "foreach(module base models train)\nendforeach()\n")
        self.write("src/base/error.hpp", "enum class ExitCode : int {\n  success = 0,\n  io = 7,  // files\n};\n")
        self.write("src/models/llama/rules.cpp", '#include "base/error.hpp"\n')
        self.write("src/train/trainer.hpp", '// The step is in train/trainer.cpp, and base/error.hpp below.\n#include "models/rules.hpp"\n')
        self.write("src/train/trainer.cpp", '#include "base/error.hpp"\n// Throws Error(io).\nvoid Trainer::train() {}\n')
        self.write("CONTRIBUTING.md", "See [the words](docs/glossary.md) and `src/base/`.\n")
        self.write("docs/ARCHITECTURE.md", ARCHITECTURE)
        self.write("docs/glossary.md", GLOSSARY)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def replace(self, name, old, new):
        text = (self.root / name).read_text(encoding="utf-8")
        assert old in text, old
        self.write(name, text.replace(old, new))


class CheckDocs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Tree(folder.name)

    def faults(self):
        return [f"{name}:{line}: {message}" for name, line, message in check_docs(self.tree.root)]

    def expect(self, *parts):
        faults = self.faults()
        self.assertEqual(len(faults), 1, faults)
        for part in parts:
            self.assertIn(part, faults[0])

    def test_sound(self):
        self.assertEqual(self.faults(), [])

    def test_page_names_a_file_that_is_not_there(self):
        self.tree.replace("docs/ARCHITECTURE.md", "`src/train/trainer.cpp`", "`src/train/gone.cpp`")
        self.expect("docs/ARCHITECTURE.md:1: ", "there is no src/train/gone.cpp")

    def test_page_names_a_folder_that_is_not_there(self):
        self.tree.replace("CONTRIBUTING.md", "`src/base/`", "`src/bass/`")
        self.expect("CONTRIBUTING.md:1: ", "src/bass/")

    def test_one_of_two_alternatives(self):
        self.tree.replace("docs/ARCHITECTURE.md", "{hpp,cpp}", "{hpp,cu}")
        self.expect("docs/ARCHITECTURE.md:2: ", "train/trainer.cu")

    def test_placeholder_that_stands_for_nothing(self):
        self.tree.replace("docs/ARCHITECTURE.md", "FAMILY/rules.cpp", "FAMILY/family.cpp")
        self.expect("models/FAMILY/family.cpp")

    def test_citation_of_a_name_that_is_not_in_the_file(self):
        self.tree.replace("docs/ARCHITECTURE.md", "trainer.cpp:Trainer::train", "trainer.cpp:Trainer::run")
        self.expect("docs/ARCHITECTURE.md:1: ", "has no run")

    def test_name_of_a_file_alone(self):
        self.tree.replace("docs/ARCHITECTURE.md", "`trainer.hpp`", "`coach.hpp`")
        self.expect("there is no coach.hpp")

    def test_qualified_name_alone(self):
        self.tree.replace("docs/ARCHITECTURE.md", "`Trainer::train`,", "`Trainer::instruct`,")
        self.expect("docs/ARCHITECTURE.md:2: ", "no source has instruct")

    def test_comment_names_a_file_that_is_not_there(self):
        self.tree.replace("src/train/trainer.hpp", "base/error.hpp below", "base/mistake.hpp below")
        self.expect("src/train/trainer.hpp:1: ", "base/mistake.hpp")

    def test_comment_names_a_file_alone(self):
        self.tree.replace("src/train/trainer.hpp", "in train/trainer.cpp", "in steps.cpp")
        self.expect("steps.cpp")

    def test_comment_promises_an_error_that_is_none(self):
        self.tree.replace("src/train/trainer.cpp", "Error(io)", "Error(disk)")
        self.expect("src/train/trainer.cpp:2: ", "Error(disk)")

    def test_comment_speaks_of_a_function_that_is_gone(self):
        self.tree.replace("src/train/trainer.cpp", "// Throws", "// As train() does. Throws")
        self.assertEqual(self.faults(), [])
        self.tree.replace("src/train/trainer.cpp", "As train() does", "As instruct() does")
        self.expect("src/train/trainer.cpp:2: ", "no code has instruct")

    def test_comment_speaks_of_a_member_that_is_gone(self):
        self.tree.replace("src/train/trainer.cpp", "// Throws", "// See Trainer::instruct. Throws")
        self.expect("src/train/trainer.cpp:2: ", "no code has instruct")

    def test_glossary_out_of_order(self):
        self.tree.replace("docs/glossary.md", "**bucket**", "**arena**")
        self.expect("docs/glossary.md:4: ", "arena stands behind axis")

    def test_glossary_with_a_term_twice(self):
        self.tree.replace("docs/glossary.md", "**bucket**", "**Axis**")
        self.expect("docs/glossary.md:4: ", "Axis is there twice")

    def test_glossary_that_nobody_links_to(self):
        self.tree.replace("CONTRIBUTING.md", "docs/glossary.md", "docs/words.md")
        self.expect("CONTRIBUTING.md does not link")

    def test_module_without_a_row(self):
        self.tree.replace("docs/ARCHITECTURE.md", "| `models` | families |\n", "")
        self.expect("table of modules", "train where models should be")


class House(unittest.TestCase):
    """Of the real tree's modules, in a copy of which one include changes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Tree(folder.name)
        real = DRAW.parent.parent / "src/CMakeLists.txt"
        self.tree.write("src/CMakeLists.txt", real.read_text(encoding="utf-8"))

    def draw(self, *flags):
        return subprocess.run([sys.executable, DRAW, *flags, self.tree.root], capture_output=True, text=True)

    def test_stale_when_an_include_is_new(self):
        self.assertEqual(self.draw("--check").returncode, 1)  # there is none
        self.assertEqual(self.draw().returncode, 0)
        self.assertEqual(self.draw("--check").returncode, 0)
        self.tree.replace("src/models/llama/rules.cpp", "\n", '\n#include "ops/exec.hpp"\n')
        result = self.draw("--check")
        self.assertEqual(result.returncode, 1)
        self.assertIn("make docs", result.stderr)

    def test_module_that_it_has_no_words_for(self):
        self.tree.replace("src/CMakeLists.txt", "(module base", "(module attic base")
        result = self.draw()
        self.assertEqual(result.returncode, 1)
        self.assertIn("attic", result.stderr)


if __name__ == "__main__":
    unittest.main()
