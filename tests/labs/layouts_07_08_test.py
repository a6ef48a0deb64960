"""Labs 7 and 8 in real runs: a learner's merging of partial attentions under context parallelism, and a learner's orders in a pipeline, on
several ranks. layouts_07_08_test.py PROGRAM ROOT -- MPIRUN FLAG ..."""

import re

from learner import check, expect, finish, has, metrics, root, run, scratch


def write(lab, source):
    """The learner's file of a lab; the lab's folder."""
    has(lab, source)
    return f"labs/{lab}"


def compare(run_file, ranks, tolerance, learner, *settings):
    """Trains with the built-in and with the learner's, and compares the losses."""
    name = f"{ranks}-{len(settings)}"
    short = ["--set", "train.steps=6", "--set", "schedule.warmup_steps=2", *settings]
    for kind, more in (("built-in", []), ("own", ["--with", learner])):
        expect(f"{name}: trained with the {kind}", run("train", run_file, *short, "--set", f"run.name={name}-{kind}", *more, ranks=ranks), 0)
    own, built_in = metrics(f"{name}-own"), metrics(f"{name}-built-in")
    check("... the losses are the same", len(own) == 6 and all(abs(a - b) <= tolerance * b for a, b in zip(own, built_in)), (own, built_in))


(scratch / "data").mkdir()
expect("text", run("data", "synth", "stories", "--out", "data/stories.txt", "--bytes", "60KiB"), 0)
expect("tokens", run("data", "prepare", "--input", "data/stories.txt", "--out", "data/stories.h5", "--tokenizer", "char"), 0)

# Lab 7. exp and log in another order: a few roundings of fp32 in each merge, which 6 steps carry along.
LAB, RUN = "07_tensor_parallel", root / "inputs/lab07_tensor_parallel.toml"
PROVE = ("prove", RUN, "--steps", "2", "--with", f"labs/{LAB}")
write(LAB, "exercise.cpp")
expect("merge_attention is not written", run(*PROVE, "--layout", "cp=2", ranks=2), 2, "merge_attention is not written yet")
compare(RUN, 4, 1e-5, write(LAB, "solution.cpp"))
expect("proved over 2 and 4 ranks", run(*PROVE, "--layout", "cp=4", "--layout", "cp=2,tp=2,sequence=true", ranks=4), 0, "cp 4", "equal")
write(LAB, "wrong/merge_average.cpp")
expect("a wrong one is found", run(*PROVE, "--layout", "cp=2", ranks=2), 11, "DIFFERS")
expect("... and not used without --with", run("prove", RUN, "--steps", "1", "--layout", "cp=2", ranks=2), 0, "equal")

# Lab 8. The same order is the same step: not a bit differs.
LAB, RUN = "08_pipelines", root / "inputs/lab08_pipelines.toml"
PROVE = ("prove", RUN, "--set", "model.layers=4", "--steps", "1", "--with", f"labs/{LAB}:one_f_one_b_order")
write(LAB, "exercise.cpp")
expect("one_f_one_b_order is not written", run(*PROVE, "--layout", "pp=2", ranks=2), 2, "one_f_one_b_order is not written yet")
expect("gpipe_order neither", run("train", RUN, "--set", "parallel.schedule=gpipe", "--with", "labs/08_pipelines", "--set", "parallel.pp=2", ranks=2), 2,
       "gpipe_order is not written yet")
solution = write(LAB, "solution.cpp")
compare(RUN, 3, 0.0, solution, "--set", "parallel.pp=3")
compare(RUN, 2, 0.0, solution, "--set", "parallel.pp=2", "--set", "parallel.schedule=gpipe")
expect("proved over 4 ranks", run("prove", RUN, "--set", "model.layers=4", "--steps", "2", "--with", solution, "--layout", "pp=4", "--layout",
                                  "pp=2,dp=2,schedule=gpipe", "--layout", "pp=2,tp=2", ranks=4), 0, "equal")
write(LAB, "wrong/one_f_one_b_stage_turned.cpp")
expect("a deadlock is told, not waited for", run(*PROVE, "--layout", "pp=4", ranks=4), 11, "one_f_one_b_order: deadlock of the pipeline schedule: rank 0 waits")
write(LAB, "wrong/one_f_one_b_as_gpipe.cpp")
expect("an order that holds more is right, too", run(*PROVE, "--layout", "pp=3", ranks=3), 0, "equal")
SHORT = ("train", RUN, "--set", "train.steps=2", "--set", "schedule.warmup_steps=1", "--set", "parallel.pp=2", "--overwrite")
own, gpipe = (re.search("memory .*", run(*SHORT, *more, ranks=2)[1]) for more in
              (("--with", f"labs/{LAB}:one_f_one_b_order"), ("--set", "parallel.schedule=gpipe")))
check("... and its memory is planned for", own and gpipe and own[0] == gpipe[0], (own, gpipe))
write(LAB, "wrong/one_f_one_b_without_drain.cpp")
expect("an order with actions missing", run(*PROVE, "--layout", "pp=2", ranks=2), 11, "is not written")

finish()
