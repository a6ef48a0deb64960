"""Every lab: its exercise as a learner gets it is "not written yet", its solution passes, each seeded wrong solution is rejected with the
words of its first line. With lab 3, also: code that crashes, never ends or writes beside its data ends with a message.
grading_test.py PROGRAM ROOT [LAB ...], as 03: these labs alone."""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

program, root = sys.argv[1], pathlib.Path(sys.argv[2])
chosen = sys.argv[3:]
labs = sorted(path.parent for path in (root / "src/labs").glob("[0-9][0-9]_*/grader.cpp") if not chosen or path.parent.name[:2] in chosen)
scratch = pathlib.Path(tempfile.mkdtemp(prefix="cohort_labs_"))
failures = 0


def check(what, condition, detail=""):
    global failures
    print(("ok      " if condition else "FAILED  ") + what, flush=True)
    if not condition:
        failures += 1
        print(detail)


def quick_compiler(lab):
    """A compiler for the wrong solutions of a lab, of which there are hundreds: in a third of the time, since it does not optimise and has read the
    headers that the solution includes already. What is wrong is so however it is compiled; exercises and solutions are compiled as learners' are."""
    folder = scratch / f"compiler-{lab.name}"
    folder.mkdir()
    headers = root / "src/labs/include"
    header = folder / next((headers / "cohort").glob(f"lab{lab.name[:2]}_*.hpp")).name
    includes = re.findall(r"(?m)^#include <.*", (lab / "solution.cpp").read_text())
    header.write_text("\n".join([f"#include <cohort/{header.name}>", *includes, ""]))
    compile = os.environ.get("CXX", "c++")
    subprocess.run([*shlex.split(compile), "-std=c++20", "-fPIC", "-I", headers, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
    compiler = folder / "c++"
    compiler.write_text(f'#!/bin/sh\nexec {compile} -include "{header}" "$@" -O0 -g0\n')
    compiler.chmod(0o755)
    return str(compiler)


def grade(source, lab, name, *words, compiler=None):
    """What `cohort lab check --json` says of a file, and its exit code."""
    folder = scratch / name / lab.name
    folder.mkdir(parents=True)
    shutil.copy(source, folder / "exercise.cpp")
    done = subprocess.run([program, "lab", "check", str(int(lab.name[:2])), "--json", "--dir", str(scratch / name), *words],
                          env={**os.environ, "CXX": compiler} if compiler else None, capture_output=True, text=True)
    return (json.loads(done.stdout) if done.stdout else []), done.returncode, done.stderr


def check_lab(lab):
    """Lines of (what, right, detail)."""
    found, code, stderr = grade(lab / "exercise.cpp", lab, f"{lab.name}-exercise")
    yield f"{lab.name}: the exercise is not written yet", code == 11 and found and all(
        one["result"] == "not written yet" for one in found), (found, stderr)
    found, code, stderr = grade(lab / "solution.cpp", lab, f"{lab.name}-solution")
    names = [one["name"] for one in found]
    yield f"{lab.name}: the solution passes", code == 0 and found and all(one["result"] == "passed" for one in found), (found, stderr)
    hints = (lab / "hints.md").read_text()
    yield f"{lab.name}: each exercise has hints", all(re.search(rf"(?m)^## {re.escape(one['exercise'])} ", hints) for one in found), names
    wrong = sorted((lab / "wrong").glob("*.cpp"))
    counts = dict.fromkeys(names, 0)
    compiler = quick_compiler(lab)
    for source in wrong:
        exercise, words = re.match(r"// (\w+): (.*)\n", source.read_text()).groups()
        counts[exercise] += 1
        found, code, stderr = grade(source, lab, f"{lab.name}-{source.stem}", compiler=compiler)
        verdict = next((one for one in found if one["name"] == exercise), {})
        yield (f"{lab.name}/wrong/{source.name} is rejected: {words}",
               code == 11 and verdict.get("result") == "not right" and words in verdict["message"], (verdict, stderr))
    yield f"{lab.name}: three wrong solutions for each exercise", all(count >= 3 for count in counts.values()), counts


def check_questions(lab):
    """Each answer begins with the number that its formula gives."""
    done = subprocess.run([program, "lab", "ask", str(int(lab.name[:2])), "--json"], capture_output=True, text=True)
    questions = json.loads(done.stdout) if done.returncode == 0 else []
    yield f"{lab.name}: four questions or more", len(questions) >= 4, done
    for question in questions:
        if "value" in question:
            number = re.match(r"-?[\d,]*\.?\d+", question["answer"])
            said = float(number[0].replace(",", "")) if number else float("nan")
            yield (f"{question['question']}: the answer is that of the formula",
                   abs(said - question["value"]) <= question["tolerance"] * abs(question["value"]), question)


def check_broken():
    begin = time.monotonic()
    lab = root / "src/labs/03_collectives"
    found, code, stderr = grade(root / "tests/labs/broken/lab03.cpp", lab, "broken", "--limit", "2")
    check("broken code ends with exit code 11, and a verdict for each exercise", code == 11 and len(found) == 4, (found, code, stderr))
    for verdict, result, words in zip(found, ["hangs", "crashed", "not right", "crashed"],
                                      ["no end after 2 s with 2 ranks and 8 elements", "segmentation fault", "something was written to element 10",
                                       "ends the whole program with exit code 0 with 4 ranks"]):
        check(f"{verdict['name']}: {result}", verdict["result"] == result and words in verdict["message"], verdict)
    check("... within its time", time.monotonic() - begin < 60)

    if subprocess.run(["c++", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.startswith("/"):
        (scratch / "beside.cpp").write_text(
            "#include <cohort/lab03_collectives.hpp>\n#include <vector>\n"
            "void naive_all_reduce(cohort::lab::Link& link, std::span<float> data) {\n  std::vector<float> sums(data.size());\n"
            "  sums[data.size() + static_cast<std::size_t>(link.ranks())] = 1;\n  data[0] = sums[0];\n}\n")
        found, code, stderr = grade(scratch / "beside.cpp", lab, "sanitized", "--sanitize")
        check("the sanitizer stops it, and shows the line", found[0]["result"] == "crashed" and "sanitizer" in found[0]["message"]
              and "exercise.cpp:5" in stderr, (found, stderr[-3000:]))

    (scratch / "typo.cpp").write_text("#include <cohort/lab03_collectives.hpp>\nvoid naive_all_reduce(cohort::lab::Link& l, std::span<float> d) { d[0] = lnk; }\n")
    found, code, stderr = grade(scratch / "typo.cpp", lab, "typo")
    check("what does not compile: the compiler's words", code == 2 and "does not compile" in stderr and "lnk" in stderr, (code, stderr))


check("there are labs", labs)
for lab in labs:
    for line in check_questions(lab):
        check(*line)
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    for lines in pool.map(lambda lab: list(check_lab(lab)), labs):
        for line in lines:
            check(*line)

if not chosen or "03" in chosen:
    check_broken()
shutil.rmtree(scratch)
sys.exit(1 if failures else 0)
