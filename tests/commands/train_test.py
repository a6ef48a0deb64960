"""`cohort train` from text to checkpoint, on 1, 2 and 4 ranks; resumed, killed and stopped by signals on the way."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from launched import Launched
from training import DRIFT, Running, Training

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_train_")
training = Training(job, folder.name)


def expect_run(name, ranks, *more, what=None, **keys):
    outcome = job.run(training.words(name, *more, **keys), ranks)
    job.expect(what or f"{name}, {ranks} ranks", outcome, 0, lines=0, seconds=60)
    return outcome[1]


# 1. The same run on 1 (without mpirun), 2 and 4 ranks: what it leaves behind, and that the loss falls, the same on all of them.
for ranks in (0, 2, 4):
    name = f"ranks{ranks}"
    stdout = expect_run(name, ranks, checkpoint__every=25)
    for begin in ("floor ", "batch       global batch 8", "validation loss ", "sample ", "strategy    bucketed"):
        job.check(f"{name}: one line of the console begins with '{begin}'", len(re.findall(f"^{begin}", stdout, re.M)) == 1, stdout)
    metrics = training.metrics(name)
    losses = [line["loss"] for line in metrics]
    job.check(f"{name}: a line for each step", [line["step"] for line in metrics] == list(range(1, 61)), str(metrics[-1:]))
    job.check(f"{name}: the loss falls", sum(losses[-5:]) < 0.8 * sum(losses[:5]), f"{losses[:5]} to {losses[-5:]}")
    job.check(f"{name}: the first step's rate is not 0", abs(metrics[0]["learning_rate"] - 1e-2 / 5) < 1e-9, str(metrics[0]))
    validated = [line["step"] for line in metrics if "validation_loss" in line]
    job.check(f"{name}: validations", validated == [20, 40, 60], str(validated))
    job.check(f"{name}: checkpoints", training.checkpoints(name) == [25, 50, 60], str(training.checkpoints(name)))
    for rank in range(max(ranks, 1)):
        log = training.log(name, rank)
        job.check(f"{name}: the log of rank {rank}", f"rank {rank} of {max(ranks, 1)}" in log and log.count("samples ") >= 60, log)
    with open(training.path(name + "/run.toml"), encoding="utf-8") as file:
        job.check(f"{name}: the resolved run file", f"dp = {max(ranks, 1)}" in file.read())

# Ranks that take turns on one core train as slowly as one: said at the start, once.
core = str(min(os.sched_getaffinity(0)))
pinned = Launched([job.program, "--", "taskset", "-c", core, *job.mpirun])
code, stdout, stderr, _ = pinned.run(training.words("pinned", train__steps=2, schedule__warmup_steps=1), 2)
said = (stdout + stderr).count("warning: ranks 0-1 of ")
job.check("two ranks on one core are warned of", code == 0 and said == 1, stdout + stderr)

# fp32 sums in another order: the losses drift apart by rounding, which training amplifies. Ten steps within DRIFT, sixty within 1e-2.
alone = [line["loss"] for line in training.metrics("ranks0")]
for ranks in (2, 4):
    losses = [line["loss"] for line in training.metrics(f"ranks{ranks}")]
    apart = [abs(a - b) / a for a, b in zip(alone, losses)]
    job.check(f"{ranks} ranks: the losses of one rank", max(apart[:10]) < DRIFT and max(apart) < 1e-2, str(apart))

# 2. The resolved run file of a run is a run file, and gives the same run.
expect_run("again", 2, run_file=training.path("ranks2/run.toml"), what="the resolved run file runs", checkpoint__every=25)
job.check("the resolved run file gives the same bits", training.sums("again", 60) == training.sums("ranks2", 60))

# 3. Other programs read the checkpoint.
file = training.path("ranks2/checkpoints/step_00000060/model.h5")
if shutil.which("h5dump"):
    dumped = subprocess.run(["h5dump", "-d", "/model/embedding/weight", file], capture_output=True, text=True, timeout=60)
    job.check("h5dump reads the weights", dumped.returncode == 0 and "DATA {" in dumped.stdout and ", 32 )" in dumped.stdout,
              dumped.stdout[:500] + dumped.stderr)
shown = job.run(["ckpt", "show", training.path("ranks2")])
job.expect("ckpt show", shown, 0, lines=0)
job.check("ckpt show tells step and tensors", "embedding/weight" in shown[1] and "dp 2" in shown[1], shown[1])

# 4. Long enough to be disturbed. The schedule is that of the whole run in every part of it.
LONG = {"train__steps": 240, "schedule__decay_steps": 240, "checkpoint__every": 40, "train__validate_every": 0, "sample__tokens": 0}
expect_run("whole", 2, **LONG)
whole = training.sums("whole", 240)


def expect_whole(name, **keys):
    """The run goes on to the end, and the end is that of the run that nobody disturbed."""
    expect_run(name, 2, "--resume", what=f"{name} is resumed", **{**LONG, **keys})
    job.check(f"{name} ends as if undisturbed", training.sums(name, 240) == whole)
    steps = [line["step"] for line in training.metrics(name)]
    job.check(f"{name} has each step once in its metrics", steps == list(range(1, 241)), str(steps))


expect_run("parts", 2, **{**LONG, "train__steps": 100})
expect_whole("parts")

run = Running(training, "killed", 2, **LONG)
job.check("killed: got under way", run.wait_for_step(60))
os.kill(run.pid_of(1), signal.SIGKILL)
code, output, seconds = run.finish()
job.check("killed: the job ends within seconds, with an error", code not in (0, 9) and seconds < 20, f"{code}, {seconds} s\n{output}")
expect_whole("killed")

# 5. A signal ends the run after the step, on all ranks at the same one, with a checkpoint and code 9.
for name, ranks, number, to_rank in (("usr1-to-one-rank", 2, signal.SIGUSR1, 1), ("term-to-one-rank", 2, signal.SIGTERM, 0),
                                     ("usr1-to-mpirun", 2, signal.SIGUSR1, None), ("int-alone", 0, signal.SIGINT, None)):
    run = Running(training, name, ranks, **LONG)
    job.check(f"{name}: got under way", run.wait_for_step(50))
    if to_rank is None:
        run.process.send_signal(number)
    else:
        os.kill(run.pid_of(to_rank), number)
    code, output, seconds = run.finish()
    job.check(f"{name}: code 9", code == 9, f"{code}\n{output}")
    job.check(f"{name}: within seconds", seconds < 20, f"{seconds} s")
    last = training.metrics(name)[-1]["step"]
    job.check(f"{name}: a checkpoint of the last step", training.checkpoints(name)[-1:] == [last], f"{training.checkpoints(name)} {last}")
    says = re.compile(f"stopping after step {last}\\b.*{number.name}")
    job.check(f"{name}: says so once", len(says.findall(output)) == 1, output)
    for rank in range(max(ranks, 1)):
        log = training.log(name, rank)
        job.check(f"{name}: rank {rank} stops at step {last}", len(says.findall(log)) == 1, log[-500:])
    if ranks == 2:
        expect_whole(name)

# Signals in any number, at any moment of a step, do no harm: oneDNN keeps data where a signal's frame would be (runtime/signals.cpp).
run = Running(training, "flooded", 0, **LONG)
job.check("flooded: got under way", run.wait_for_step(5))
while run.process.poll() is None:
    run.process.send_signal(signal.SIGPIPE)
    time.sleep(0.0005)
code, output, seconds = run.finish()
job.check("flooded: trains to its end", code == 0, f"{code}\n{output[-2000:]}")

# More threads than cores: one word about it, whatever the number of ranks.
cores = len(os.sched_getaffinity(0))
for ranks in (0, 2):
    for threads, words in ((cores + 1, 1), (1, 0)):
        name = f"threads{threads}_ranks{ranks}"
        outcome = job.run(training.words(name, device__threads=threads, train__steps=8, schedule__decay_steps=8, sample__tokens=0), ranks)
        warnings = [line for line in outcome[2].splitlines() if f"warning: device.threads = {cores + 1}" in line and f" {cores} core" in line]
        job.check(f"{name}: {words} warnings", outcome[0] == 0 and len(warnings) == words, outcome[1] + outcome[2])

# SIGTERM to mpirun itself: it takes a second or so to pass the signal on, then kills the ranks soon after, saved or not, and the code is
# its own. What must hold is that the job ends, and that the run can go on.
ENDLESS = {**LONG, "train__steps": 1000000, "schedule__decay_steps": 1000000, "checkpoint__keep": 2}
run = Running(training, "term-to-mpirun", 2, **ENDLESS)
job.check("term-to-mpirun: got under way", run.wait_for_step(50))
run.process.send_signal(signal.SIGTERM)
code, output, seconds = run.finish()
job.check("term-to-mpirun: ends with an error", code != 0 and seconds < 20, f"{code}, {seconds} s\n{output}")
more = training.checkpoints("term-to-mpirun")[-1] + 5
expect_run("term-to-mpirun", 2, "--resume", what="term-to-mpirun is resumed", **{**ENDLESS, "train__steps": more})
steps = [line["step"] for line in training.metrics("term-to-mpirun")]
job.check("term-to-mpirun has each step once in its metrics", steps == list(range(1, more + 1)), str(steps[-20:]))

folder.cleanup()
job.finish()
