"""A damaged newest checkpoint is no dead end: another is chosen by a person (--resume-from, --step) or by the run
(checkpoint.fallback), and steps beyond it are set aside. And runs that are extended."""

import os
import shutil
import sys
import tempfile

from launched import Launched
from training import DRIFT, Training

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_resume_")
training = Training(job, folder.name)
path = training.path
KEYS = {"train__steps": 12, "schedule__warmup_steps": 2, "schedule__decay_steps": 15, "checkpoint__every": 3, "train__validate_every": 3,
        "sample__tokens": 0}
LONGER = {**KEYS, "train__steps": 15}


def flip(name, file, step):
    where = path(f"{name}/checkpoints/step_{step:08d}/{file}")
    with open(where, "r+b") as opened:
        opened.seek(os.path.getsize(where) // 2)
        byte = opened.read(1)
        opened.seek(-1, 1)
        opened.write(bytes([byte[0] ^ 16]))


def copy_of(name, *damage):
    shutil.copytree(path("run"), path(name))
    for file, step in damage:
        flip(name, file, step)


def train(what, name, *more, code=0, parts=(), ranks=0, **keys):
    outcome = job.run(training.words(name, *more, **{**LONGER, **keys}), ranks)
    job.expect(what, outcome, code, parts, lines=0 if code == 0 else 1)
    return outcome[1]


def expect_whole(what, name, ranks):
    """On as many ranks as before, bit for bit. On others sums come in another order: within DRIFT."""
    records, whole = training.metrics(name), training.metrics("whole")
    close = all(abs(a["loss"] - b["loss"]) < DRIFT * b["loss"] for a, b in zip(records, whole))
    job.check(f"{what}: as if nothing had happened", close and (ranks > 0 or training.sums(name, 15) == training.sums("whole", 15)))
    steps = [line["step"] for line in records]
    job.check(f"{what}: each step once in the metrics", steps == list(range(1, 16)), str(steps))


train("a run", "run", **KEYS)
train("all steps of it", "whole")

# 1. What is damaged is refused, with the ways out.
copy_of("damaged", ("model.h5", 12))
for ranks in (0, 2):
    for how in ("--resume", "--resume-if-any"):
        train(f"refused, {ranks} ranks {how}", "damaged", how, code=6, ranks=ranks,
              parts=["step_00000012", "3, 6, 9", "--resume-from", "checkpoint.fallback=previous"])
job.check("a refusal sets nothing aside", training.checkpoints("damaged") == [3, 6, 9, 12])

# 2. Every command can take another.
flip("damaged", "manifest.json", 12)  # some would not read the elements that are damaged already
for what, words in (("eval", ["eval", path("damaged")]), ("generate", ["generate", path("damaged"), "--prompt", "Once", "--tokens", "3"]),
                    ("show", ["ckpt", "show", path("damaged")]), ("verify", ["ckpt", "verify", path("damaged")]),
                    ("export", ["ckpt", "export", path("damaged"), "--out", path("exported")]),
                    ("consolidate", ["ckpt", "consolidate", path("damaged"), "--out", path("consolidated")]),
                    ("reshard", ["ckpt", "reshard", path("damaged"), "--layout", "dp=2,data=zero3", "--out", path("resharded")]),
                    ("diff", ["ckpt", "diff", path("damaged"), path("run")])):
    job.check(f"{what}: the newest is damaged", job.run(words)[0] == 6)
    shutil.rmtree(path("exported"), ignore_errors=True)
    job.expect(f"{what} --step", job.run([*words, "--step", "9"]), 0, lines=0)
    job.expect(f"{what} --step of none", job.run([*words, "--step", "7"]), 6, ["step 7", "step_00000009"], lines=1)
job.expect("--step beside another checkpoint", job.run(["ckpt", "show", path("run/checkpoints/step_00000003"), "--step", "9"]), 2,
           ["step 3", "9"], lines=1)

# 3. The run takes the newest that is sound, and says so.
for number, (ranks, how, damage) in enumerate(((0, "--resume", [("model.h5", 12)]), (2, "--resume-if-any", [("model.h5", 12), ("manifest.json", 9)]),
                                               (2, "--resume", [("manifest.json", 12)]))):
    name, good = f"falls{number}", 12 - 3 * len(damage)
    copy_of(name, *damage)
    stdout = train(f"falls back, {ranks} ranks {how}, {damage}", name, how, ranks=ranks, checkpoint__fallback="previous")
    expect_whole(name, name, ranks)
    for _, step in damage:
        job.check(f"{name}: step {step} is told of", f"warning: {path(name)}/checkpoints/step_{step:08d} cannot be loaded" in stdout, stdout)
        job.check(f"{name}: step {step} is set aside", os.path.exists(path(f"{name}/checkpoints/set_aside/step_{step:08d}/model.h5")))
        job.check(f"{name}: ... and in the log", f"step_{step:08d} cannot be loaded" in training.log(name, max(ranks - 1, 0)))
    job.check(f"{name}: resumed there", f"resumed     at step {good}" in stdout, stdout)
    job.check(f"{name}: the newest is the last", training.checkpoints(name) == [3, 6, 9, 12, 15], str(training.checkpoints(name)))
listed = job.run(["ckpt", "ls", path("falls0")])[1]
job.check("ckpt ls mentions what was set aside", "step_00000012 (set aside" in listed, listed)
copy_of("nothing", *(("model.h5", step) for step in (3, 6, 9, 12)))
train("nothing is sound", "nothing", "--resume-if-any", code=6, parts=["step_00000012", "3 checkpoints before it cannot be loaded either"], checkpoint__fallback="previous")
copy_of("end", ("manifest.json", 12))
train("the last of all steps is damaged", "end", "--resume-if-any", train__steps=12, checkpoint__fallback="previous")
job.check("... and is done again", training.sums("end", 12) == training.sums("run", 12))

# 4. A person names the checkpoint.
for name, ranks, what in (("by-step", 2, "6"), ("by-path", 0, path("by-path/checkpoints/step_00000006"))):
    copy_of(name, ("model.h5", 12))
    stdout = train(f"--resume-from, {name}", name, "--resume-from", what, ranks=ranks)
    expect_whole(name, name, ranks)
    job.check(f"{name}: says that later steps are set aside", "taken back to step 6" in stdout, stdout)
    aside = sorted(os.listdir(path(name + "/checkpoints/set_aside")))
    job.check(f"{name}: they are", aside == ["metrics_beyond_step_00000006.jsonl", "step_00000009", "step_00000012"], str(aside))
train("a branch in a new folder", "branch", "--resume-from", path("run/checkpoints/step_00000009"))
job.check("... ends like the run", training.sums("branch", 15) == training.sums("whole", 15))
train("--resume-from a step that is none", "run", "--resume-from", "7", code=6, parts=["7", "3, 6, 9, 12"])
train("--resume-from nowhere", "run", "--resume-from", path("nowhere"), code=6, parts=["nowhere"])
train("--resume-from another run", "run", "--resume-from", path("branch"), code=2, parts=["3, 6, 9, 12", "run.directory"])
train("--resume-from and --resume", "run", "--resume-from", "3", "--resume", code=2, parts=["--resume"])
train("--resume-from nothing", "run", "--resume-from", "", code=2, parts=["--resume-from", "a step or a path"])
train("a changed run is refused", "run", "--resume-from", "6", code=3, parts=["optimizer.beta1"], optimizer__beta1=0.8)
job.check("refusals set nothing aside", training.checkpoints("run") == [3, 6, 9, 12])

# 5. More steps, and none left.
outcome = job.run(training.words("run", "--resume-if-any", **{**KEYS, "train__steps": 7}))
job.check("nothing is left to do", outcome[0] == 0 and "has done 12 steps, and train.steps = 7" in outcome[1], outcome[1] + outcome[2])
UNSET = {key: value for key, value in KEYS.items() if key != "schedule__decay_steps"}
for name, steps, more, code in (("extended", 6, [], 0), ("shortened", 30, ["--fault", "exit:step=8,code=5"], 5)):
    job.expect(f"{name}: a run", job.run(training.words(name, *more, **{**UNSET, "train__steps": steps})), code)
    outcome = job.run(training.words(name, "--resume", **{**UNSET, "train__steps": 9}))
    job.expect(f"{name}: goes on to step 9", outcome, 0, lines=0)
    job.check(f"{name}: the decay stays", f"at step {steps}, not at step 9" in outcome[1], outcome[1])
rates = [line["learning_rate"] for line in training.metrics("extended")]
job.check("extended: at the final rate", rates[6:] == [rates[6]] * 3 and abs(rates[6] - 1e-3) < 1e-12, str(rates))
job.expect("a decay that was set", job.run(training.words("extended", "--resume", **{**KEYS, "schedule__decay_steps": 20})), 3,
           ["schedule.decay_steps: 6", "20 now", "--allow-changes"], lines=1)

folder.cleanup()
job.finish()
