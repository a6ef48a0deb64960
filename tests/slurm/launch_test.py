"""`cohort` under srun and sbatch of a real SLURM: who is who, equal to mpirun bit for bit, and clear words when srun lacks PMIx."""

import json
import sys

from slurm import ROOT, Slurm

slurm = Slurm(sys.argv[1:])
job, training = slurm.job, slurm.training

# Two nodes with two ranks each, seen from outside of the nodes: srun's connections go both ways.
code, stdout, stderr, _ = slurm.srun("--mpi=pmix", job.program, "topo", "--json")
answer = json.loads(stdout or "{}")
places = [(rank["rank"], rank["host"], rank["node_rank"], rank["local_rank"]) for rank in answer.get("ranks", [])]
wanted = [(0, "node1", 0, 0), (1, "node1", 0, 1), (2, "node2", 1, 0), (3, "node2", 1, 1)]
job.check("srun --mpi=pmix topo", code == 0 and places == wanted and answer["node_count"] == 2, f"{code} {places}\n{stdout}{stderr}")

# Or else MPI_Init does not wait for other nodes, and a launch crashes now and then: tools/slurm/mpi.conf.
_, stdout, _, _ = slurm.run("scontrol", "show", "config")
job.check("fences of PMIx are rings", any(line.split() == ["PMIxCollFence", "=", "ring"] for line in stdout.splitlines()), stdout)

if slurm.isolated:
    code, stdout, stderr, _ = slurm.run("srun", "--nodes=2", "--label", "sh", "-c", "hostname; touch /tmp/mine /dev/shm/mine; sleep 1;"
                                        "ls /tmp/mine; ip -brief -4 address show eth0; rm /tmp/mine /dev/shm/mine")
    names = sorted(line for line in stdout.splitlines() if "node" in line)
    job.check("nodes have names of their own", code == 0 and names == ["0: node1", "1: node2"], stdout + stderr)
    addresses = {line.split()[3] for line in stdout.splitlines() if "eth0" in line}
    job.check("... and addresses", len(addresses) == 2, stdout)
    slurm.run("srun", "--nodes=1", "--nodelist=node1", "touch", "/tmp/left", "/dev/shm/left")
    code, stdout, _, _ = slurm.run("srun", "--nodes=1", "--nodelist=node2", "ls", "/tmp", "/dev/shm")
    job.check("... and /tmp and /dev/shm", code == 0 and "left" not in stdout, stdout)

# Started by srun without PMIx, every task would be a job of its own.
outcome = slurm.srun("--mpi=none", job.program, "topo")
job.expect("srun --mpi=none", outcome, 4, ["srun started 4 tasks", "srun --mpi=pmix"], lines=1)
outcome = slurm.srun("--mpi=pmi2", job.program, "topo")
job.check("srun --mpi=pmi2", outcome[0] not in (0, "none: it hangs") and "srun --mpi=pmix" in outcome[2], str(outcome))

# The job script of lab 3 over two nodes, against mpirun in the same layout: the same bits, since where ranks sit changes no sum.
keys = {"run.directory": "DIRECTORY", "data.tokens": training.tokens, "train.steps": 24, "train.validate_every": 12, "model.width": 32}


def lab04(name):
    return [word for key, value in keys.items() for word in ("--set", f"{key}={training.path(name) if value == 'DIRECTORY' else value}")]


number = slurm.submit(str(ROOT / "jobs/lab04.sbatch"), *lab04("by-sbatch"))
facts = slurm.wait_for(number, "COMPLETED", "FAILED", "TIMEOUT")
job.check("jobs/lab04.sbatch", facts.get("JobState") == "COMPLETED" and facts["ExitCode"] == "0:0", slurm.log(number) + str(facts))
job.check("... on two nodes", "4 ranks on 2 nodes, started by srun" in slurm.log(number), slurm.log(number))
outcome = job.run(["train", str(ROOT / "inputs/lab04_two_nodes.toml"), *lab04("by-mpirun")], ranks=4, timeout=120)
job.expect("the same by mpirun", outcome, 0, seconds=120)
losses = slurm.losses("by-sbatch")
job.check("equal losses, bit for bit", len(losses) == 24 and losses == slurm.losses("by-mpirun"), str(losses))
job.check("equal weights, bit for bit", training.sums("by-sbatch", 24) == training.sums("by-mpirun", 24))

# mpirun inside of a job: its daemons go through srun.
number = slurm.submit("--nodes=2", "--ntasks-per-node=2", "--wrap", f"mpirun --allow-run-as-root {job.program} topo")
facts = slurm.wait_for(number, "COMPLETED", "FAILED", "TIMEOUT")
job.check("mpirun in a job", "4 ranks on 2 nodes, started by mpirun" in slurm.log(number), slurm.log(number) + str(facts))
# A script that forgot the launcher.
number = slurm.submit("--nodes=2", "--ntasks-per-node=2", "--wrap", f"{job.program} topo")
facts = slurm.wait_for(number, "COMPLETED", "FAILED", "TIMEOUT")
job.check("no launcher in a job", facts.get("ExitCode") == "4:0" and "without a launcher" in slurm.log(number), slurm.log(number) + str(facts))
slurm.end()
