"""A run that is stopped, killed and resumed at arbitrary steps ends as one that nobody disturbed, bit for bit in the same layout: with
accumulation, dropout, more than one epoch, fp16 whose loss scale overflows and grows, clipping, warm-up and decay, in each form of
checkpoint, saved in step and in the background, with weights rounded or not. In another layout, within a tolerance. And what was
changed on the way is on record.

    exact_resume_test.py COHORT VERIFY_RUN -- MPIRUN FLAG ..."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile

from launched import Launched
from training import DRIFT, Running, Training

verify_run = sys.argv[2]
job = Launched([sys.argv[1], *sys.argv[3:]])
folder = tempfile.TemporaryDirectory(prefix="cohort_exact_")
training = Training(job, folder.name)
tokens = training.prepare("short", seed=5, size="4KiB")  # an epoch is 28 steps or so
other = training.prepare("other", seed=6, size="4KiB", tokenizer="byte")
bytes_ = training.prepare("bytes", seed=5, size="4KiB", tokenizer="byte")

STEPS = 40
PATIENCE = 200  # seconds for a run on a machine that does other things too; alone it is one or two
RUN = {"data__tokens": tokens, "train__steps": STEPS, "train__global_batch": 16, "train__micro_batch": 4, "train__validate_every": 16,
       "train__clip_norm": 0.5, "model__layers": 2, "model__context": 8, "model__vocabulary": 64, "schedule__warmup_steps": 3,
       "schedule__decay_steps": STEPS, "sample__tokens": 0, "checkpoint__every": 4,
       "checkpoint__keep": 3}
# After every two good steps the scale is doubled, until gradients overflow.
FP16 = {"precision__policy": "fp16", "precision__loss_scale": 2 ** 18, "precision__loss_scale_interval": 2}
PER_RANK = {"checkpoint__form": "per_rank"}
ASYNC = {"checkpoint__async": "true"}
BF16_WEIGHTS = {"checkpoint__weights": "bf16"}
TP = {"parallel__tp": 2, "parallel__sequence": "true"}
PP = {"parallel__pp": 2}
# Stages that begin in the middle of all that is disturbed; the second source is gone through more than once.
MIXTURE = {"data__tokens": "", "data__sources": f'[{{name="a", tokens="{bytes_}"}}, {{name="b", tokens="{other}"}}]', "model__vocabulary": 256,
           "data__stages": "[{weights={a=0.7, b=0.3}}, {from_step=8, weights={a=1, b=5}}, {from_step=20, weights={b=1}}]"}

CASES = (
    ("one", 1, {**FP16, **BF16_WEIGHTS}),
    ("ddp", 2, {**FP16, **ASYNC}),
    ("zero1", 2, {**FP16, **PER_RANK, **ASYNC, **BF16_WEIGHTS, "parallel__data": "zero1"}),
    ("zero3", 4, {**FP16, "train__micro_batch": 2, **PER_RANK, **ASYNC, "parallel__data": "zero3"}),
    ("tp", 2, {**FP16, **PER_RANK, **TP}),
    ("pp", 2, {**FP16, **BF16_WEIGHTS, **ASYNC, **PP}),
    ("mixture", 2, {**PER_RANK, **ASYNC, **MIXTURE}),
    ("all", 4, {**PER_RANK, **BF16_WEIGHTS, **ASYNC, **TP, **PP}),
)


# What a run's metrics say of time, which is never the same twice.
TIMES = ("time", "seconds", "mfu", "mfu_causal", "tokens_per_second", "own_work", "exposed_communication", "slowest_rank", "memory", "run")


def records(name):
    """The metrics without what was measured, and what a start says of the run."""
    return [{key: value for key, value in line.items() if key not in TIMES} for line in training.metrics(name)]


def logged_steps(name, rank):
    """What a rank's log says of each step, its sample ids included. A step that was lost and done again counts as it was done last."""
    lines = re.findall(r": (step (\d+) loss .* samples .*)", training.log(name, rank))
    return {int(step): line for line, step in lines}


def expect_run(what, name, ranks, *more, **keys):
    job.expect(what, job.run(training.words(name, *more, **keys), ranks, PATIENCE), 0, lines=0, seconds=PATIENCE)


def disturb(name, ranks, number, at_step, *more, **keys):
    """Starts or resumes the run and sends `number` to its last rank when `at_step` is done: SIGKILL to all."""
    run = Running(training, name, ranks, *more, **keys)
    job.check(f"{name} gets to step {at_step}", run.wait_for_step(at_step, PATIENCE))
    if number == signal.SIGKILL:
        run.kill_all()
    else:
        os.kill(run.pid_of(ranks - 1), number)
    code, output, _ = run.finish(PATIENCE)
    wanted = -signal.SIGKILL if number == signal.SIGKILL else 9
    job.check(f"{name} is ended at step {at_step} by {number.name}", code == wanted, f"{code}\n{output}")


