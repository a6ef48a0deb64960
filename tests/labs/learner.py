"""What the tests of learners' code in real runs have in common: a folder to work in, the program in it, checks. Their arguments are
PROGRAM ROOT -- MPIRUN FLAG ..."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

program, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
mpirun = sys.argv[4:]
scratch = pathlib.Path(tempfile.mkdtemp(prefix="cohort_labs_"))
failures = 0


def check(what, condition, detail=""):
    global failures
    print(("ok      " if condition else "FAILED  ") + what, flush=True)
    if not condition:
        failures += 1
        print(detail)


def run(*words, ranks=0, **environment):
    """The program in the folder: exit code, stdout, stderr; ranks=0 starts it without mpirun."""
    command = [*mpirun, "-np", str(ranks)] if ranks else []
    done = subprocess.run([*command, program, *map(str, words)], capture_output=True, text=True, errors="replace", cwd=scratch,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


def expect(what, outcome, code, *words):
    """Checks the exit code, and that all words were printed."""
    check(what, outcome[0] == code and all(word in outcome[1] + outcome[2] for word in words), outcome)
    return outcome


def has(lab, file):
    """The learner's file of a lab is now this one of the lab's folder: solution.cpp, wrong/NAME.cpp. Returns its place."""
    exercise = scratch / "labs" / lab / "exercise.cpp"
    exercise.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(root / "src/labs" / lab / file, exercise)
    return exercise


def metrics(name, key="loss"):
    """Of a run's steps that have it."""
    with open(scratch / "runs" / name / "metrics.jsonl", encoding="utf-8") as file:
        return [record[key] for record in map(json.loads, file) if key in record]


def finish():
    shutil.rmtree(scratch)
    sys.exit(1 if failures else 0)
