"""A run that is asked to stop or to save, by signals at its start and by files in its folder; and two jobs that want one folder."""

import json
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


def plant_lock(name, **changes):
    """The lock of a job on another machine, from which nothing is heard."""
    os.makedirs(training.path(name), exist_ok=True)
    owner = {"host": "node7", "process": 4711, "process_began": "1", "machine": "another", "slurm_cluster": "", "slurm_job": "77",
             "slurm_restart": 1, "since": "2025-03-01T12:00:00.250Z", "token": "0"}
    return training.write(f"{name}/lock", json.dumps({**owner, **changes}))


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
    job.check(f"{name}: says why", output.count(f"{stop} was found; to resume, remove it") == 1, output)
    last = training.metrics(name)[-1]["step"]
    job.check(f"{name}: a checkpoint of the last step", training.checkpoints(name) == [saved[0], last], f"{training.checkpoints(name)}, {last}")
    more = {**ENDLESS, "train__steps": last + 3}
    how = "--overwrite" if in_background == "true" else "--resume-if-any"
    job.expect(f"{name}: no job starts meanwhile, {how}", job.run(training.words(name, how, **more), ranks), 13, [stop, "rm "], lines=1)
    os.remove(stop)
    job.expect(f"{name}: goes on when it is removed", job.run(training.words(name, "--resume", **more), ranks), 0, lines=0)
    job.check(f"{name}: to its end", training.checkpoints(name)[-1] == last + 3)
    job.check(f"{name}: gives its lock back", not os.path.exists(training.path(name + "/lock")))

# 2. A signal that comes before the first step is not lost: code 9, nothing is broken, and the console says that nothing was saved. The
# run waits for somebody's lock at that moment; rank 1, which gets the signal, does not know.
lock = plant_lock("early")
touch("early", "save")
run = Running(training, "early", 2, **ENDLESS)
job.check("early: says that it waits, and for whom", run.wait_for_text("waiting for SLURM job 77, process 4711 on node7, since 2025"))
os.kill(run.pid_of(1), signal.SIGTERM)
os.remove(lock)
code, output, seconds = run.finish()
job.check("early: code 9", code == 9 and seconds < 20, f"{code}, {seconds} s\n{output}")
job.check("early: stops before its first step", "stopping after step 0: SIGTERM" in output and not training.metrics("early"), output)
job.check("early: says that nothing was saved", "nothing was saved: no step was done; start again" in output and not training.checkpoints("early"), output)
job.check("early: the file save still asks", os.path.exists(training.path("early/save")))
job.expect("early: starts again", job.run(training.words("early", "--resume-if-any", **{**ENDLESS, "train__steps": 3}), 2), 0, lines=0, seconds=60)
job.check("early: the file save has its answer", not os.path.exists(training.path("early/save")))

# 2b. RUN/save together with a stop, where the checkpoint that it asks for is the one that the run resumed from.
plant_lock("early")
run = Running(training, "early", 2, "--resume-if-any", **ENDLESS)
job.check("again: waits", run.wait_for_text("waiting for SLURM job 77"))
os.kill(run.pid_of(1), signal.SIGTERM)
touch("early", "save")
os.remove(lock)
code, output, seconds = run.finish()
job.check("again: stops where it began", code == 9 and "stopping after step 3: SIGTERM" in output, f"{code}, {seconds} s\n{output}")
job.check("again: the file save is gone", not os.path.exists(training.path("early/save")), output)

# 2c. RUN/save asked for when the run looks no more: at the end of its last step.
run = Running(training, "late", 2, "--fault", "slow:rank=0,step=3,seconds=3,phase=save", **{**SMALL, "train__steps": 3})
job.check("late: is at its last save", wait_until(lambda: len(training.metrics("late")) == 3))
touch("late", "save")
code, output, _ = run.finish()
job.check("late: the file save is gone", code == 0 and not os.path.exists(training.path("late/save")), f"{code}\n{output}")

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
job.check("owned: says from whom it took the lock", f"taken over from a dead job: process {owner} on " in after[1], after[1])

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

# 5. A lock that another job has taken (its owner stood still for too long): the run learns of it at its next heartbeat, ends on all ranks
# with one message, and saves nothing. `robbed` learns it at a step, `robbed_in_save` when it is about to save. Until then it shows life.
run = Running(training, "robbed", 2, **ENDLESS)
saving = Running(training, "robbed_in_save", 2, "--fault", "slow:rank=0,step=5,seconds=13,phase=save", checkpoint__every=5, **ENDLESS)
job.check("robbed: got under way", run.wait_for_step(5) and saving.wait_for_step(5))
training.write("robbed_in_save/lock", "another's")
lock = training.path("robbed/lock")
touched = os.stat(lock).st_mtime_ns
job.check("robbed: a heartbeat", wait_until(lambda: os.stat(lock).st_mtime_ns != touched, seconds=15))
training.write("robbed/lock", "another's")
for robbed, most in ((run, 25), (saving, 25)):
    name = robbed.name
    code, output, seconds = robbed.finish()
    job.check(f"{name}: code 4 within {most} s", code == 4 and seconds < most, f"{code}, {seconds} s\n{output}")
    job.check(f"{name}: says why, once", output.count("no longer belongs to this job") == 1, output)
    job.check(f"{name}: saves nothing", not training.checkpoints(name), str(training.checkpoints(name)))
    with open(training.path(f"{name}/lock"), encoding="utf-8") as file:
        job.check(f"{name}: the lock of the other is still there", file.read() == "another's")

# 6. The lock of an earlier start of the same SLURM job, on a machine that cannot be asked.
plant_lock("requeued")
requeued = job.run(training.words("requeued", **{**SMALL, "train__steps": 3}), 2, SLURM_JOB_ID="77", SLURM_RESTART_COUNT="2")
job.expect("requeued: has the folder at once", requeued, 0, lines=0, seconds=20)
job.check("requeued: says from whom", "taken over from a dead job: SLURM job 77, process 4711 on node7" in requeued[1], requeued[1])

# 7. --overwrite forgets which faults have been.
short = {**SMALL, "train__steps": 3}
job.check("a fault", job.run(training.words("faulty", "--fault", "exit:step=2,code=5", **short))[0] == 5)
job.check("is remembered", len(os.listdir(training.path("faulty/faults"))) == 1)
job.expect("and does not come again", job.run(training.words("faulty", "--fault", "exit:step=2,code=5", **short)), 0, lines=0)
job.check("unless the run starts over", job.run(training.words("faulty", "--overwrite", "--fault", "exit:step=2,code=5", **short))[0] == 5)

# 8. No right to write (as root there is no such thing, so another user tries).
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
