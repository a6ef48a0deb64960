#!/usr/bin/env python3
"""Checks that what pages and comments say of the tree is true. Usage: check_docs.py ROOT

In the pages (README.md, CONTRIBUTING.md, docs), outside of command blocks:
  `src/train/trainer.cpp`, `train/trainer.cpp`   a path from the root, or from src as in includes: it must be there. Capitals stand for
                                                 any name: `src/models/FAMILY/rules.cpp`; so does *; {a,b} is both; a/ is a folder
  `train/trainer.cpp:Trainer::train`             a citation: each of the names must stand in that file
  `trainer.cpp`                                  the name of one file at least
  `Trainer::train`                               names that stand in some source
In comments of sources: a header or source, by its path from src, the root, tests, or the folder of its module or its own, or by its
name; name(), Class::name: in some source; Error(io): a member of ExitCode.
docs/glossary.md: each term once, in alphabetical order, and the pages of GLOSSARY_READERS link to it. docs/ARCHITECTURE.md: a row for
each module, in their order.

Prints one line per fault, `file:line: what is wrong`, and returns 1 if there is any."""

import itertools
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays clean
from check_tree import CXX, line_of, module_order, without_comments  # noqa: E402

OF_A_MODULE = re.compile(r".*(?:\.(?:cpp|hpp|cuh?)|/CMakeLists\.txt)")
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PATH = re.compile(r"([\w.@{}*,+-]+(?:/[\w.@{}*,+-]*)*)(?::([A-Za-z_~][\w:~]*(?:\(\))?))?")
QUALIFIED = re.compile(r"~?[A-Z]\w*(?:::~?\w+)+(?:\(\))?")
OF_THE_TREE = {"src", "tests", "tools", "docs", "inputs", "jobs", "modules", ".ci"}
GLOSSARY = "docs/glossary.md"
GLOSSARY_READERS = ("CONTRIBUTING.md", "docs/ARCHITECTURE.md")
HOUSE = "docs/ARCHITECTURE.md"
COMMENT = re.compile(r"//.*|^[ \t]*#(?!include\b).*", re.M)
COMMENT_PATH = re.compile(r"(?<![\w./<\"{}*$-])((?:\w[\w.-]*/)*[\w-]+\.(?:cpp|hpp|cuh?|py))(?![\w.])")
COMMENT_NAME = re.compile(r"(?<![\w.:])(?:([a-z]\w*)\(\)|([A-Z]\w*(?:::\w+)+))")
COMMENT_ERROR = re.compile(r"\bError ?\(([a-z_]+)\)")
TERM = re.compile(r"^\*\*(.+?)\*\*", re.M)


def pages(root):
    return [path for path in (root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))) if path.is_file()]


def without_blocks(text):
    """Command blocks and HTML comments become blank lines."""
    return re.sub(r"^```.*?^```[ \t]*$|<!--.*?-->", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.M | re.S)


def alternatives(path):
    """a/{b,c}.hpp: both."""
    pieces = [piece[1:-1].split(",") if piece.startswith("{") else [piece] for piece in re.split(r"(\{[^}]*\})", path)]
    return ["".join(choice) for choice in itertools.product(*pieces)]


def names_in(root):
    """Of all files of src, tests and tools; those that CMake makes from templates, too."""
    return {file.name.removesuffix(".in") for top in ("src", "tests", "tools") for file in (root / top).rglob("*.*")}


def found(root, path, bases=("", "src")):
    """The files and folders that a path of a page means."""
    stands_for_others = not (root / path).exists() and not path.endswith(".md")  # whose names are in capitals themselves
    pattern = re.sub(r"[A-Z]+(?:_[A-Z]+)*(?![A-Za-z])", "*", path) if stands_for_others else path
    for base in bases:
        base = root / base
        matches = sorted(base.glob(pattern.rstrip("/"))) if re.search(r"[*]", pattern) else [base / pattern]
        matches = [match for match in matches if match.is_dir() if path.endswith("/")] if path.endswith("/") else [m for m in matches if m.exists()]
        if matches:
            return matches
    return []


def is_path(word, modules):
    first = word.split("/")[0]
    if "/" not in word:
        return bool(re.fullmatch(r"[\w.-]+\.(?:cpp|hpp|cuh?)", word))
    # A module has the name of a folder that a user makes, too: `data/stories.h5` is no part of the tree.
    return first in OF_THE_TREE or (first in modules and bool(OF_A_MODULE.fullmatch(word)))


