#!/usr/bin/env python3
"""What rendered jobs do when ranks end in this or that way, with a srun, scontrol and squeue that only pretend. Usage: script_test.py COHORT SOURCE_TREE

The pretended srun trains, unless it is to have ENDED before that; saves a checkpoint if it is told to, waits for a signal if it is told to, and ends with a given code; at TERM it kills its
ranks, as the real one does. All of them write down how they were called.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

cohort, source = os.path.abspath(sys.argv[1]), Path(sys.argv[2]).resolve()
failures = 0

TOOL = """#!/usr/bin/env bash
echo "$(basename "$0") $*" >> "$CALLS"
case $(basename "$0") in
  scontrol) [[ $1 != show ]] || echo "JobState=${STATE:-RUNNING} Reason=${REASON:-None} PreemptTime=${PREEMPTED:-None}" ;;
  sbatch) echo 77 ;;
  srun)
    [[ $* == *" topo"* && -z ${TOPO:-} ]] && exit 0
    [[ -n ${SAY:-} ]] && echo "cohort: $SAY" >> "$RUN/slurm/5-task0.log"
    [[ $* == *" train "* && -z ${ENDED:-} ]] && echo "run folder  $RUN" >> "$RUN/slurm/5-task0.log"
    save() { [[ -n ${SAVE:-} ]] && mkdir -p "$RUN/checkpoints/$SAVE" && touch "$RUN/checkpoints/$SAVE/manifest.json"; }
    if [[ -n ${WAIT:-} ]]; then
      trap 'echo "srun got USR1" >> "$CALLS"; save; exit "$CODE"' USR1
      trap 'echo "srun got TERM" >> "$CALLS"; exit 137' TERM
      echo ready >> "$CALLS"
      for _ in $(seq 300); do sleep 0.1; done
      exit 99
    fi
    save
    exit "$CODE" ;;
esac
"""


class Job:
    """A rendered template in a folder of its own, which has the template's name unless the words say another template."""

    def __init__(self, folder, name, *words):
        self.folder = Path(folder) / name
        (self.folder / "bin").mkdir(parents=True)
        for tool in ("srun", "scontrol", "sbatch", "scancel"):
            (self.folder / "bin" / tool).write_text(TOOL)
            (self.folder / "bin" / tool).chmod(0o755)
        self.script = self.folder / "job.sbatch"
        self.calls = self.folder / "calls"
        template = [] if "--template" in words else ["--template", name]
        site = [] if "--site" in words else ["--site", "generic"]
        command = [cohort, "job", "--jobs", source / "jobs", *template, *site, "--run", source / "inputs/demo.toml", *words,
                   "--out", self.script, "--check", "no"]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder)

    def start(self, run="runs/demo", **variables):
        """Runs the script; with WAIT until srun is up, then sends it that signal. Returns the exit code and what was called."""
        self.calls.write_text("")
        environment = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "CALLS": str(self.calls), "RUN": run,
                       "SLURM_JOB_ID": "5", "SLURM_NTASKS": "4", "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "n1",
                       "SLURM_CPUS_PER_TASK": "1", "COHORT_SETTLE_SECONDS": "0", "SLURM_ARRAY_JOB_ID": "4", "SLURM_ARRAY_TASK_ID": "1"}
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


def ends(folder):
    job = Job(folder, "single_node", "--ranks", "4", "--set", "RESTARTS=3")
    expect("success ends the job", job.start(CODE="0", SAVE="step_01"), 0, ["--resume-if-any", "--set train.steps=7"], ["requeue 5"])
    for number, code in enumerate(("1", "2", "3", "4", "5", "6", "7", "8", "10", "11", "13"), 10):
        expect(f"exit code {code} ends it, also if there is a new checkpoint", job.start(CODE=code, SAVE=f"step_{number}"), int(code),
               lacks=["requeue 5"])
    for number, code in enumerate(("9", "12", "137", "143"), 30):
        expect(f"after {code} it goes back", job.start(CODE=code, SAVE=f"step_{number}"), int(code), ["scontrol requeue 5"])
        expect("... if there is progress", job.start(CODE=code), int(code), ["no checkpoint since this start began"], ["requeue 5"])
    for code in ("12", "137"):
        expect(f"{code} before training began does not count", job.start(CODE=code, ENDED="yes"), int(code), ["scontrol requeue 5"])
        expect("... how often", job.start(CODE=code, ENDED="yes", SLURM_RESTART_COUNT="3"), int(code), ["already restarted 3 times"], ["requeue 5"])
    expect("srun has no place for the ranks, in the first start", job.start(CODE="200", ENDED="yes"), 200, ["--immediate="], ["requeue 5"])
    expect("... beside what the start before has left", job.start(CODE="200", ENDED="yes", SLURM_RESTART_COUNT="1"), 200, ["scontrol requeue 5"])
    expect("srun could not start the ranks: another try", job.start(CODE="168"), 168, ["scontrol requeue 5"])
    expect("start 3 may come back", job.start(CODE="12", SAVE="step_40", SLURM_RESTART_COUNT="2"), 12, ["scontrol requeue 5", "start 3"])
    expect("start 4 may not", job.start(CODE="12", SAVE="step_41", SLURM_RESTART_COUNT="3"), 12, ["already restarted 3 times"], ["requeue 5"])
    expect("a cancelled job stays so", job.start(CODE="9", SAVE="step_42", STATE="COMPLETING"), 9, ["COMPLETING"], ["requeue 5"])
    expect("what went wrong is told", job.start(CODE="8", SAY="the first trouble"), 8, ["cohort: the first trouble\n"])
    expect("... and not told again by the next start", job.start(CODE="8", SAY="the second trouble"), 8, ["cohort: the second trouble\n"],
           ["cohort: the first trouble"])


