"""Working on labs: start, hints, progress, reset, solution, a class's table; and a learner's code in real runs on several ranks.
working_test.py PROGRAM ROOT -- MPIRUN FLAG ..."""

import csv
import io
import json
import pathlib
import re
import shutil
import signal
import subprocess
import time

from learner import check, expect, finish, metrics, program, root, run, scratch

lab = root / "src/labs/03_collectives"


def wait_for(condition, seconds=60):
    """Whether it comes true in time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


# 1. A learner's way through a lab.
expect("nothing is started", run("lab", "ls"), 0, "Collectives", "not started")
expect("check before start", run("lab", "check", "3"), 2, "cohort lab start 3")
expect("start", run("lab", "start", "3"), 0, "labs/03_collectives/exercise.cpp", "3.4")
expect("start again", run("lab", "start", "3"), 2, "reset 3")
expect("not written", run("lab", "check", "3"), 11, "not written yet")
expect("an unknown lab", run("lab", "show", "99"), 2, "there is no lab '99'")
expect("an unknown exercise", run("lab", "check", "3.9"), 2, "3.1 to 3.4")
expect("the handout", run("lab", "show", "3"), 0, "# Lab 3")
check("... without its test's comments", "<!--" not in run("lab", "show", "3")[1])
expect("the contracts", run("lab", "show", "3", "--header"), 0, "void ring_all_reduce(")
expect("the questions", run("lab", "ask", "3"), 0, "3.q1  (a number)", "megabytes")
expect("a right answer", run("lab", "ask", "3.q1", "870"), 0, "right", "124.4 M")
expect("a wrong one", run("lab", "ask", "3.q1", "1740"), 11, "too much, by a factor of 1.5 or more")
expect("... which was answered", run("lab", "ask", "3"), 0, "3.q1  (a number)  answered")
expect("no number is asked for", run("lab", "ask", "3.q3", "1"), 2, "--answer")
expect("the answer", run("lab", "ask", "3.q3", "--answer"), 0, "nothing compares them")
expect("an unknown question", run("lab", "ask", "3.q99"), 2, "cohort lab ask 3")
first = expect("a hint", run("lab", "hint", "3.2"), 0, "Hint 1 of 4")
expect("the next hint", run("lab", "hint", "3.2"), 0, "Hint 2 of 4")
check("the first again", run("lab", "hint", "3.2", "--again") == first)
expect("no solution yet", run("lab", "solution", "3"), 2, "--give-up", "3.1, 3.2, 3.3, 3.4 have not passed")
exercise = scratch / "labs/03_collectives/exercise.cpp"
shutil.copy(lab / "solution.cpp", exercise)
expect("one exercise", run("lab", "check", "3.3"), 0, "ring_all_reduce", "passed")
expect("progress", run("lab", "ls"), 0, " 1\n")
expect("all", run("lab", "check", "--all"), 0)
expect("now the solution", run("lab", "solution", "3"), 0, "subspan")
check("nobody gave up", "gave_up" not in (scratch / "labs/progress.json").read_text())
expect("reset", run("lab", "reset", "3"), 0, "exercise.1.cpp")
check("what was written is kept", (exercise.parent / "exercise.1.cpp").read_bytes() == (lab / "solution.cpp").read_bytes()
      and exercise.read_bytes() == (lab / "exercise.cpp").read_bytes())
expect("another folder", run("lab", "start", "3", COHORT_LABS="mine/labs"), 0, "mine/labs/03_collectives")
expect("giving up", run("lab", "solution", "3", "--give-up", "--dir", "mine/labs"), 0, "ring_all_reduce")
check("... is kept", "gave_up" in json.loads((scratch / "mine/labs/progress.json").read_text())["3"])
for damaged in ("{", "[]", '{"3": 1}', '{"3": {"exercises": []}}', '{"3": {"exercises": {"ring_all_reduce": {"hints": "two"}}}}', '{"3": {"answered": 1}}'):
    (scratch / "mine/labs/progress.json").write_text(damaged)
    expect(f"damaged progress {damaged}", run("lab", "ls", "--dir", "mine/labs"), 5, "mine/labs/progress.json")

expect("the grader by hand", run("lab", "grade", "3", "ring_all_reduce", "none.so"), 2, "is for `cohort lab check`")
# Ctrl-C reaches the process that grades only through its pipe.
shutil.copy(lab / "solution.cpp", exercise)
loop = 'std::ofstream("grader.pid") << ::getpid() << std::endl;\n  for (volatile int turn = 0;; turn = turn + 1) {\n  }\n'
endless = re.sub(r"(void naive_all_reduce\([^{]*\{\n)", lambda found: found[1] + loop, exercise.read_text())
exercise.write_text("#include <unistd.h>\n\n#include <fstream>\n" + endless)
checking = subprocess.Popen([program, "lab", "check", "3.1"], cwd=scratch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
pid_file = scratch / "grader.pid"
appears = wait_for(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
check("an endless exercise is graded", appears and checking.poll() is None)
checking.send_signal(signal.SIGINT)
checking.wait()
check("Ctrl-C ends its grader", appears and wait_for(lambda: not pathlib.Path(f"/proc/{int(pid_file.read_text())}").exists()))
shutil.copy(lab / "exercise.cpp", exercise)

# 2. An instructor's table.
(scratch / "class/dan/03_collectives/exercise.cpp").mkdir(parents=True)
for name, source in (("ada", lab / "solution.cpp"), ("bob", lab / "wrong/ring_adds_twice.cpp"), ("eve", None)):
    folder = scratch / "class" / name / "03_collectives"
    folder.mkdir(parents=True)
    if source:
        shutil.copy(source, folder / "exercise.cpp")
    else:
        (folder / "exercise.cpp").write_text("no C++")
(scratch / "class/bob/progress.json").write_text("[1]")
code, stdout, stderr = run("lab", "collect", "class")
rows = {(row["learner"], row["exercise"]): row for row in csv.DictReader(io.StringIO(stdout))}
check("a class's table", code == 0 and len(rows) == 16 and rows["ada", "3.3"]["result"] == "passed" and rows["bob", "3.3"]["result"] == "not right"
      and "twice" in rows["bob", "3.3"]["message"] and rows["eve", "3.1"]["result"] == "does not compile", stdout + stderr)
check("... says whose progress is damaged", "progress.json" in rows["bob", "3.3"]["message"] and "progress.json" not in rows["ada", "3.3"]["message"], stdout)
check("... and what cannot be read", rows["dan", "3.1"]["result"] == "not graded" and "exercise.cpp" in rows["dan", "3.1"]["message"], stdout)
check("... and writes no progress of theirs", not (scratch / "class/ada/progress.json").exists())
shares = [run("lab", "collect", "class", "--share", share)[1].splitlines() for share in ("1/2", "2/2")]
check("two shares of it are the whole", [len(share) for share in shares] == [9, 9] and all(share[0] == stdout.splitlines()[0] for share in shares)
      and sorted(shares[0][1:] + shares[1][1:]) == sorted(stdout.splitlines()[1:]), shares)
for share in ("0/2", "3/2", "2", "1/2/3", "a/b", "-1/2", ""):
    expect(f"share '{share}'", run("lab", "collect", "class", "--share", share), 2 if share else 0, *(["1/8 to 8/8"] if share else []))

# 3. In a real run: the losses are those of MPI's all-reduce; four ranks with a learner's code prove equal to one, with a wrong one they differ.
RUN = root / "inputs/lab03_collectives.toml"
SHORT = ["--set", "train.global_batch=48", "--set", "train.steps=8", "--set", "schedule.warmup_steps=2", "--set", "model.layers=3"]


expect("not written, in a run", run("train", RUN, *SHORT, "--set", "run.name=empty", "--with", "labs/03_collectives", ranks=3), 2,
       "ring_all_reduce is not written yet")
shutil.copy(lab / "solution.cpp", exercise)
expect("trained with MPI's", run("train", RUN, *SHORT, "--set", "run.name=mpi", ranks=3), 0)
for name in ("naive", "tree", "ring"):
    words = f"labs/03_collectives{'' if name == 'ring' else f':{name}_all_reduce'}"
    expect(f"trained with the learner's {name}", run("train", RUN, *SHORT, "--set", f"run.name={name}", "--with", words, ranks=3), 0,
           f"{name}_all_reduce of labs/03_collectives/exercise.cpp")
    mine, theirs = metrics(name), metrics("mpi")
    # The orders of three summands differ, by a rounding of fp32 a step.
    check("... has its losses", len(mine) == 8 and all(abs(a - b) <= 1e-5 * b for a, b in zip(mine, theirs)), (mine, theirs))
expect("proved", run("prove", RUN, *SHORT, "--steps", "2", "--layout", "data=hooks", "--layout", "data=bucketed", "--with", "labs/03_collectives", ranks=3),
       0, "equal")
shutil.copy(lab / "wrong/ring_adds_twice.cpp", exercise)
expect("a wrong one is found", run("prove", RUN, *SHORT, "--steps", "2", "--layout", "data=hooks", "--with", "labs/03_collectives:ring_all_reduce", ranks=3),
       11, "DIFFERS")
expect("strategies without all-reduce", run("train", RUN, "--set", "parallel.data=zero1", "--set", "run.name=z", "--with", "labs/03_collectives:ring_all_reduce",
                                            ranks=2), 2, "zero1", "naive, hooks or bucketed")
shutil.copy(lab / "solution.cpp", exercise)
expect("measured", run("comm", "--max", "1KiB", "--repeats", "2", "--with", "labs/03_collectives:tree_all_reduce", ranks=3), 0, "yours")
shutil.copy(lab / "wrong/ring_adds_twice.cpp", exercise)
expect("a wrong one is not measured", run("comm", "--max", "1KiB", "--with", "labs/03_collectives:ring_all_reduce", ranks=3), 11, "yours of", "expected")
expect("prove without a layout", run("prove", RUN, "--with", "labs/03_collectives"), 2, "--layout data=hooks")
expect("no such folder", run("train", RUN, "--with", "labs/04_none"), 2, "name the folder of a lab")
expect("a function that no run uses", run("train", RUN, "--with", "labs/03_collectives:predict_all_reduce"), 2, "naive_all_reduce, tree_all_reduce, ring_all_reduce")

finish()
