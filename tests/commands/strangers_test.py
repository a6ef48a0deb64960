"""Connections from outside the job (a port scan, a broken program), from the moment its ranks start: training goes on undisturbed, and after
the start no rank listens anywhere. The kinds that come while rank 0 listens are those of tests/watch/strangers.hpp; here they meet a whole
job. All within this machine.

    strangers_test.py COHORT -- MPIRUN FLAG ..."""

import os
import socket
import sys
import tempfile
import threading
import time

from launched import Launched, children_of
from training import Running, Training

RANKS = 3
OF_EACH_KIND = 100
TIMEOUT = 15  # seconds, of the watch: shorter than the strangers are there
KINDS = ("idle", "slow", "garbage", "endless")

# The ranks of one machine share memory: Open MPI itself listens nowhere.
os.environ |= {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader"}
os.environ["COHORT_WATCH_TIMEOUT"] = str(TIMEOUT)
job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_strangers_")
training = Training(job, folder.name)


def listening(pid):
    """The (family, port) at which a process listens, and whether it is for this machine alone."""
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return []
    inodes = {link[len("socket:["):-1] for link in links if link.startswith("socket:[")}
    found = []
    for name, family, loopback in (("tcp", socket.AF_INET, "0100007F"), ("tcp6", socket.AF_INET6, "0" * 24 + "01000000")):
        try:
            with open(f"/proc/{pid}/net/{name}", encoding="utf-8") as file:
                sockets = file.readlines()[1:]
        except OSError:  # it has ended meanwhile
            return []
        for words in map(str.split, sockets):
            if words[3] == "0A" and words[9] in inodes:
                address, port = words[1].split(":")
                found.append((family, int(port, 16), address == loopback))
    return found


class Strangers:
    """Knock wherever a rank listens, until stop()."""

    def __init__(self, run):
        self.run, self.sockets, self.seen, self.ending = run, [], set(), False
        self.thread = threading.Thread(target=self.disturb)
        self.thread.start()

    def knock(self, family, port):
        for number in range(OF_EACH_KIND * len(KINDS)):
            connection = socket.socket(family)
            connection.settimeout(1.0)
            try:
                connection.connect(("127.0.0.1" if family == socket.AF_INET else "::1", port))
            except OSError:
                return  # the door is closed
            connection.setblocking(False)
            self.sockets.append((KINDS[number % len(KINDS)], connection))

    def disturb(self):
        while not self.ending:
            for pid in children_of(self.run.process.pid):
                for place in listening(pid):
                    if place not in self.seen:
                        self.seen.add(place)
                        self.knock(*place[:2])
            for kind, connection in self.sockets:
                try:
                    connection.send({"idle": b"", "slow": b"x", "garbage": b"{]\n", "endless": b"x" * 65536}[kind])
                except OSError:
                    pass  # turned away, or full
            time.sleep(0.02 if not self.run.training.metrics(self.run.name) else 0.2)  # 0.001 kept two busy cores from anything else

    def stop(self):
        self.ending = True
        self.thread.join()
        for _, connection in self.sockets:
            connection.close()


def start(name, **keys):
    return Running(training, name, RANKS, train__steps=10 ** 6, schedule__decay_steps=10 ** 6, train__global_batch=6, train__micro_batch=1,
                   train__validate_every=0, sample__tokens=0, watch__timeout=TIMEOUT, **keys)


knocks, places = 0, set()
for number in range(3):
    run = start(f"run{number}")
    strangers = Strangers(run)
    job.check(f"start {number}: gets under way", run.wait_for_step(3, seconds=120), open(run.output.name, encoding="utf-8").read())
    left = [place for pid in children_of(run.process.pid) for place in listening(pid)]
    job.check(f"start {number}: then nobody listens", left == [], left)
    begin = time.monotonic()
    if number == 0:
        time.sleep(2 * TIMEOUT)
    job.check(f"start {number}: and it goes on", run.process.poll() is None)
    strangers.stop()
    with open(training.path(run.name + "/stop"), "w", encoding="utf-8"):
        pass
    code, output, _ = run.finish()
    job.check(f"start {number}: undisturbed to its end", code == 13 and "silent" not in output and "warning" not in output, f"{code}\n{output}")
    knocks += len(strangers.sockets)
    places |= strangers.seen
print(f"{knocks} strangers were let to the door, at {len(places)} places")
job.check("it was open to this machine alone", all(local for _, _, local in places), places)

folder.cleanup()
job.finish()
