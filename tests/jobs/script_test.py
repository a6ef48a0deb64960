#!/usr/bin/env python3
"""What rendered jobs do when ranks end in this or that way, with a srun, scontrol and squeue that only pretend. Usage: script_test.py COHORT SOURCE_TREE

The pretended srun saves a checkpoint if it is told to, waits for a signal if it is told to, and ends with a given code; all of them write
down how they were called.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

cohort, source = os.path.abspath(sys.argv[1]), Path(sys.argv[2])
failures = 0

TOOL = """#!/usr/bin/env bash
echo "$(basename "$0") $*" >> "$CALLS"
case $(basename "$0") in
  squeue) echo "${STATE:-RUNNING}" ;;
  sbatch) echo 77 ;;
  srun)
    [[ $* == *" topo"* ]] && exit 0
    save() { [[ -n ${SAVE:-} ]] && mkdir -p "$RUN/checkpoints/$SAVE" && touch "$RUN/checkpoints/$SAVE/manifest.json"; }
    if [[ -n ${WAIT:-} ]]; then
      trap 'echo "srun got USR1" >> "$CALLS"; save; exit "$CODE"' USR1
      trap 'echo "srun got TERM" >> "$CALLS"; save; exit "$CODE"' TERM
      echo ready >> "$CALLS"
      for _ in $(seq 300); do sleep 0.1; done
      exit 99
    fi
    save
    exit "$CODE" ;;
esac
"""


class Job:
    """A rendered template in a folder of its own."""

    def __init__(self, folder, template, *words):
        self.folder = Path(folder) / template
        (self.folder / "bin").mkdir(parents=True)
        for name in ("srun", "scontrol", "squeue", "sbatch", "scancel"):
            (self.folder / "bin" / name).write_text(TOOL)
            (self.folder / "bin" / name).chmod(0o755)
        self.script = self.folder / "job.sbatch"
        self.calls = self.folder / "calls"
        command = [cohort, "job", "--jobs", source / "jobs", "--template", template, "--site", "generic", "--run", source / "inputs/demo.toml",
                   *words, "--out", self.script, "--check", "no"]
        subprocess.run(command, check=True, capture_output=True)

    def start(self, run="runs/demo", **variables):
        """Runs the script; with WAIT until srun is up, then sends it that signal. Returns the exit code and what was called."""
        self.calls.write_text("")
        environment = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "CALLS": str(self.calls), "RUN": run,
                       "SLURM_JOB_ID": "5", "SLURM_NTASKS": "4", "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "n1",
                       "SLURM_CPUS_PER_TASK": "1", "SLURM_ARRAY_JOB_ID": "4", "SLURM_ARRAY_TASK_ID": "1"}
        environment.pop("SLURM_RESTART_COUNT", None)
        environment.update(variables)
        process = subprocess.Popen(["bash", self.script, "--set", "train.steps=7"], cwd=self.folder, env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if "WAIT" in variables:
            for _ in range(300):
                if "ready" in self.calls.read_text():
                    break
                time.sleep(0.1)
            process.send_signal(getattr(signal, variables["WAIT"]))
        said = process.communicate(timeout=60)[0]
        return process.returncode, self.calls.read_text() + said


def expect(what, outcome, code, has=(), lacks=()):
    global failures
    got, text = outcome
    problems = [] if got == code else [f"exit code {got}, wanted {code}"]
    problems += [f"no '{part}'" for part in has if part not in text] + [f"'{part}' should not be there" for part in lacks if part in text]
    print(("FAILED  " if problems else "ok      ") + what)
    if problems:
        failures += 1
        print("   " + "\n   ".join(problems) + "\n" + text)


def requeues(folder):
    job = Job(folder, "single_node", "--ranks", "4", "--set", "RESTARTS=3")
    expect("success ends the job", job.start(CODE="0", SAVE="step_1"), 0, ["--resume-if-any", "--set train.steps=7"], ["requeue"])
    expect("a failure ends the job", job.start(CODE="8", SAVE="step_2"), 8, lacks=["scontrol"])
    expect("USR1 reaches srun, and the job goes back", job.start(CODE="9", SAVE="step_3", WAIT="SIGUSR1"), 9,
           ["srun got USR1", "scontrol requeue 5"])
    expect("so does TERM", job.start(CODE="9", SAVE="step_4", WAIT="SIGTERM"), 9, ["srun got TERM", "scontrol requeue 5"])
    expect("a late rank that srun killed", job.start(CODE="137", SAVE="step_5", WAIT="SIGTERM"), 9, ["scontrol requeue 5"])
    expect("the same without a checkpoint", job.start(CODE="137", WAIT="SIGTERM"), 137, lacks=["scontrol"])
    expect("no progress, no start anew", job.start(CODE="9"), 9, ["no checkpoint since this start"], ["scontrol"])
    expect("progress again", job.start(CODE="9", SAVE="step_6", SLURM_RESTART_COUNT="2"), 9, ["scontrol requeue 5", "start 3"])
    expect("enough restarts", job.start(CODE="9", SAVE="step_7", SLURM_RESTART_COUNT="3"), 9, ["3 times already"], ["scontrol"])
    expect("a cancelled job stays so", job.start(CODE="9", SAVE="step_8", STATE="COMPLETING"), 9, ["COMPLETING"], ["scontrol"])


def arrays(folder):
    job = Job(folder, "array_sweep", "--ranks", "4", "--sweep", "optimizer.learning_rate=1e-3,3e-3")
    expect("a task takes its value, and goes back alone", job.start("runs/demo-3e-3", CODE="9", SAVE="step_1"), 9,
           ["--set optimizer.learning_rate=3e-3", "--set run.name=demo-3e-3", "run.directory=runs/demo-3e-3", "scontrol requeue 4_1"])


def chains(folder):
    job = Job(folder, "chain", "--ranks", "4", "--set", "RESTARTS=2")
    expect("a link submits the next, with its words", job.start(CODE="9", SAVE="step_1"), 9,
           ["sbatch --parsable --dependency=afterany:5", "--set train.steps=7\n"], ["scancel"])
    expect("the last link submits none", job.start(CODE="9", SAVE="step_2", COHORT_LINK="2"), 9, ["none"], ["sbatch --", "scancel"])
    expect("the end of the run ends the chain", job.start(CODE="0", SAVE="step_3"), 0, ["scancel 77"])
    expect("a failure does", job.start(CODE="8", SAVE="step_4"), 8, ["scancel 77"])
    expect("no progress does", job.start(CODE="9"), 9, ["scancel 77"])


def others(folder):
    expect("several nodes: topo first", Job(folder, "multi_node", "--ranks", "4").start(CODE="0"), 0, [" topo\n"])
    expect("evaluation: its exit code", Job(folder, "evaluation").start(CODE="6"), 6, ["eval runs/demo"])
    expect("reshard", Job(folder, "reshard", "--ranks", "4").start(CODE="0"), 0, ["ckpt reshard runs/demo --layout", "--out runs/demo-resharded"])
    expect("consolidate", Job(folder, "consolidate").start(CODE="0"), 0, ["--out runs/demo-consolidated"])


with tempfile.TemporaryDirectory() as scratch:
    for part in (requeues, arrays, chains, others):
        part(scratch)
sys.exit(1 if failures else 0)
