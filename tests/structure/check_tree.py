#!/usr/bin/env python3
"""Checks rules of the source tree that no compiler checks. Usage: check_tree.py ROOT

Prints one line per fault, `file:line: what is wrong and what the rule is`, and returns 1 if there is any.
"""

import re
import sys
from pathlib import Path

MAX_LINES = 400  # a file beyond it holds two ideas
CXX = {".cpp", ".hpp", ".cu", ".cuh"}
TOP_LEVEL = ("src", "tests", "tools", "docs", "inputs", "jobs", "modules", ".ci", ".github")  # what of the root is ours, beside its plain files

# Headers of libraries, and the only files (relative to src) that may include them.
LIBRARY_HEADERS = [
    ("MPI", r"mpi\.h", r"runtime/.*|.*mpi[^/]*"),
    ("HDF5", r"hdf5\.h|H5\w+\.h", r"hdf5/.*"),
    ("CBLAS and oneDNN", r"(openblas/)?cblas\.h|(oneapi/dnnl/)?dnnl.*", r"ops/cpu/gemm_[^/]*"),
    ("SentencePiece", r"sentencepiece_\w+\.h", r"data/sentencepiece/sentencepiece_model\.cpp"),
    ("NCCL", r"nccl\.h", r"comm/[^/]*nccl[^/]*"),
    ("NVML", r"nvml\.h", r"[^/]+/[^/]*nvml[^/]*"),
    ("cuBLASLt", r"cublas.*", r"ops/cuda/gemm/[^/]*cublaslt[^/]*"),
    ("CUDA", r"(cuda|cudnn|cub/|nv).*", r"gpu/[^/]*cuda[^/]*|ops/cuda/[^/]+/([^/]*\.cuh?|[^/]*cublaslt[^/]*)"),
]

# Headers of ours that bring Kokkos with them. Beside them, only the sources that CMake knows as KOKKOS_SOURCES include it: nvcc must
# compile those where Kokkos has the CUDA backend, and all else stays plain C++.
KOKKOS_CARRIERS = {"tensor/spaces.hpp", "ops/parallel.hpp", "ops/softmax_row.hpp", "ops/columns.hpp", "ops/teams.hpp", "ops/views.hpp",
                  "ops/attention_tiles.hpp", "ops/bins.hpp", "optim/elementwise.hpp"}

# What a CUDA source must not include: it knows plain numbers and pointers.
HOST_ONLY = r"fmt/.*|base/error\.hpp|tensor/.*|nlohmann/.*|CLI/.*"

# Modules of ours that a module must not know, although they are lower in the order.
STRANGERS = {
    "ops": {"comm", "mesh"},     # kernels never communicate
    "nn": {"comm", "mesh"},
    "models": {"comm", "mesh"},  # a model knows nothing of ranks
    "data": {"comm", "mesh"},    # the sampler takes plain integers
}

# Built so that this file does not hold what it forbids.
FORBIDDEN_WORDS = [
    ("a path of somebody's machine", re.compile(r"(?<![\w.$}])/(?:work|root|Users/\w+|home/(?!\$|you\b|user\b)\w+)/")),
    ("the host of a package mirror", re.compile(r"\b[\w-]+\.(?:pkg\.dev|jfrog\.io|internal)\b|artifactory\.")),
]

# Headers that may share their names, with the reason: who says the name of any other means one file.
MAY_SHARE_NAMES = [
    r"(ops|optim)/.*",  # an op, its reference, its kernels for one kind of device and the optimizer that it is the step of
]