def expect_same(name, ranks):
    """`name` left what `name`_whole left."""
    whole = name + "_whole"
    job.check(f"{name}: the bits of weights and optimizer state", training.sums(name, STEPS) == training.sums(whole, STEPS))
    ours, theirs = records(name), records(whole)
    differing = [pair for pair in zip(ours, theirs) if pair[0] != pair[1]]
    job.check(f"{name}: losses, rates, norms, loss scales", len(ours) == len(theirs) and not differing, str(differing[:2]))
    for rank in range(ranks):
        steps, wanted = logged_steps(name, rank), logged_steps(whole, rank)
        job.check(f"{name}: the samples of rank {rank}", len(wanted) == STEPS and steps == wanted, f"{len(steps)} {len(wanted)} steps")
    done = subprocess.run([verify_run, training.path(name)], capture_output=True, text=True, timeout=60)
    job.check(f"{name}: its checkpoints are whole", done.returncode == 0, done.stderr)


for index, (name, ranks, keys) in enumerate(CASES):
    keys = {**RUN, **keys}
    expect_run(f"{name} undisturbed", name + "_whole", ranks, **keys)
    if "precision__policy" in keys:
        scales = [line["loss_scale"] for line in training.metrics(name + "_whole")]
        job.check(f"{name}: the loss scale falls and grows", any(a > b for a, b in zip(scales, scales[1:])) and
                  any(a < b for a, b in zip(scales, scales[1:])), str(scales))
    disturb(name, ranks, (signal.SIGTERM, signal.SIGUSR1)[index % 2], 4 + index, **keys)
    disturb(name, ranks, signal.SIGKILL, 17 + index, "--resume", **keys)
    expect_run(f"{name} goes on", name, ranks, "--resume", **keys)
    expect_same(name, ranks)

# From layout to layout, each with another number of ranks. Sums in another order: within DRIFT, as layouts differ in
# tests/train/resume_test.cpp, where the same 10 steps are done; here rounding had 20 to grow.
LAYOUTS = ((1, {}), (2, {**TP, **PER_RANK}), (4, {"parallel__data": "zero3", **PER_RANK, **ASYNC}), (2, PP))
for number, (ranks, layout) in enumerate(LAYOUTS):
    keys = {**RUN, **layout, "train__steps": 5 * (number + 1), "schedule__decay_steps": 20}
    expect_run(f"layouts: {ranks} ranks go on", "layouts", ranks, "--resume-if-any", **keys)
expect_run("layouts: one rank alone", "alone", 1, **{**RUN, "train__steps": 20, "schedule__decay_steps": 20})
pairs = [(a["loss"], b["loss"]) for a, b in zip(training.metrics("layouts"), training.metrics("alone"))]
job.check("layouts: the losses of one rank", len(pairs) == 20 and all(abs(a - b) < DRIFT * b for a, b in pairs), str(pairs))


# What changes is refused, or on record in this checkpoint and all that follow.
def history(name):
    outcome = job.run(["ckpt", "show", "--json", training.path(name)])
    job.expect(f"{name}: its history", outcome, 0, lines=0)
    return json.loads(outcome[1])["history"].splitlines() if outcome[0] == 0 else []


CHANGES = (({"schedule__decay_steps": 40}, "from step 21: schedule.decay_steps: 20 in the checkpoint, 40 now"),
           ({"train__global_batch": 8}, "from step 23: train.global_batch: 16 in the checkpoint, 8 now"),
           ({"data__tokens": training.tokens}, "from step 25: data: short.h5", "from step 25: tokenizer: char"))  # has more characters
keys = {**RUN, "schedule__decay_steps": 20}
told = []
for number, (change, *lines_of_change) in enumerate(CHANGES):
    keys = {**keys, **change, "train__steps": 22 + 2 * number}
    job.expect(f"changed {list(change)[0]}", job.run(training.words("alone", "--resume", **keys), 1), 3, ["--allow-changes"], lines=1)
    expect_run(f"{list(change)[0]} with --allow-changes", "alone", 1, "--resume", "--allow-changes", **keys)
    lines = history("alone")
    told += lines_of_change
    job.check(f"{list(change)[0]} is on record", len(lines) == len(told) and all(map(str.startswith, lines, told)), str(lines))
expect_run("nothing changed", "alone", 2, "--resume", **{**keys, "train__steps": 28, **PER_RANK})
job.check("the record stays", history("alone") == lines, str(lines))

folder.cleanup()
job.finish()
