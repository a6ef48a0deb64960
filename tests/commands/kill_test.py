"""`cohort train` killed at random moments, on 1 to 3 ranks, saving in each form, in step and in the background: what counts as a
checkpoint is always whole, the run goes on from the newest, and ends with the bits of a run that nobody disturbed.

    kill_test.py COHORT VERIFY_RUN -- MPIRUN FLAG ...      COHORT_KILLS=100 in the environment: so many kills instead of 12"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from launched import Launched
from training import Running, Training

KILLS = int(os.environ.get("COHORT_KILLS", "12"))
RANKS = (1, 2, 3)
WAYS = (("consolidated", "false"), ("per_rank", "false"), ("consolidated", "true"), ("per_rank", "true"))  # form, async
# Steps as short as can be, so that most moments are moments of a save.
ENDLESS = {"model__width": 16, "model__context": 16, "train__global_batch": 6, "train__micro_batch": 1, "train__steps": 10 ** 6,
           "schedule__warmup_steps": 0, "schedule__decay_steps": 10 ** 6, "train__validate_every": 0, "sample__tokens": 0, "checkpoint__every": 1, "checkpoint__keep": 3}

verify_run = sys.argv[2]
job = Launched([sys.argv[1], *sys.argv[3:]])
folder = tempfile.TemporaryDirectory(prefix="cohort_kill_")
training = Training(job, folder.name)
rng = random.Random(7)


def entries(name):
    path = training.path(name + "/checkpoints")
    return os.listdir(path) if os.path.isdir(path) else []


def verified(name):
    """The steps of what counts, read back whole; says so if one is not."""
    done = subprocess.run([verify_run, training.path(name)], capture_output=True, text=True, timeout=60)
    job.check(f"{name}: what counts is whole", done.returncode == 0, f"{done.stderr}\n{entries(name)}")
    return [int(step) for step in done.stdout.split()]


def disturb(run, ranks, newest):
    """Kills one rank or all at a random moment: of the start, or of the steps. Returns what it did."""
    starting = rng.random() < 0.25
    if starting:
        time.sleep(rng.uniform(0.0, 1.5))
    else:
        # The run before may have left the records of two steps more than its newest checkpoint.
        job.check(f"{run.name} gets under way", run.wait_for_step(newest + 3))
        time.sleep(rng.uniform(0.0, 0.4))
    rank = rng.randrange(-1, ranks)  # -1: all
    try:
        if rank >= 0:
            os.kill(run.pid_of(rank), signal.SIGKILL)
    except (RuntimeError, ProcessLookupError):
        rank = -1  # it is not there yet
    if rank < 0:
        run.kill_all()
    return ("start" if starting else "steps") + (f", rank {rank}" if rank >= 0 else ", all")


stored = dict.fromkeys(RANKS, [])  # the steps of what counted after the last kill
in_the_middle = 0
for kill in range(KILLS):
    ranks = RANKS[kill % len(RANKS)]
    form, in_background = WAYS[kill // len(RANKS) % len(WAYS)]
    name = f"ranks{ranks}"
    before, records_before = max(stored[ranks], default=0), training.metrics(name)
    run = Running(training, name, ranks, "--resume-if-any", checkpoint__form=form, checkpoint__async=in_background, **ENDLESS)
    done = disturb(run, ranks, before)
    code, output, seconds = run.finish(20)
    what = f"kill {kill} ({name}, {form}, async {in_background}, {done})"
    job.check(f"{what}: the job ends with an error", code not in (0, 9) and isinstance(code, int), f"{code}, {seconds} s\n{output}")
    # If mpirun was killed with them, what the ranks said may be lost with it: then their first new record tells.
    new_steps = [record["step"] for record in training.metrics(name) if record not in records_before]
    job.check(f"{what}: it went on from step {before}",
              "resumed " not in output and before == 0 or f"resumed     at step {before}\n" in output or "start" in done or
              (not output and "all" in done and min(new_steps, default=0) == before + 1), output)
    in_the_middle += any(entry.endswith(".tmp") for entry in entries(name))
    steps = verified(name)
    # The steps of this run alone: killed at its start, it may leave records of the run before, which it would have taken back.
    last = max((record["step"] for record in training.metrics(name) if record not in records_before), default=0)
    # A step's record is written before it is saved, in the background while the save before may still go on.
    least = max(before, last - (2 if in_background == "true" else 1))
    newest = max(steps, default=0)
    job.check(f"{what}: no checkpoint is lost", newest >= least, f"{steps}, step {last} was done; {entries(name)}")
    job.check(f"{what}: old ones go when a new one counts", newest > before or steps == stored[ranks], f"{steps}, {stored[ranks]} before")
    stored[ranks] = steps
    if steps:
        job.expect(f"{what}: ckpt show reads it", job.run(["ckpt", "show", training.path(name)]), 0, lines=0)
job.check("some kills come in the middle of a save", in_the_middle > 0)
print(f"{in_the_middle} of {KILLS} kills left a save half done")

for ranks in RANKS:
    name = f"ranks{ranks}"
    end = max(stored[ranks], default=0) + 2
    job.expect(f"{name} goes on", job.run(training.words(name, "--resume-if-any", **{**ENDLESS, "train__steps": end}), ranks), 0, lines=0)
    job.check(f"{name}: the next save clears up", all(entry.startswith("step_") for entry in entries(name)), str(entries(name)))
    job.check(f"{name}: three checkpoints are kept", len(verified(name)) == min(3, end), str(entries(name)))
    undisturbed = {**ENDLESS, "train__steps": end, "checkpoint__every": 0}
    job.expect(f"{name} undisturbed", job.run(training.words(name + "_undisturbed", **undisturbed), ranks), 0, lines=0, seconds=60)
    job.check(f"{name} ends as if undisturbed at step {end}", training.sums(name, end) == training.sums(name + "_undisturbed", end))
    steps = [line["step"] for line in training.metrics(name)]
    job.check(f"{name} has each step once in its metrics", steps == list(range(1, end + 1)), str(steps[-20:]))

folder.cleanup()
job.finish()
