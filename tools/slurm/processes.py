"""What the cluster has started on this machine, and its record: number and start time of each daemon, so that exactly those are
ended."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / "build" / "cluster"
RECORD = STATE / "record.json"
CONF = STATE / "slurm.conf"

os.environ["PATH"] += ":/usr/sbin:/sbin"  # daemons and ip are there, and not everybody's PATH has them


def stop(text):
    sys.exit(f"cluster: {text}")


def output_of(*words):
    """What a command prints; empty if it fails."""
    done = subprocess.run(words, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def do(*words):
    """Runs a command that must work."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        stop(f"`{' '.join(words)}` failed: {done.stderr.strip() or done.stdout.strip()}")


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not (result := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    return result


def boot_id():
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def load():
    """The record; empty if there is no cluster. After a reboot nothing of an old record exists any more."""
    try:
        record = json.loads(RECORD.read_text())
    except FileNotFoundError:
        return {}
    if record["boot"] != boot_id():
        record["processes"] = {}
    return record


def save(record):
    new = RECORD.with_suffix(".new")
    new.write_text(json.dumps(record, indent=2) + "\n")
    new.rename(RECORD)


def started_at(pid):
    """When a process started, in clock ticks since boot: with its number, this names it for good. 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])


def alive(record, name):
    pid, start = record["processes"].get(name, (0, 0))
    return pid != 0 and started_at(pid) == start


def start(record, name, words, **variables):
    """Starts a daemon that outlives this program, and records it."""
    with open(STATE / "log" / f"{name}.out", "ab") as log:
        process = subprocess.Popen(words, env={**environment(), **variables}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True)
    record["processes"][name] = [process.pid, started_at(process.pid)]
    save(record)
    return process


def end(record, name, with_signal, seconds=10):
    if alive(record, name):
        os.kill(record["processes"][name][0], with_signal)
        if not wait_until(lambda: not alive(record, name), seconds):
            os.kill(record["processes"][name][0], signal.SIGKILL)
            wait_until(lambda: not alive(record, name), seconds)
    record["processes"].pop(name, None)
    save(record)


def environment():
    """What a command needs to talk to the cluster."""
    return {**os.environ, "SLURM_CONF": str(CONF)}