def check_page(root, text, modules, words):
    """`words`: all that occur in code."""
    text = without_blocks(text)
    for match in CODE.finditer(text):
        if QUALIFIED.fullmatch(match[1]) and not match[1].startswith("Kokkos::"):
            for name in re.findall(r"\w+", match[1]):
                if name not in words:
                    yield line_of(text, match.start()), f"`{match[1]}`: no source has {name}"
        cited = PATH.fullmatch(match[1])
        line = line_of(text, match.start())
        for path in alternatives(cited[1]) if cited else ():
            if not is_path(path, modules):
                continue
            files = found(root, path) if "/" in path else [file for top in ("src", "tests") for file in (root / top).rglob(path)]
            if not files:
                yield line, f"`{match[1]}`: there is no {path}"
            elif cited[2]:
                names = [name for name in cited[2].removesuffix("()").split("::") if name]
                sources = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
                for name in names:
                    if not any(re.search(rf"(?<!\w){re.escape(name)}\b", source) for source in sources):
                        yield line, f"`{match[1]}`: {path} has no {name}"


def exit_codes(root):
    """The members of ExitCode; none in a tree without them."""
    path = root / "src/base/error.hpp"
    members = re.search(r"enum class ExitCode[^{]*\{(.*?)\}", path.read_text(encoding="utf-8"), re.S) if path.is_file() else None
    return set(re.findall(r"^ *(\w+) =", members[1], re.M)) if members else set()


def check_comments(root, path, text, names, words, codes):
    """What a comment sends its reader to is there. `names`: names_in(); `words`: of all code; `codes`: exit_codes()."""
    name = path.relative_to(root)
    bases = [*(Path(*name.parts[:depth]) for depth in range(len(name.parts))), "src", "tests"]  # the root, ..., the file's folder
    for comment in COMMENT.finditer(text):
        for match in COMMENT_PATH.finditer(comment[0]):
            stands_for_others = re.match(r"[a-z]\.|[A-Z]+(?![a-z])", match[1])  # a.cpp, NAME.cpp
            if not (found(root, match[1], bases) if "/" in match[1] else stands_for_others or match[1] in names):
                yield line_of(text, comment.start()), f"comment speaks of {match[1]}, which is no file"
        for match in COMMENT_NAME.finditer(comment[0]):
            for word in re.findall(r"\w+", match[0]):
                if word not in words and not word.isupper() and not match[0].startswith(("MPI", "Kokkos::")):
                    yield line_of(text, comment.start()), f"comment speaks of {match[0]}, but no code has {word}"
        for match in COMMENT_ERROR.finditer(comment[0]):
            if codes and match[1] not in codes | {"code"}:  # a parameter's name
                yield line_of(text, comment.start()), f"comment promises Error({match[1]}), but no ExitCode is called so"


def check_glossary(text, readers):
    """readers: the pages that should link to it, with their texts."""
    terms = [(term[1], line_of(text, term.start())) for term in TERM.finditer(text)]
    if not terms:
        yield 1, "no term: a term begins its line, as **term**"
    for (before, _), (term, line) in zip(terms, terms[1:]):
        if term.casefold() == before.casefold():
            yield line, f"{term} is there twice"
        elif term.casefold() < before.casefold():
            yield line, f"{term} stands behind {before}: terms are in alphabetical order"
    for name, page in readers:
        if "glossary.md" not in page:
            yield 1, f"{name} does not link to this page"


def check_house(text, order):
    rows = re.findall(r"^\| `(\w+)` \|", text, re.M)
    if rows != order:
        differs = next((f"{row} where {module} should be" for row, module in zip(rows, order) if row != module), "too few or too many rows")
        yield 1, f"the table of modules is not that of src/CMakeLists.txt: {differs}"


def check_docs(root):
    order = module_order(root)
    names, codes = names_in(root), exit_codes(root)
    texts = {path: path.read_text(encoding="utf-8") for top in ("src", "tests") for path in sorted((root / top).rglob("*"))
             if path.suffix in CXX or path.name == "CMakeLists.txt"}
    words = {word for path, text in texts.items() for word in re.findall(r"\w+", without_comments(text) if path.suffix in CXX else text)}
    faults = []
    for path, text in texts.items():
        faults += [(path.relative_to(root).as_posix(), *fault) for fault in check_comments(root, path, text, names, words, codes)]
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        faults += [(page.relative_to(root).as_posix(), *fault) for fault in check_page(root, text, set(order), words)]
    readers = [(name, (root / name).read_text(encoding="utf-8")) for name in GLOSSARY_READERS if (root / name).is_file()]
    if (root / GLOSSARY).is_file():
        faults += [(GLOSSARY, *fault) for fault in check_glossary((root / GLOSSARY).read_text(encoding="utf-8"), readers)]
    if (root / HOUSE).is_file():
        faults += [(HOUSE, *fault) for fault in check_house((root / HOUSE).read_text(encoding="utf-8"), order)]
    return faults


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    faults = check_docs(Path(sys.argv[1]).resolve())
    for name, line, message in faults:
        print(f"{name}:{line}: {message}")
    print(f"{len(faults)} faults" if faults else "pages and comments say what is there")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
