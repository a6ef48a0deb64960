"""A run that is asked to stop or to save, by signals at its start and by files in its folder; and two jobs that want one folder."""

import os
import signal
import subprocess
import sys
import tempfile
import time

from launched import Launched, environment_without_launcher
from training import Running, Training

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_requests_")
training = Training(job, folder.name)
SMALL = {"model__width": 16, "model__context": 16, "train__validate_every": 0, "sample__tokens": 0, "schedule__warmup_steps": 0}
ENDLESS = {**SMALL, "train__steps": 10 ** 6, "schedule__decay_steps": 10 ** 6}


def touch(name, file):
    return training.write(f"{name}/{file}", "")


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


# 1. RUN/save, then RUN/stop; in step and in the background.
for ranks, in_background in ((2, "false"), (2, "true")):
    name = f"asked_{in_background}"
    run = Running(training, name, ranks, checkpoint__async=in_background, **ENDLESS)
    job.check(f"{name}: got under way", run.wait_for_step(5))
    save = touch(name, "save")
    job.check(f"{name}: the file save is gone", wait_until(lambda: not os.path.exists(save)))
    saved = training.checkpoints(name)
    job.check(f"{name}: one checkpoint was written", len(saved) == 1 and saved[0] >= 5, str(saved))
    job.check(f"{name}: it goes on", run.wait_for_step(len(training.metrics(name)) + 3))
    stop = touch(name, "stop")
    code, output, seconds = run.finish()
    job.check(f"{name}: code 13 within seconds", code == 13 and seconds < 20, f"{code}, {seconds} s\n{output}")
    job.check(f"{name}: says why", output.count(f"{stop} is there; to go on, remove it") == 1, output)
    last = training.metrics(name)[-1]["step"]
    job.check(f"{name}: a checkpoint of the last step", training.checkpoints(name) == [saved[0], last], f"{training.checkpoints(name)}, {last}")
    more = {**ENDLESS, "train__steps": last + 3}
    how = "--overwrite" if in_background == "true" else "--resume-if-any"
    job.expect(f"{name}: no job starts meanwhile, {how}", job.run(training.words(name, how, **more), ranks), 13, [stop, "rm "], lines=1)
    os.remove(stop)
    job.expect(f"{name}: goes on when it is removed", job.run(training.words(name, "--resume", **more), ranks), 0, lines=0)
    job.check(f"{name}: to its end", training.checkpoints(name)[-1] == last + 3)
    job.check(f"{name}: gives its lock back", not os.path.exists(training.path(name + "/lock")))

# 2. A signal that comes before the first step is not lost: code 9, and nothing is broken.
run = Running(training, "early", 2, **ENDLESS)
job.check("early: has begun", wait_until(lambda: os.path.exists(training.path("early/lock"))))
os.kill(run.pid_of(1), signal.SIGTERM)
code, output, seconds = run.finish()
job.check("early: code 9", code == 9 and seconds < 20, f"{code}, {seconds} s\n{output}")
job.check("early: stops at its first step or the one after", "stopping after step " in output and len(training.metrics("early")) <= 2, output)

# 3. A second job in the folder of one that runs: refused, and the first is not disturbed. After kill -9 of all of it the next job has
# the folder at once, and says from whom.
run = Running(training, "owned", 2, checkpoint__every=1, checkpoint__keep=2, **ENDLESS)
job.check("owned: got under way", run.wait_for_step(5))
for ranks, how in ((0, "--overwrite"), (2, "--resume-if-any")):
    job.expect(f"a second job, {ranks} ranks, {how}", job.run(training.words("owned", how, **ENDLESS), ranks), 4,
               ["belongs to a running job", f"process {run.pid_of(0)} on ", "since ", "touch ", "run.name"], lines=1)
job.check("owned: is not disturbed", run.wait_for_step(len(training.metrics("owned")) + 3))
owner = run.pid_of(0)
run.kill_all()
run.finish()
last = training.checkpoints("owned")[-1]
after = job.run(training.words("owned", "--resume", **{**ENDLESS, "train__steps": last + 2}), 2)
job.expect("owned: after kill -9", after, 0, lines=0)
job.check("owned: says from whom it took the lock", f"taken over from a job that is dead: process {owner} on " in after[1], after[1])

# 4. What SLURM says of the job is in the log of each rank, on the console once, and in the first record after the start.
words = training.words("slurm", "--overwrite", **{**SMALL, "train__steps": 3})
shown = job.run(words, 2, SLURM_JOB_ID="77", SLURM_ARRAY_JOB_ID="70", SLURM_ARRAY_TASK_ID="4", SLURM_RESTART_COUNT="2")
job.expect("in a SLURM job", shown, 0)
in_words = "SLURM job 77 (70_4), restart 2"
job.check("the console names the job once", shown[1].count(in_words) == 1, shown[1])
for rank in range(2):
    job.check(f"the log of rank {rank} names it first", in_words in training.log("slurm", rank).splitlines()[0], training.log("slurm", rank))
records = [line.get("slurm") for line in training.metrics("slurm")]
job.check("the first record has it", records == [{"job": "77", "restart": 2, "array": "70_4"}, None, None], str(records))

# 5. No right to write (as root there is no such thing, so another user tries).
closed = training.path("closed")
os.mkdir(closed)
os.chmod(closed, 0o555)
os.chmod(folder.name, 0o755)
if os.getuid() != 0:
    job.expect("no write access", job.run(training.words("closed", **SMALL)), 7, [closed, "Permission denied", "run.directory"], lines=1)
else:
    of_mpi = training.path("of_mpi")
    os.mkdir(of_mpi)
    os.chmod(of_mpi, 0o777)
    environment = {**environment_without_launcher(), "HOME": of_mpi, "TMPDIR": of_mpi}
    done = subprocess.run([job.program, *training.words("closed", **SMALL)], env=environment, capture_output=True, text=True, timeout=60,
                          user=65534, group=65534)
    job.expect("no write access", (done.returncode, "", done.stderr, 0.0), 7, [closed, "Permission denied", "run.directory"], lines=1)

folder.cleanup()
job.finish()
