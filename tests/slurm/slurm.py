"""The SLURM cluster of tools/cluster as a place to run tests in, and a small training beside it. Tests end with code 77 (skipped) where
no cluster is up."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/commands"))
from launched import Launched, environment_without_launcher  # noqa: E402
from training import Training  # noqa: E402

STATE = ROOT / "build/cluster"
ENDED = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "PREEMPTED")


class Slurm:
    """job: checks, and mpirun for reference runs; training: a corpus, a run file, and what runs left."""

    def __init__(self, arguments):
        if not (STATE / "record.json").exists():
            print("skipped: no cluster is up (make test-slurm brings one up)")
            sys.exit(77)
        self.isolated = json.loads((STATE / "record.json").read_text())["mode"] == "isolated"
        self.job = Launched(arguments)
        # Below the tree, which is what all nodes see: /tmp is each node's own.
        self.folder = tempfile.mkdtemp(prefix="slurm-test-", dir=ROOT / "build")
        self.training = Training(self.job, self.folder)
        self.environment = {**environment_without_launcher(), "SLURM_CONF": str(STATE / "slurm.conf")}
        self.environment["SBATCH_OUTPUT"] = f"{self.folder}/%j.log"  # also of jobs that jobs submit
        self.environment.pop("TMPDIR", None)  # jobs get our environment, and that folder need not be there on their nodes

    def start(self, *words):
        return subprocess.Popen(words, env=self.environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def finish(self, process, seconds=120):
        """As Launched.run: the exit code, stdout, stderr and seconds."""
        begin = time.monotonic()
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            return "none: it hangs", stdout, stderr, time.monotonic() - begin
        return process.returncode, stdout, stderr, time.monotonic() - begin

    def run(self, *words, seconds=120):
        return self.finish(self.start(*words), seconds)

    def srun(self, *words, seconds=120):
        """Two ranks on each of two nodes, unless the words say otherwise."""
        return self.run("srun", "--nodes=2", "--ntasks-per-node=2", *words, seconds=seconds)

    def cluster(self, *words):
        """tools/cluster: cut, heal, kill, restart."""
        code, stdout, stderr, _ = self.run(str(ROOT / "tools/cluster"), *words)
        self.job.check("cluster " + " ".join(words), code == 0, stdout + stderr)

    def submit(self, *words):
        """The number of a new job. What it prints goes to NUMBER.log in the folder of the test."""
        code, stdout, stderr, _ = self.run("sbatch", "--parsable", *words)
        self.job.check("sbatch " + " ".join(words[:2]), code == 0, stderr)
        return stdout.strip()

    def render(self, template, name, *words, site="laptop", **keys):
        """The path of a job script that `cohort job` writes for the run NAME of this test. Keys with a dot are the run file's, others (in
        capitals) the site's."""
        pairs = [f"run.name={name}", f"run.directory={self.training.path(name)}", *(f"{key}={value}" for key, value in keys.items())]
        path = self.training.path(f"{name}.sbatch")
        outcome = self.run(self.job.program, "job", "--jobs", str(ROOT / "jobs"), "--template", template, "--site", site, "--run",
                           self.training.run_file, "--out", path, "--overwrite", "--check", "no", *words, *[word for pair in pairs for word in ("--set", pair)])
        self.job.check(f"cohort job --template {template}", outcome[0] == 0, outcome[2])
        return path

    def why(self, number):
        """What there is to read about a job that did not do as it should: SLURM's view of it and of the nodes, its log and those of its tasks,
        and the ends of the daemons' logs."""
        tasks = sorted(Path(self.folder).glob(f"*/slurm/{number}-task*.log"))
        daemons = sorted((STATE / "log").glob("*.log"))
        ends = [f"--- {path}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-25:]) for path in tasks + daemons]
        views = [self.run("scontrol", "show", "job", number)[1], self.run("sinfo", "--Node", "--long")[1]]
        return "\n".join([*views, f"--- log of {number}", self.log(number), *ends])

    def log(self, number):
        path = Path(self.folder) / f"{number}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def facts(self, number):
        """Key -> value of `scontrol show job`: JobState, ExitCode, Restarts, Reason ..."""
        _, stdout, _, _ = self.run("scontrol", "show", "job", number)
        return dict(word.split("=", 1) for word in stdout.split() if "=" in word)

    def wait_for(self, number, *states, seconds=120):
        """The facts of a job once it is in one of the states; the last ones if it never is."""
        end = time.monotonic() + seconds
        while (facts := self.facts(number)).get("JobState") not in states and time.monotonic() < end:
            time.sleep(0.3)
        return facts

    def wait_for_restart(self, number, count, seconds=120):
        """The facts of a job once it has started anew so many times and runs; the last ones if it never does."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            facts = self.facts(number)
            if (facts.get("JobState"), facts.get("Restarts")) == ("RUNNING", str(count)):
                break
            time.sleep(0.3)
        return facts

    def wait_for_step(self, name, step, seconds=120):
        """True once the metrics of a run have this step."""
        end = time.monotonic() + seconds
        while len(self.training.metrics(name)) < step and time.monotonic() < end:
            time.sleep(0.05)
        return len(self.training.metrics(name)) >= step

    def losses(self, name):
        return [(line["step"], line["loss"]) for line in self.training.metrics(name)]

    def end(self):
        if not self.job.failures:  # else a person wants to see the logs
            shutil.rmtree(self.folder)
        self.job.finish()
