"""`cohort logs` on the logs of real runs: merged, selected, followed; and a rank that is slow is named.

    logs_test.py COHORT -- MPIRUN FLAG ..."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from launched import Launched, environment_without_launcher
from training import Running, Training

RANKS = 3
STEPS = 12
SMALL = {"train__global_batch": 6, "train__micro_batch": 1, "sample__tokens": 0}

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_logs_")
training = Training(job, folder.name)


def logs(name, *words, ranks=0):
    """The lines that the command prints, and how it ended."""
    outcome = job.run(["logs", training.path(name), *words], ranks)
    return outcome[1].splitlines(), outcome


def ends_with_success(run):
    code, output, _ = run.finish()
    job.check(f"{run.name} trains", code == 0, output)
    # Rank 0 alone speaks, whatever the others do.
    lines = [line for line in output.splitlines() if line]
    job.check("the console has each line once", len(set(lines)) == len(lines), output)


def merged_and_selected():
    ends_with_success(Running(training, "done", RANKS, train__steps=STEPS, train__validate_every=5, **SMALL))
    of_ranks = [training.log("done", rank).splitlines() for rank in range(RANKS)]
    everything = sorted((line for lines in of_ranks for line in lines), key=lambda line: line[:24])
    got, outcome = logs("done")
    job.expect("logs", outcome, 0, lines=0)
    job.check("all lines of all ranks", sorted(got) == sorted(everything) and len(got) >= RANKS * STEPS, outcome[1])
    job.check("in the order of time", [line[:24] for line in got] == [line[:24] for line in everything], outcome[1])
    for rank in range(RANKS):
        job.check(f"those of rank {rank} in their order", [line for line in got if f" rank {rank}: " in line] == of_ranks[rank], outcome[1])

    got, outcome = logs("done", "--rank", "0,2")
    job.check("--rank", len(got) == len(of_ranks[0]) + len(of_ranks[2]) and not any(" rank 1: " in line for line in got), outcome[1])
    got, outcome = logs("done", "--since", "step:8", "--until", "step:10", "--grep", "^step [0-9]+ loss")
    steps = sorted(int(re.search(r"step (\d+)", line)[1]) for line in got)
    job.check("--since, --until and --grep", steps == sorted([8, 9, 10] * RANKS), outcome[1])
    got, outcome = logs("done", "--since", "2020-01-01", "--until", "10m")
    job.check("nothing is that old", got == [] and outcome[0] == 0, outcome[1])
    got, outcome = logs("done", "--grep", "validation loss", "--fold", "--last", "1")
    # How many ranks said it within a second is a matter of the machine.
    job.check("--fold and --last", len(got) == 1 and re.search("info ranks? .*: step 12 validation loss", got[0]), outcome[1])
    got, outcome = logs("done", "--rank", "1", ranks=2)
    job.check("under a launcher they are printed once", got == of_ranks[1], outcome[1])


def refusals():
    for what, words, code, parts in (
            ("a folder that is none", ["dome"], 7, ["no such folder", "did you mean", "done"]),
            ("a folder without logs", ["."], 7, ["is it a run folder?"]),
            ("a rank without a log", ["done", "--rank", "1,3"], 2, ["rank 3 has no log", "ranks 0-2 have one"]),
            ("ranks that are none", ["done", "--rank", "1-x"], 2, ["--rank '1-x'", "at character 1"]),
            ("a bad expression", ["done", "--grep", "step (1"], 2, ["--grep 'step (1'", "at character 6"]),
            ("a bad moment", ["done", "--since", "2025-02-30"], 2, ["--since '2025-02-30'", "at character 9", "step:100"]),
            ("a bad level", ["done", "--level", "loud"], 2, ["loud"]),
            ("two ends", ["done", "--follow", "--until", "1m"], 2, ["--follow"])):
        outcome = job.run(["logs", training.path(words[0]), *words[1:]])
        job.expect(what, outcome, code, parts, lines=1)


class Pulses:
    """Stops a process for three quarters of the time."""

    def __init__(self, pid):
        self.pid, self.ended = pid, threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while not self.ended.is_set():
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(0.06)
            os.kill(self.pid, signal.SIGCONT)
            time.sleep(0.02)

    def end(self):
        self.ended.set()
        self.thread.join()


def slow_rank_and_follow():
    run = Running(training, "slow", RANKS, train__steps=10 ** 6, schedule__decay_steps=10 ** 6, train__validate_every=0,
                  checkpoint__at_end="false", log__every=50, log__level="info", **SMALL)
    job.check("the run gets under way", run.wait_for_step(5))
    follower = subprocess.Popen([job.program, "logs", training.path("slow"), "--follow", "--grep", " is slow|^step "],
                                env=environment_without_launcher(), stdout=subprocess.PIPE, text=True)
    limit = threading.Timer(45, follower.kill)
    limit.start()
    pulses = Pulses(run.pid_of(1))
    seen = []
    for line in follower.stdout:
        seen.append(line)
        if "rank 1 on" in line:
            break
    pulses.end()
    follower.send_signal(signal.SIGINT)
    rest, _ = follower.communicate()
    limit.cancel()
    time.sleep(2)  # what the console is told comes through mpirun, which a kill overtakes
    run.kill_all()
    output = run.finish()[1]
    job.check("Ctrl-C ends following in order", follower.returncode == 0, f"{follower.returncode}\n{rest}")
    job.check("what came was shown while it came", any(" rank 2: step 1 loss" in line for line in seen), "".join(seen))
    told = r"rank 1 on \S+ is slow: its own work took \S+ s per step where the median is \S+ s \(steps \d+ to \d+\)"
    job.check("the slow rank is named in the log", re.search(r"warning rank 0: " + told, "".join(seen)) is not None, "".join(seen))
    job.check("and on the console", re.search("^" + told, output, re.M) is not None, output)
    works = [line for line in training.metrics("slow") if "own_work" in line]
    job.check("the metrics have the work of the ranks, at reported steps",
              works and all(line["step"] % 50 == 0 and 0 < line["own_work"]["min"] <= line["own_work"]["median"] <= line["own_work"]["max"]
                            for line in works), works[:3])
    job.check("and the slowest rank", any(line["slowest_rank"] == 1 for line in works), works)


merged_and_selected()
refusals()
slow_rank_and_follow()
job.finish()
