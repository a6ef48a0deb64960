"""The nodes of the cluster: their networks and cables, how they are switched on and off, and what SLURM thinks of them."""

import contextlib
import ipaddress
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from processes import ROOT, STATE, do, end, output_of, start, stop, wait_until


def node_names(record):
    return [f"node{number + 1}" for number in range(record["nodes"])]


def address_of(record, name):
    """The first address of the network is the host's."""
    return str(ipaddress.ip_network(record["network"])[1 + int(name.removeprefix("node"))])


def can_isolate():
    """Whether the kernel lets us have namespaces and a bridge: tried, because containers differ in what they take away."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "unshare"))):
        return False
    bridge = f"cohort{os.getpid()}"
    tried = (["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", "mount", "-t", "tmpfs", "tmpfs", "/tmp"],
             ["ip", "link", "add", bridge, "type", "bridge"], ["ip", "link", "delete", bridge])
    return all(subprocess.run(words, capture_output=True).returncode == 0 for words in tried)


def free_network():
    """A private network that no route of this machine covers, and a bridge name that is not taken."""
    routes = [ipaddress.ip_network(route["dst"]) for route in json.loads(output_of("ip", "-4", "-json", "route", "show", "table", "all"))
              if route["dst"] != "default"]
    for prefix in ("10.203", "172.29", "192.168"):
        for number in range(200, 256):
            network, bridge = ipaddress.ip_network(f"{prefix}.{number}.0/24"), f"cohort{number}"
            if not any(network.overlaps(route) for route in routes) and not Path(f"/sys/class/net/{bridge}").exists():
                return str(network), bridge
    stop("all private networks that were tried (10.203.200.0/24 and others) are in use on this machine: `ip route`")


def free_port(address, first):
    for port in range(first, first + 1000, 10):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((address, port))
            return port
    stop(f"no free port on {address} at or above {first}")


def make_bridge(record):
    bridge, network = record["bridge"], ipaddress.ip_network(record["network"])
    if not Path(f"/sys/class/net/{bridge}").exists():
        do("ip", "link", "add", bridge, "type", "bridge")
    do("ip", "address", "replace", f"{network[1]}/{network.prefixlen}", "dev", bridge)
    do("ip", "link", "set", bridge, "up")


def cable_of(record, name):
    """The host's end of a node's cable."""
    return f"{record['bridge']}n{name.removeprefix('node')}"


def boot(record, name):
    """Switches a node on."""
    if record["mode"] == "plain":
        (STATE / "tmp" / name).mkdir(parents=True, exist_ok=True)
        start(record, name, ["slurmd", "-D", "-N", name])
        return
    # --kill-child: when the process that we recorded is killed, so is the first process inside, and with it the node.
    network = ipaddress.ip_network(record["network"])
    process = start(record, name, ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child",
                                   str(ROOT / "tools/slurm/node"), name, f"{address_of(record, name)}/{network.prefixlen}", str(STATE),
                                   str(ROOT)])
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not wait_until(lambda: children.exists() and children.read_text().split(), 10):
        stop(f"{name} did not start: see {STATE}/log/{name}.out")
    first = children.read_text().split()[0]
    cable = cable_of(record, name)
    if Path(f"/sys/class/net/{cable}").exists():  # of a node that was killed a moment ago: the kernel takes it away at leisure
        subprocess.run(["ip", "link", "delete", cable], capture_output=True)
    do("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", first)
    do("ip", "link", "set", cable, "master", record["bridge"], "up")


def cut(record, name):
    do("ip", "link", "set", cable_of(record, name), "down")


def plug_in(record, name):
    do("ip", "link", "set", cable_of(record, name), "up")
    if node_states().get(name, "").endswith("*"):
        output_of("scontrol", "reconfigure")  # has all nodes report; by itself slurmctld looks for lost ones but once a minute


def power_off(record, name):
    """The cable first: a node that loses its power sends no last packets."""
    if record["mode"] == "isolated":
        if Path(f"/sys/class/net/{cable_of(record, name)}").exists():
            cut(record, name)
        end(record, name, signal.SIGKILL)
    else:
        end(record, name, signal.SIGTERM)


def node_states():
    """Name -> state as SLURM sees it, such as 'idle'; a '*' at its end: does not answer."""
    return dict(line.split() for line in output_of("sinfo", "--noheader", "--Node", "--partition=laptop", "--format=%N %t").splitlines())


def wait_for_nodes(names, seconds=60):
    def ready():
        states = node_states()
        return all(states.get(name) in ("idle", "mix", "alloc", "comp") for name in names)

    if wait_until(ready, seconds):
        return
    for log in sorted((STATE / "log").iterdir()):
        print(f"--- {log}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-8:]), file=sys.stderr)
    stop(f"after {seconds} s SLURM sees the nodes as {node_states() or 'nothing at all'}; the log tails are above. Try "
         "`tools/cluster down` and `up` again")