def signals(folder):
    job = Job(folder, "multi_node", "--ranks", "4")
    expect("USR1 reaches the ranks, and the job goes back", job.start(CODE="9", SAVE="step_1", WAIT="SIGUSR1"), 9,
           ["srun got USR1", "scontrol requeue 5"])
    expect("so does TERM, as the signal that srun does not answer by killing them", job.start(CODE="9", SAVE="step_2", WAIT="SIGTERM"), 9,
           ["srun got USR1", "scontrol requeue 5"], ["srun got TERM"])
    expect("a late rank that srun killed", job.start(CODE="137", SAVE="step_3", WAIT="SIGTERM"), 9, ["scontrol requeue 5"])
    expect("the time limit before the first checkpoint", job.start(CODE="9", WAIT="SIGUSR1"), 9, ["no checkpoint"], ["requeue 5"])
    expect("others want the nodes before the first checkpoint", job.start(CODE="9", WAIT="SIGTERM"), 9, ["scontrol requeue 5"])
    expect("... and SLURM told the ranks alone", job.start(CODE="9", PREEMPTED="2026-01-01T00:00:00"), 9, ["scontrol requeue 5"])
    expect("... but training had failed", job.start(CODE="8", WAIT="SIGTERM"), 8, lacks=["requeue 5"])
    expect("others want the nodes while topo runs", job.start(CODE="138", WAIT="SIGTERM", TOPO="waits"), 138,
           ["srun got USR1", "scontrol requeue 5"], [" train "])
    expect("the time limit while topo runs", job.start(CODE="138", WAIT="SIGUSR1", TOPO="waits"), 138, ["no checkpoint"], ["requeue 5", " train "])
    expect("topo fails", job.start(CODE="4", TOPO="fails"), 4, lacks=["requeue 5", " train "])
    expect("topo loses a rank", job.start(CODE="137", TOPO="fails"), 137, ["scontrol requeue 5"], [" train "])


def starts(folder):
    job = Job(folder, "no-folder", "--template", "single_node", "--ranks", "4", "--set", "run.directory=/dev/null/run")
    expect("no place for the run", job.start(CODE="0"), 7, ["cohort: cannot create the folder /dev/null/run/slurm"], [" train "])
    job = Job(folder, "no-program", "--template", "evaluation", "--set", "COHORT=missing/cohort")
    expect("no program", job.start(CODE="0"), 4, ["cohort: no program missing/cohort"], ["srun"])
    site = Path(folder) / "centre.env"
    site.write_text('BASE="generic"\nDESCRIPTION="has modules"\nMODULES="gcc/99"\n')
    job = Job(folder, "no-modules", "--template", "evaluation", "--site", site)
    expect("no modules", job.start(CODE="0"), 4, ["cohort: ", "site centre", "gcc/99"], ["srun"])
    site.write_text(site.read_text() + 'MODULES_INIT="/missing/init"\n')
    job = Job(folder, "no-module-command", "--template", "evaluation", "--site", site)
    expect("no command `module`", job.start(CODE="0"), 4, ["cohort: ", "site centre", "/missing/init"], ["srun"])


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
    expect("a lost rank does not", job.start(CODE="12", SAVE="step_5"), 12, lacks=["scancel"])
    expect("... unless nothing was saved since", job.start(CODE="12"), 12, ["scancel 77"])
    expect("nor does a killed rank", job.start(CODE="137", SAVE="step_6"), 137, lacks=["scancel"])
    expect("nor do others who want the nodes", job.start(CODE="9", WAIT="SIGTERM"), 9, lacks=["scancel"])
    ended = {"CODE": "137", "SAVE": "step_7", "WAIT": "SIGTERM", "STATE": "COMPLETING"}
    expect("nor does SLURM, which lost a node", job.start(**ended, REASON="NodeDown"), 9, lacks=["scancel"])
    expect("nor SLURM, for a job that has precedence", job.start(**ended, PREEMPTED="2026-01-01T00:00:00"), 137, lacks=["scancel"])
    expect("a person does", job.start(**ended), 137, ["scancel 77"])


def others(folder):
    expect("several nodes: topo first", Job(folder, "two-steps", "--template", "multi_node", "--ranks", "4").start(CODE="0"), 0,
           [" topo\n", " train "])
    gpu = Job(folder, "gpu", "--ranks", "4", "--set", "device.kind=cuda", "--set", "COHORT=true")
    expect("GPUs: looks at the nodes and measures links first", gpu.start(CODE="0"), 0, [" preflight --quick\n", " comm ", " train "])
    expect("... and a bad node ends the job", gpu.start(CODE="4"), 4, [" preflight --quick\n"], [" comm ", " train ", "requeue 5"])
    expect("evaluation: its exit code", Job(folder, "evaluation").start(CODE="6"), 6, ["eval runs/demo"])
    expect("reshard", Job(folder, "reshard", "--ranks", "4").start(CODE="0"), 0, ["ckpt reshard runs/demo --layout", "--out runs/demo-resharded"])
    expect("consolidate", Job(folder, "consolidate").start(CODE="0"), 0, ["--out runs/demo-consolidated"])


with tempfile.TemporaryDirectory() as scratch:
    for part in (ends, signals, starts, arrays, chains, others):
        part(scratch)
sys.exit(1 if failures else 0)
