#!/usr/bin/env python3
"""Every template for every site comes out as a job that bash, shellcheck and SLURM take, and the labs' scripts are such jobs. Usage: render_test.py COHORT SOURCE_TREE

SLURM is asked (sbatch --test-only) where SLURM_CONF says that there is one and it answers; it then refuses what its cluster cannot give, so
only the site laptop is held to that. Without it the #SBATCH lines are compared with the options that sbatch has.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

cohort, source = sys.argv[1], Path(sys.argv[2])
jobs = source / "jobs"
failures = 0

# What sbatch knows of what templates may ask, by `man sbatch`.
OPTIONS = set("""job-name nodes ntasks ntasks-per-node cpus-per-task gpus-per-node partition account qos constraint mem mail-type mail-user time
                 signal output open-mode requeue no-requeue array""".split())
# Words that a template needs beside a run file and ranks.
EXTRA = {
    "array_sweep": ["--sweep", "optimizer.learning_rate=1e-3,3e-3"],
    "gpu": ["--set", "device.kind=cuda", "--set", "COHORT=build/cuda/cohort"],
}
TRAINING = {"single_node", "multi_node", "gpu", "array_sweep", "chain"}


def check(what, problems):
    global failures
    print(("FAILED  " if problems else "ok      ") + what)
    if problems:
        failures += 1
        print("   " + "\n   ".join(problems))


def run(words, **options):
    environment = {k: v for k, v in os.environ.items() if k != "COHORT_SITE"}
    return subprocess.run(words, capture_output=True, text=True, env=environment, **options)


def slurm_answers():
    return bool(os.environ.get("SLURM_CONF") and shutil.which("squeue")) and run(["squeue"]).returncode == 0


def request_problems(lines):
    """Of the lines #SBATCH: known options, each once, each with a value and a comment above, all before the first command."""
    problems, seen, command = [], set(), None
    for number, line in enumerate(lines, 1):
        if not line.startswith("#SBATCH"):
            if line and not line.startswith("#"):
                command = command or number
            continue
        match = re.fullmatch(r"#SBATCH --([a-z-]+)(=(\S+))?", line)
        if not match:
            problems.append(f"line {number} is no request: {line}")
        elif match[1] not in OPTIONS:
            problems.append(f"line {number}: sbatch knows no --{match[1]}")
        elif match[1] in seen:
            problems.append(f"line {number}: --{match[1]} comes twice")
        elif (match[2] is None) != match[1].endswith("requeue"):
            problems.append(f"line {number}: --{match[1]} has a value too few or too many")
        else:
            seen.add(match[1])
        if command:
            problems.append(f"line {number}: sbatch does not look behind the first command, which is in line {command}")
        if not lines[number - 2].startswith("# "):
            problems.append(f"line {number} has no comment above it")
    needed = {"job-name", "nodes", "cpus-per-task", "time", "output", "open-mode"}
    return problems + [f"no --{name}" for name in sorted(needed - seen)]


def habit_problems(template, text):
    """What every job that trains has to do."""
    habits = ["--mpi=", '--cpus-per-task="$SLURM_CPUS_PER_TASK"', "--kill-on-bad-exit=1"]
    if template in TRAINING:
        habits += ["#SBATCH --signal=B:USR1@", "task%t", "' USR1\n", "' TERM\n", '" &\n', "--resume-if-any", 'finish "$code"',
                   "scontrol requeue" if template != "chain" else "afterany"]
    return [f"lacks {habit!r}" for habit in habits if habit not in text]


def linted(script):
    """What bash, and shellcheck where it is, have to say against a script."""
    programs = [["bash", "-n", script]]
    if shutil.which("shellcheck"):
        programs.append(["shellcheck", "--severity=warning", script])
    return refusals(programs)


def refusals(programs):
    done = [(program[0], run(program)) for program in programs]
    return [f"{name}: {one.stdout}{one.stderr}" for name, one in done if one.returncode != 0]


def render(template, site, script):
    ranks = [] if template in ("reshard", "consolidate", "evaluation") else ["--ranks", "4" if template == "multi_node" else "2"]
    words = [cohort, "job", "--jobs", jobs, "--template", template, "--site", site, "--run", source / "inputs/demo.toml", *ranks,
             *EXTRA.get(template, []), "--out", script, "--check", "no"]
    return run(words)


def look_at(template, site, script, with_slurm):
    text = script.read_text()
    problems = request_problems(text.splitlines()) + habit_problems(template, text)
    problems += [f"left over: {match}" for match in re.findall(r"@[A-Z_]+@|^@include.*|^#@.*", text, re.M)]
    return problems + linted(script) + (refusals([["sbatch", "--test-only", script]]) if with_slurm and site == "laptop" else [])


def main():
    templates = sorted(path.stem for path in (jobs / "templates").glob("*.sbatch"))
    sites = sorted(path.stem for path in (jobs / "sites").glob("*.env"))
    with_slurm = slurm_answers()
    print(f"shellcheck: {shutil.which('shellcheck') or 'not here'}; SLURM: {'asked' if with_slurm else 'not here'}")
    for script in sorted(jobs.glob("*.sbatch")):
        check(f"jobs/{script.name}", request_problems(script.read_text().splitlines()) + linted(script))
    with tempfile.TemporaryDirectory() as folder:
        for site in sites:
            problems = run(["bash", "-n", jobs / "sites" / f"{site}.env"]).stderr.splitlines()
            check(f"bash reads sites/{site}.env", problems)
            for template in templates:
                script = Path(folder) / f"{template}-{site}.sbatch"
                done = render(template, site, script)
                if template == "gpu" and site == "laptop":  # whose nodes have none
                    check(f"{template} for {site} is refused", [] if done.returncode == 3 and "has no GPUs" in done.stderr else [done.stderr])
                elif done.returncode != 0:
                    check(f"{template} for {site}", [done.stderr])
                else:
                    check(f"{template} for {site}", look_at(template, site, script, with_slurm))
    listed = run([cohort, "job", "--jobs", jobs, "--list"]).stdout
    check("--list names all", [name for name in templates + sites if name not in listed])
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
