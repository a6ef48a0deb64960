"""tools/fake-nodes: groups of ranks on this machine that are nodes to MPI and to Cohort, without SLURM and without root."""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "commands"))
from launched import Launched, environment_without_launcher  # noqa: E402

FAKE_NODES = Path(__file__).resolve().parents[2] / "tools/fake-nodes"
job = Launched(sys.argv[1:])


def fake(*words):
    done = subprocess.run([FAKE_NODES, *words], env=environment_without_launcher(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60)
    return done.returncode, done.stdout, done.stderr


for nodes, ranks in ((2, 2), (3, 1)):
    code, stdout, stderr = fake(str(nodes), "-n", str(ranks), "--", job.program, "topo", "--json")
    answer = json.loads(stdout or "{}")
    places = [(rank["rank"], rank["node_rank"], rank["local_rank"]) for rank in answer.get("ranks", [])]
    wanted = [(rank, rank // ranks, rank % ranks) for rank in range(nodes * ranks)]
    job.check(f"{nodes} nodes of {ranks}", code == 0 and places == wanted and answer["node_count"] == nodes, stdout + stderr)

variables = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "MASTER_ADDR", "SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID", "SLURM_NTASKS",
             "SLURM_TASKS_PER_NODE", "SLURMD_NODENAME", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
code, stdout, stderr = fake("2", "--", "sh", "-c", "echo " + " ".join(f"${name}" for name in variables))
lines = sorted(stdout.splitlines())
job.check("variables of each rank", code == 0 and lines == [
    f"{rank} 4 {rank % 2} {rank // 2} 127.0.0.1 {rank} {rank // 2} {rank % 2} 4 2(x2) node{rank // 2 + 1} {rank} {rank % 2}"
    for rank in range(4)], stdout + stderr)

code, _, stderr = fake("2", "--", "sh", "-c", "test $RANK != 3 || exit 7")
job.check("the exit code of a rank", code == 7, stderr)
for words in ((), ("0", "--", "true"), ("2",), ("2", "--"), ("2", "-n", "x", "--", "true"), ("2", "true")):
    code, _, stderr = fake(*words)
    job.check(f"usage: {' '.join(words)}", code == 2 and "usage: tools/fake-nodes" in stderr, stderr)
job.finish()
