"""Runs a program alone or under mpirun, in an environment without a launcher's variables, and checks how it ends."""

import os
import signal
import subprocess
import sys
import time

LAUNCHER_PREFIXES = ("SLURM", "OMPI_", "PMI_", "PMIX_", "MPI_LOCAL")
SITE_PREFIX = "OMPI_MCA_"  # how Open MPI works on this machine; no launcher's


def environment_without_launcher():
    return {k: v for k, v in os.environ.items() if k.startswith(SITE_PREFIX) or not k.startswith(LAUNCHER_PREFIXES)}


def children_of(pid):
    """The processes that it has started and that still live: mpirun's are the ranks."""
    children = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                if int(file.read().rpartition(")")[2].split()[1]) == pid:
                    children.append(int(entry))
        except OSError:
            pass  # it ended while we looked
    return children


def kill_job(mpirun):
    """Ends an mpirun (a Popen) and all its ranks at once, as a node that loses its power does."""
    mpirun.send_signal(signal.SIGSTOP)  # starts no more ranks while we look
    for pid in children_of(mpirun.pid):
        os.kill(pid, signal.SIGKILL)
    mpirun.send_signal(signal.SIGKILL)


class Launched:
    def __init__(self, arguments):
        """arguments: PROGRAM -- MPIRUN FLAG ..."""
        self.program = arguments[0]
        self.mpirun = arguments[2:]
        self.failures = 0

    def run(self, words, ranks=0, timeout=60, **variables):
        """The exit code, stdout, stderr and seconds of the program; ranks=0 starts it without mpirun."""
        environment = environment_without_launcher()
        environment.update(variables)
        command = [*self.mpirun, "-np", str(ranks)] if ranks else []
        start = time.monotonic()
        done = subprocess.run([*command, self.program, *words], env=environment, capture_output=True, text=True, timeout=timeout)
        return done.returncode, done.stdout, done.stderr, time.monotonic() - start

    def expect(self, what, outcome, code, parts=(), lines=None, seconds=30):
        """Checks the exit code, that one line of Cohort's on stderr has each part, and how many such lines there are."""
        got_code, _, stderr, took = outcome
        said = [line for line in stderr.splitlines() if line.startswith("cohort: ")]
        problems = []
        if got_code != code:
            problems.append(f"exit code {got_code}, wanted {code}")
        if lines is not None and len(said) != lines:
            problems.append(f"{len(said)} messages, wanted {lines}")
        problems += [f"no '{part}' in the messages" for part in parts if not any(part in line for line in said)]
        if took > seconds:
            problems.append(f"took {took:.0f} s, wanted at most {seconds}")
        print(("FAILED  " if problems else "ok      ") + what)
        if problems:
            self.failures += 1
            print("   " + "\n   ".join(problems) + "\n" + stderr)

    def check(self, what, condition, detail=""):
        print(("ok      " if condition else "FAILED  ") + what)
        if not condition:
            self.failures += 1
            print(detail)

    def finish(self):
        sys.exit(1 if self.failures else 0)
