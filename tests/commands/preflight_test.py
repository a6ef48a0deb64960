"""`cohort preflight` for real: alone and on 2 and 3 ranks of this machine.

    preflight_test.py COHORT -- MPIRUN FLAG ..."""

import json
import os
import sys
import tempfile

from launched import Launched

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_preflight_")
QUICK = ["preflight", "--quick", "--disk", folder.name]

for ranks in (0, 2, 3):
    code, out, err, _ = job.run([*QUICK, "--json"], ranks)
    label = f"{ranks} ranks" if ranks > 1 else "1 rank"
    # This machine may have its faults (a small /dev/shm); the command must not.
    job.check(f"{label}: ends with 0 or 4", code in (0, 4), f"{code}\n{err}")
    try:
        report = json.loads(out)
    except json.JSONDecodeError as error:
        job.check(f"{label}: prints JSON", False, f"{error}\n{out}\n{err}")
        continue
    fails = [problem for check in report["checks"] for problem in check["problems"] if problem["level"] == "FAIL"]
    job.check(f"{label}: the exit code is the verdict", (code == 4) == bool(fails), f"{code} {fails}")
    job.check(f"{label}: one node with all ranks", [node["ranks"] for node in report["nodes"]] == [ranks or 1], report["nodes"])
    node = report["nodes"][0]
    job.check(f"{label}: host, versions", node["host"] and "Open MPI" in node["mpi"] and node["program"], node)
    job.check(f"{label}: memory", 0 < node["memory_available_bytes"] <= node["memory_total_bytes"], node)
    job.check(f"{label}: cores", 1 <= node["cores"] <= os.cpu_count(), node["cores"])
    disk = node["disk"]
    job.check(f"{label}: disk", not disk["problem"] and 1e5 < disk["write_bytes_per_s"] < 1e12 and disk["read_bytes_per_s"] > 1e5, disk)
    job.check(f"{label}: messages in the node", len(node["links"]) == (1 if ranks > 1 else 0), node["links"])
    for link in node["links"]:
        job.check(f"{label}: a sane link", 1e-8 < link["latency_s"] < 1 and 1e6 < link["bytes_per_s"] < 1e12, link)
    names = [check["name"] for check in report["checks"]]
    job.check(f"{label}: each check once", len(names) == len(set(names)) and {"Cohort", "MPI", "memory", "disk write"} <= set(names), names)
job.check("nothing is left on the disk", not os.listdir(folder.name), os.listdir(folder.name))

# A table, once; and the settings of messages.
code, out, err, _ = job.run(QUICK, 2)
job.check("a table", out.count("disk write") == 1, out + err)
code, out, err, _ = job.run([*QUICK, "--json"], 2, UCX_TLS="self,sm")
job.check("settings", "UCX_TLS=self,sm" in out, out + err)

# A disk that cannot be written: named, with exit code 4, in one message.
missing = folder.name + "/missing"
outcome = job.run(["preflight", "--quick", "--disk", missing, "--json"], 2)
job.expect("no such folder", outcome, 4, parts=["failed the checks"], lines=1)
code, out, err, _ = outcome
job.check("and in JSON", any(missing in problem["text"] for check in json.loads(out)["checks"] for problem in check["problems"]), out)
job.check("with the folder in the message", missing in err, err)

# `info` shows NCCL's settings and where they are from.
code, out, _, _ = job.run(["info"], NCCL_SOCKET_IFNAME="eth7")
job.check("info shows settings of NCCL", "NCCL_SOCKET_IFNAME=eth7 (environment)" in out, out)

job.finish()
