"""A rank of `cohort train` that is stopped or killed at a random moment, also of the start: the job ends within the time-out, with an
exit code and the name of that rank, and what each rank did is on disk.

    watch_test.py COHORT -- MPIRUN FLAG ...      COHORT_WATCHES=50 in the environment: so many moments instead of 8"""

import os
import random
import signal
import sys
import tempfile
import time

from launched import Launched
from training import Running, Training

MOMENTS = int(os.environ.get("COHORT_WATCHES", "8"))
TIMEOUT = 10  # seconds, of the watch
# What mpirun needs to end the other processes, and this busy machine to notice.
SLACK = 5
RANKS = 3
LOST = 12
ENDLESS = {"train__global_batch": 6, "train__micro_batch": 1, "train__steps": 10 ** 6, "schedule__decay_steps": 10 ** 6,
           "train__validate_every": 7, "sample__tokens": 0, "checkpoint__every": 5, "checkpoint__keep": 2, "watch__timeout": TIMEOUT}

os.environ["COHORT_WATCH_TIMEOUT"] = str(TIMEOUT)  # of the start
job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_watch_")
training = Training(job, folder.name)
rng = random.Random(int(os.environ.get("COHORT_WATCH_SEED", "5")))


def find(run, rank):
    """The process of a rank, once it is there."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            return run.pid_of(rank)
        except RuntimeError:
            time.sleep(0.002)
    raise RuntimeError(f"rank {rank} never started")


def moment(number):
    victim = rng.randrange(RANKS)
    what = rng.choice((signal.SIGSTOP, signal.SIGKILL))
    run = Running(training, f"moment{number}", RANKS, checkpoint__async=rng.choice(("true", "false")), **ENDLESS)
    starting = rng.random() < 0.3
    if starting:
        pid = find(run, victim)
        time.sleep(rng.uniform(0.0, 1.0))
    else:
        job.check(f"{run.name} gets under way", run.wait_for_step(rng.randrange(2, 30)))
        time.sleep(rng.uniform(0.0, 0.2))
        pid = find(run, victim)
    os.kill(pid, what)
    code, output, seconds = run.finish(TIMEOUT + SLACK)
    label = f"moment {number}: rank {victim} {what.name} {'in the start' if starting else 'in the run'}"
    # A launcher that sees a killed process first answers for it, and names the rank as well.
    named = [f"rank {victim} of {RANKS}", f"rank {victim} (process", f"process rank {victim} with PID"]
    job.check(f"{label}: ended after {seconds:.1f} s", code not in (0, "none: it hangs"), output)
    job.check(f"{label}: and is named", any(name in output for name in named), output)
    if what == signal.SIGSTOP:
        job.check(f"{label}: with exit code {LOST}", code == LOST, f"{code}\n{output}")
    if what == signal.SIGSTOP and not starting:
        others = [rank for rank in range(RANKS) if rank != victim]
        dumps = sorted(os.listdir(training.path(run.name + "/flight")))
        job.check(f"{label}: the others left dumps", all(f"rank_{rank:05d}.json" in dumps for rank in others), dumps)
        page = job.run(["doctor", training.path(run.name)])
        job.check(f"{label}: the doctor says so", page[0] == 0 and "last operations" in page[1],
                  page[1] + page[2])
        if victim != 0:
            job.check(f"{label}: and whom to blame", f"rank {victim} of {RANKS}" in page[1] and "stopped by a signal" in page[1], page[1])


for number in range(MOMENTS):
    moment(number)

job.expect("a time-out that is none", job.run(["topo"], ranks=2, COHORT_WATCH_TIMEOUT="soon"), 4, ["COHORT_WATCH_TIMEOUT='soon'"])
job.finish()
