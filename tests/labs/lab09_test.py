"""Lab 9 in real runs: a learner's keep_last decides which checkpoints of a run are deleted. lab09_test.py PROGRAM ROOT -- MPIRUN FLAG ..."""

from learner import check, finish, has, root, run, scratch

RUN = root / "inputs/lab09_checkpoints.toml"
# Steps whose names sort otherwise as text: 100 comes before 90.
SHORT = ["--set", "train.steps=110", "--set", "checkpoint.keep=2", "--set", "checkpoint.keep_every=40",
         "--set", "checkpoint.keep_best=true", "--set", "model.layers=2", "--set", "model.width=16"]


def train(name, source=None, *words):
    """Exit code, output and the steps that are left; with the learner's file `source`."""
    if source:
        has("09_checkpoints", source)
    mine = ["--with", "labs/09_checkpoints"] if source else []
    code, stdout, stderr = run("train", RUN, *SHORT, *words, "--set", f"run.name={name}", *mine, ranks=2)
    left = sorted(int(path.name.split("_")[1]) for path in (scratch / "runs" / name / "checkpoints").glob("step_*"))
    return code, stdout + stderr, left


code, said, left = train("empty", "exercise.cpp")
check("not written: refused before training", code == 2 and "keep_last is not written yet" in said and not left, (code, said, left))
code, said, usual = train("usual")
check("the program's own rule", code == 0 and {40, 80, 100, 110} <= set(usual), (code, said, usual))
code, said, left = train("mine", "solution.cpp")
check("the learner's rule leaves the same", code == 0 and left == usual and "keep_last of labs/09_checkpoints/exercise.cpp" in said, (code, said, left))
code, said, left = train("older", "wrong/keep_older_of_equals.cpp")
check("a rule that is wrong only in other cases, too", code == 0 and left == usual, (code, said, left))
code, said, left = train("text", "wrong/keep_by_name.cpp", "--set", "checkpoint.keep_best=false")
check("one that would delete the newest deletes nothing, and is told of", code == 0 and "your own rule would delete step 100, the newest" in said and 110 in left, (code, said, left))

finish()
