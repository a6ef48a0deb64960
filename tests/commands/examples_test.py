"""Every example in the help of every command runs as it is printed, in a folder with a copy of inputs and jobs, a small text, and runs of
the names that the examples speak of. What cannot run here is listed below, with the reason. COHORT_EXAMPLES=plan,job: these commands alone."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from launched import Launched, environment_without_launcher

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# In this order: what one command's examples write, others read.
COMMANDS = ["data", "train", "eval", "generate", "ckpt ls", "ckpt show", "ckpt verify", "ckpt diff", "ckpt export", "ckpt import",
            "ckpt prune", "ckpt reshard", "ckpt consolidate", "logs", "doctor", "prove", "plan", "job", "comm", "bench step",
            "bench checkpoint", "bench kernels", "topo", "preflight", "info"]  # info has the program's own
# Parts of commands -> why they do not run here. Everything else must end with 0.
NOT_HERE = {"srun ": "a SLURM allocation; tests/slurm starts such commands",
            "--submit": "a SLURM with partitions; tests/slurm submits jobs",
            "cuda": "a GPU",
            "bench kernels": "a GPU"}
OTHER_CODES = {"preflight": (0, 4),  # this machine may have its faults
               "job": (0, 4)}  # what is written is asked of sbatch, which may be here without a cluster
MINUTES = 600  # seconds that one example may take on a busy machine

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_examples_")


def path(*parts):
    return os.path.join(folder.name, *parts)


def examples_of(command):
    """The commands in its help: lines that begin with two spaces and a program; two spaces or more end them, and a backslash goes on."""
    code, text, _, _ = job.run([*command.split(), "--help"])
    assert code == 0, command
    text = re.sub(r" +\\\n +", " ", text)
    found = [match.group(1).strip() for match in re.finditer(r"^  ((?:cohort|mpirun|srun|mkdir)\b.*?)(?:  .*)?$", text, re.MULTILINE)]
    return list(dict.fromkeys(found))


def shell(line, seconds=MINUTES):
    environment = environment_without_launcher()
    environment["PATH"] = path("bin") + ":" + environment["PATH"]
    start = time.monotonic()
    process = subprocess.Popen(["bash", "-c", line], cwd=folder.name, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=3 if "--follow" in line else seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)  # Ctrl-C
        output, _ = process.communicate(timeout=60)
        return (0 if "--follow" in line else "timeout"), output, time.monotonic() - start
    return process.returncode, output, time.monotonic() - start


def prepare():
    for name in ("inputs", "jobs"):
        shutil.copytree(os.path.join(SOURCE, name), path(name))
    os.makedirs(path("bin"))
    os.symlink(os.path.abspath(job.program), path("bin", "cohort"))
    with open(path("bin", "mpirun"), "w", encoding="utf-8") as file:
        mpirun = shutil.which(job.mpirun[0])  # this file comes before it on the PATH
        file.write(f'#!/bin/sh\nexec {" ".join([mpirun, *job.mpirun[1:]])} "$@"\n')
    os.chmod(path("bin", "mpirun"), 0o755)
    with open(path("ds_config.json"), "w", encoding="utf-8") as file:
        file.write('{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}\n')
    small = "--set model.width=32 --set model.context=32 --set checkpoint.every=50 --set checkpoint.keep=0 " \
            "--set log.every=50 --set schedule.warmup_steps=10 --set train.steps="
    for line in ("mkdir data", "cohort data synth stories --out data/stories.txt",
                 "cohort data synth stories --out data/other.txt --bytes 100KiB --seed 2",
                 *(f"cohort data prepare --input data/{name}.txt --out data/{name}.h5 --tokenizer char" for name in ("stories", "other")),
                 f"mpirun -np 4 cohort train inputs/demo.toml {small}100",
                 *(f"cohort train inputs/demo.toml {small}50 --set run.name={name} --set run.seed={seed}" for name, seed in (("a", 1), ("b", 2)))):
        code, output, _ = shell(line)
        job.check(line, code == 0, output)


prepare()
ran = 0
for command in os.environ.get("COHORT_EXAMPLES", ",".join(COMMANDS)).split(","):
    examples = examples_of(command)
    job.check(f"cohort {command}: {len(examples)} examples", bool(examples))
    for line in examples:
        reason = next((why for part, why in NOT_HERE.items() if part in line), None)
        if reason:
            print(f"--      {line}: needs {reason}")
            continue
        # A text that is there already is not written again, which these examples could not know.
        for name in re.findall(r"--out (\S+)", line) if line.startswith("cohort data ") else ():
            for file in (path(name), path(name + ".json")):
                if os.path.exists(file):
                    os.remove(file)
        code, output, seconds = shell(line)
        allowed = (0, 11) if line.startswith("cohort ckpt diff") else OTHER_CODES.get(command, (0,))
        job.check(f"{line}  ({seconds:.1f} s)", code in allowed, f"exit code {code}\n{output}")
        ran += 1
job.check(f"{ran} examples ran", ran >= 60 or "COHORT_EXAMPLES" in os.environ)

folder.cleanup()
job.finish()