# Where the default of model.kind stands.
NAMES_A_FAMILY = {"config/run_config.hpp"}
# Where the default of optimizer.kind stands.
NAMES_AN_OPTIMIZER = {"config/run_config.hpp"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
DISPATCH = re.compile(r"\bparallel_(?:for|reduce|scan)\s*(?:<[^;(]*>)?\(\s*(.{0,60})", re.S)
ALLOCATION = re.compile(
    r'\b\w*View(?:\s*<[^;{}"=]*>)?(?:\s+\w+)?\s*[({]\s*"([^"]*)'  # View<float*> name("label", n), and the same of an alias
    r'|\b(?:view_alloc|kokkos_malloc(?:<[^>]*>)?)\s*\([^;"]*"([^"]*)'
)
NESTED_POLICY = re.compile(r"(?:Kokkos::)?(?:TeamThread|TeamVector|ThreadVector)(?:MD)?Range\b")


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def without_comments(text):
    """Comments become blanks of the same shape; string literals stay."""
    pattern = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/'
    return re.sub(pattern, lambda m: m[0] if m[0][0] in "\"'" else re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def module_order(root):
    text = (root / "src/CMakeLists.txt").read_text()
    match = re.search(r"foreach\(module ([^)]*)\)", text)
    if not match:
        raise SystemExit("src/CMakeLists.txt: no line `foreach(module ...)`: the order of the modules is read from it")
    return match[1].split()


def values_of(variable, text, folder):
    """What a variable of a CMakeLists.txt may hold: words that it is set to, files that a pattern finds."""
    yield from re.findall(rf"\bset\({variable} ([^)]*)\)", text)
    for patterns in re.findall(rf"\bfile\(GLOB {variable} (?:RELATIVE \S+ )?CONFIGURE_DEPENDS ([^)]*)\)", text):
        for pattern in patterns.split():
            yield from (str(path.relative_to(folder)) for path in folder.glob(pattern))


def kokkos_sources(root):
    """What the modules' CMakeLists.txt list as KOKKOS_SOURCES, relative to src; a variable stands for all that it is ever set to, or
    for the files that its pattern finds."""
    names = set()
    for path in root.glob("src/*/CMakeLists.txt"):
        text = path.read_text()
        for match in re.finditer(r"\bKOKKOS_SOURCES\b(.*?)(?=\b[A-Z]{4,}\b|\))", text, re.S):
            words = re.sub(r"\$\{(\w+)\}", lambda m: " ".join(values_of(m[1], text, path.parent)), match[1])
            names |= {f"{path.parent.name}/{word}" for word in words.split()}
    return names


def check_includes(root, name, text, order, with_kokkos):
    """Quoted includes name a file below src, in this module or a lower one; library headers stay in the files named for them."""
    own = name.split("/")[0] if "/" in name else None  # None: main.cpp, above all modules
    for match in INCLUDE.finditer(text):
        line, header = line_of(text, match.start()), match[2]
        for library, headers, allowed in LIBRARY_HEADERS:
            if re.fullmatch(headers, header) and not re.fullmatch(allowed, name):
                yield line, f"includes {header}: headers of {library} belong only in files that match {allowed}"
        if name.endswith((".cu", ".cuh")) and re.fullmatch(HOST_ONLY, header):
            yield line, f"includes {header}: CUDA sources know no tensor, no error and no library of the host"
        brings_kokkos = header in KOKKOS_CARRIERS or header.startswith("Kokkos_")
        if brings_kokkos and name not in KOKKOS_CARRIERS and name not in with_kokkos:
            yield line, f"includes {header}: Kokkos belongs only in what CMake lists as KOKKOS_SOURCES, and in {sorted(KOKKOS_CARRIERS)}"
        if match[1] == "<":
            continue
        if own and any((root / "src" / own).rglob(header + ".in")):
            continue  # CMake makes it from a template of this module
        other = header.split("/")[0]
        if not (root / "src" / header).is_file():
            yield line, f'includes "{header}", which is no file below src (includes are relative to src)'
        elif other == "labs" and own != "labs":
            yield line, f"includes {header}: nobody includes labs"
        elif own is None or own == "labs":
            continue
        elif own not in order or other not in order:
            missing = own if own not in order else other
            yield line, f"includes {header}: {missing} is missing in the order of src/CMakeLists.txt"
        elif order.index(other) > order.index(own):
            yield line, f"includes {header}: {other} comes after {own} in the order of src/CMakeLists.txt; includes point downward"
        elif other in STRANGERS.get(own, ()):
            yield line, f"includes {header}: {own} must not know {other}"


def families(root):
    """The families of models: folders of src/models with rules of their own."""
    return [path.parent.name for path in sorted(root.glob("src/models/*/rules.cpp"))]


def check_families(name, code, known):
    """What is peculiar to a family of models stands in its folder: nobody else may ask for its name."""
    if not known or name in NAMES_A_FAMILY:
        return
    for match in re.finditer(rf'"({"|".join(known)})"', code):
        if not name.startswith(f"models/{match[1]}/"):
            yield line_of(code, match.start()), f"names the family {match[1]}: ask its rules or its family object (models/family.hpp)"


def check_names(headers):
    """A header's name says which one is meant, without its folder. `headers` are relative to src."""
    of_name = {}
    for header in headers:
        of_name.setdefault(header.rsplit("/", 1)[-1], []).append(header)
    for name, same in sorted(of_name.items()):
        if len(same) == 1 or any(all(re.fullmatch(pattern, header) for header in same) for pattern in MAY_SHARE_NAMES):
            continue
        for header in same[1:]:
            yield f"src/{header}", 1, f"is called {name}, as {same[0]} is: a header's name means one file"


def check_folders(includes):
    """The folders of a module have an order, too: none includes another one back. `includes`: (file, line, header), relative to src."""
    first = {}  # (folder, folder that it includes) -> where
    for name, line, header in includes:
        own, other = name.split("/"), header.split("/")
        if len(own) > 2 and len(other) > 2 and own[0] == other[0] and own[1] != other[1]:
            first.setdefault((f"{own[0]}/{own[1]}", f"{other[0]}/{other[1]}"), (name, line))
    graph = {}
    for folder, other in first:
        graph.setdefault(folder, set()).add(other)

    def reaches(folder, target, seen):
        return folder == target or any(
            reaches(other, target, seen) for other in graph.get(folder, ()) if other not in seen and not seen.add(other))

    faulty = set()  # modules: one fault each, since a circle has many
    for (folder, other), (name, line) in sorted(first.items()):
        module = folder.split("/")[0]
        if module not in faulty and reaches(other, folder, {other}):
            faulty.add(module)
            yield f"src/{name}", line, f"{folder} includes {other}, which includes it back, perhaps through others: the folders have no order"


def optimizers(root):
    """The optimizers: folders of src/optim with rules of their own."""
    return [path.parent.name for path in sorted(root.glob("src/optim/*/rules.cpp"))]


def check_optimizers(name, code, known):
    """What is peculiar to an optimizer stands in its folder (which may name another one): nobody else may ask for its name. A kernel (ops) may be called so."""
    if not known or name in NAMES_AN_OPTIMIZER or name.startswith(("ops/", *(f"optim/{kind}/" for kind in known))):
        return
    for match in re.finditer(rf'"({"|".join(known)})"', code):
        yield line_of(code, match.start()), f"names the optimizer {match[1]}: ask its rules (config/optimizer_rules.hpp) or its kind"


def check_labels(text):
    """Kernels and allocations carry labels with the prefix cohort::, which is how profilers tell ours from a library's."""
    for match in DISPATCH.finditer(text):
        argument = match[1]
        if NESTED_POLICY.match(argument):  # a loop inside a kernel has no label of its own
            continue
        if not re.match(r'"cohort::|\w*label\w*\b', argument):
            yield line_of(text, match.start()), "kernel without a label that begins with \"cohort::\""
    for match in ALLOCATION.finditer(text):
        label = match[1] if match[1] is not None else match[2]
        if not label.startswith("cohort::"):
            yield line_of(text, match.start()), f'allocation labelled "{label}": labels begin with "cohort::"'


COMMENT_IN_COMMENT = re.compile(r"^[ \t]*//+ +//", re.M)
PIECE_OF_LITERAL = re.compile(r'^[ \t]*"(?:\\.|[^"\\\n])* "\n(?=[ \t]*")', re.M)
FULL_LINE = 60  # columns; a line of a literal that ends before was cut


def check_reflow(text):
    """What clang-format leaves behind when it breaks a line that is too long, and then is reformatted."""
    for match in COMMENT_IN_COMMENT.finditer(text):
        yield line_of(text, match.start()), "comment inside a comment: a reflow broke it, join or reword the lines"
    for match in PIECE_OF_LITERAL.finditer(text):
        if len(match[0].rstrip("\n")) < FULL_LINE:
            yield line_of(text, match.start()), "piece of a string literal on a line of its own: a reflow broke it, join the lines"


TEST_CASE = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(", re.M)


def check_test_name(name, text):
    case = TEST_CASE.search(text)
    if case and not name.endswith("_test.cpp"):
        yield line_of(text, case.start()), "test case in a file that is not named x_test.cpp"


def check_test_folder(root, name, order):
    """Whoever knows where a source stands knows where its tests do."""
    folder = Path(name).parent.relative_to("tests")
    if name.endswith("_test.cpp") and folder.parts and folder.parts[0] in order and not (root / "src" / folder).is_dir():
        yield 1, f"tests in a folder that src does not have: src/{folder.as_posix()}"


def check_guard(text):
    """CMake compiles each header alone, but not twice."""
    if "#pragma once\n" not in text:
        yield 1, "header without #pragma once"


def check_words(text):
    for what, pattern in FORBIDDEN_WORDS:
        for match in pattern.finditer(text):
            yield line_of(text, match.start()), f"holds {what}: {match[0]}"


def check_teaching(name, text):
    """Run files and job scripts are read line by line by people who learn: each setting has its reason beside or above it."""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        above = lines[number - 2] if number > 1 else ""
        if name.endswith(".toml") and re.match(r"\w+ *=", line) and not re.search(r"# \S", line):
            yield number, "setting without a comment beside it"
        if name.endswith(".sbatch") and line.startswith("#SBATCH") and not re.match(r"# \S", above):
            yield number, "#SBATCH line without a comment above it"


def files_of(root):
    for path in sorted(root.iterdir()):
        if path.is_file() and not path.is_symlink():  # editors' compile_commands.json is a link
            yield path
    for folder in TOP_LEVEL:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def check_tree(root):
    """All faults of the tree at `root` as (file, line, message)."""
    order = module_order(root)
    with_kokkos = kokkos_sources(root)
    known, known_optimizers = families(root), optimizers(root)
    faults, headers, includes = [], [], []
    for path in files_of(root):
        name = path.relative_to(root).as_posix()
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture or a compressed sample: not a source
        found = list(check_words(text))
        if path.suffix in CXX | {".py", ".cmake"} and text.count("\n") > MAX_LINES:
            found.append((MAX_LINES, f"has {text.count(chr(10))} lines; at most {MAX_LINES}: it holds more than one idea, split it"))
        if name.startswith(("inputs/", "jobs/")):
            found += check_teaching(name, text)
        if path.suffix in CXX:
            found += check_reflow(text)
        if name.startswith("tests/") and path.suffix == ".cpp":
            found += check_test_name(name, text)
            found += check_test_folder(root, name, order)
        if name.startswith("src/") and path.suffix in CXX:
            code = without_comments(text)
            found += check_includes(root, name[len("src/"):], code, order, with_kokkos)
            found += check_labels(code)
            found += check_families(name[len("src/"):], code, known)
            includes += [(name[len("src/"):], line_of(code, m.start()), m[2]) for m in INCLUDE.finditer(code) if m[1] == '"']
            found += check_optimizers(name[len("src/"):], code, known_optimizers)
            if path.suffix in (".hpp", ".cuh"):
                found += check_guard(code)
                headers.append(name[len("src/"):])
        faults += [(name, line, message) for line, message in found]
    return faults + list(check_names(headers)) + list(check_folders(includes))


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    faults = check_tree(Path(sys.argv[1]).resolve())
    for name, line, message in faults:
        print(f"{name}:{line}: {message}")
    print(f"{len(faults)} faults" if faults else "the tree follows its rules")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
