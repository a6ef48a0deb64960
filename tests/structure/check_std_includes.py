#!/usr/bin/env python3
"""Checks that who uses the standard library, or one of LIBRARIES, includes it. Usage: check_std_includes.py ROOT

A standard header brings others along, other ones in each implementation: what compiles with one breaks with the next. So each file of
src and tests must include the header of every name below that it says, itself or through headers of ours that it includes. Prints
`file:line: what is missing` and returns 1 if there is any. Names that many headers declare (std::size_t, std::move, std::string_view's
comparison) are not looked at.
"""

import re
import sys
from pathlib import Path

HEADERS = {
    "algorithm": "sort stable_sort all_of any_of none_of find_if count_if transform max_element min_element minmax_element clamp fill_n "
                 "copy_n lower_bound upper_bound nth_element partial_sort remove_if reverse rotate unique adjacent_find is_sorted",
    "array": "array to_array", "atomic": "atomic atomic_bool atomic_int atomic_thread_fence", "bit": "bit_cast popcount countl_zero bit_width",
    "charconv": "from_chars to_chars", "chrono": "chrono", "cmath": "sqrt exp log pow tanh cos sin isfinite isnan isinf fabs floor ceil lround",
    "condition_variable": "condition_variable", "cstdlib": "getenv strtol strtod", "cstring": "memcpy memset memcmp strlen strerror",
    "deque": "deque", "filesystem": "filesystem", "fstream": "ifstream ofstream fstream", "functional": "function", "future": "future async promise",
    "limits": "numeric_limits", "list": "list", "map": "map multimap", "memory": "unique_ptr shared_ptr make_unique make_shared weak_ptr",
    "mutex": "mutex lock_guard unique_lock scoped_lock recursive_mutex", "numbers": "numbers", "numeric": "accumulate iota partial_sum inner_product",
    "optional": "optional nullopt make_optional", "queue": "queue priority_queue", "random": "mt19937 mt19937_64 uniform_int_distribution normal_distribution",
    "regex": "regex regex_search regex_match smatch", "set": "set multiset", "source_location": "source_location", "span": "span",
    "sstream": "ostringstream istringstream stringstream", "stdexcept": "runtime_error invalid_argument logic_error",
    "string": "string to_string getline", "string_view": "string_view", "system_error": "error_code errc", "thread": "thread",
    "tuple": "tuple tie make_tuple", "unordered_map": "unordered_map", "unordered_set": "unordered_set", "variant": "variant visit holds_alternative",
    "vector": "vector",
}
# What one header promises of another's names, by the standard.
ALSO = {
    "string": ["string_view"],  # of its own interface
    "fstream": ["string"], "sstream": ["string"], "iostream": ["string"], "filesystem": ["string", "system_error", "chrono"],
    "future": ["thread"], "regex": ["string"], "system_error": ["string", "stdexcept"], "stdexcept": ["string"],
    "functional": [], "condition_variable": ["mutex"],
    "gtest/gtest.h": ["string", "vector", "memory", "tuple", "functional", "set", "map"],  # a library whose interface is made of them
    "fmt/format.h": ["string", "string_view"], "nlohmann/json.hpp": ["string", "map", "vector"], "CLI/CLI.hpp": ["string", "vector", "functional"],
    "toml++/toml.h": ["string", "string_view", "optional", "vector"],
    "hdf5.h": ["mpi.h"],  # one with parallel files; without them nobody asks
}
HOME = {name: header for header, names in HEADERS.items() for name in names.split()}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
USE = re.compile(r"\bstd::(\w+)\b")
# Names of other libraries -> the header to include, or another of its folder. Precompiled
# headers hide a missing one, in a build and in `tools/lint`.
LIBRARIES = {re.compile(pattern): header for pattern, header in {
    r"\bfmt::\w+": "fmt/format.h", r"\bnlohmann::\w+": "nlohmann/json.hpp", r"\bCLI::\w+": "CLI/CLI.hpp", r"\bKokkos::\w+": "Kokkos_Core.hpp",
    r"\bMPI_[A-Z]\w+": "mpi.h", r"\bH5[A-Z]\w+\(": "hdf5.h", r"\btoml::\w+": "toml++/toml.h", r"\bEXPECT_\w+\(": "gtest/gtest.h",
}.items()}


def without_comments(text):
    """Comments and string literals become blanks, the includes and the lines stay."""
    pattern = r'^[ \t]*#[ \t]*include[^\n]*|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/'
    return re.sub(pattern, lambda m: m[0] if "include" in m[0][:12] else re.sub(r"[^\n]", " ", m[0]), text, flags=re.S | re.M)


def check_std_includes(root):
    """All faults below `root` as (file, line, message)."""
    texts = {path.relative_to(root).as_posix(): without_comments(path.read_text()) for folder in ("src", "tests")
             for path in sorted((root / folder).rglob("*")) if path.suffix in (".cpp", ".hpp", ".cu", ".cuh")}
    includes = {name: [(m[1], m[2]) for m in INCLUDE.finditer(text)] for name, text in texts.items()}

    def provided(name, seen):
        for bracket, header in includes.get(name, ()):
            if bracket == "<":
                yield header
                yield from ALSO.get(header, ())
            for own in (f"src/{header}", f"tests/{header}"):
                if bracket == '"' and own in texts and own not in seen:
                    seen.add(own)
                    yield from provided(own, seen)

    faults = []
    for name, text in texts.items():
        has, told = set(provided(name, {name})), set()
        for match in USE.finditer(text):
            header = HOME.get(match[1])
            if header and header not in has and header not in told:
                told.add(header)
                faults.append((name, text.count("\n", 0, match.start()) + 1, f"uses std::{match[1]} without #include <{header}>"))
        for pattern, header in LIBRARIES.items():
            match = pattern.search(text)
            if match and not any(other == header or "/" in header and other.startswith(header.split("/")[0] + "/") for other in has):
                faults.append((name, text.count("\n", 0, match.start()) + 1, f"uses {match[0].rstrip('(')} without #include <{header}>"))
    return faults


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    faults = check_std_includes(Path(sys.argv[1]).resolve())
    for name, line, message in faults:
        print(f"{name}:{line}: {message}")
    print(f"{len(faults)} faults" if faults else "the headers of libraries are included where they are used")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
