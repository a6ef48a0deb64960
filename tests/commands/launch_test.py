"""`cohort` on the command line and under launchers: exit codes, one message, and the fix named in it."""

import json
import re
import sys

from launched import Launched

job = Launched(sys.argv[1:])

# The command line: code 2, one message however many ranks there are.
for ranks in (0, 2):
    job.expect(f"unknown option, {ranks} ranks", job.run(["topo", "--nods", "3"], ranks), 2, ["'--nods'", "did you mean --node"], lines=1)
    job.expect(f"unknown command, {ranks} ranks", job.run(["tpoo"], ranks), 2, ["'tpoo'", "did you mean topo?"], lines=1)
    job.expect(f"no command of \"data\", {ranks} ranks", job.run(["data"], ranks), 2, ["cohort data --help"], lines=1)
    code, stdout, stderr, _ = job.run(["--help"], ranks)
    job.check(f"help, {ranks} ranks", code == 0 and stdout.count("Exit codes:") == 1 and not stderr, stdout + stderr)
    code, stdout, stderr, _ = job.run(["--version"], ranks)
    job.check(f"version, {ranks} ranks", code == 0 and re.fullmatch(r"cohort \d+\.\d+\.\d+\n", stdout) and not stderr, stdout + stderr)
    code, stdout, stderr, _ = job.run(["info"], ranks)
    job.check(f"info, {ranks} ranks", code == 0 and stdout.count("Kokkos") == 1 and not stderr, stdout + stderr)

# Which ranks are mine?
plan = ["topo", "--nodes", "4", "--ranks-per-node", "2", "--node"]
code, stdout, stderr, _ = job.run([*plan, "3", "--json"])
answer = json.loads(stdout)
job.check("ranks of node 3", [r["rank"] for r in answer["ranks"]] == [6, 7] and answer["world_size"] == 8, stdout)
code, stdout, stderr, _ = job.run([*plan, "3"], ranks=2)
job.check("ranks of node 3, 2 ranks", code == 0 and stdout.count("runs ranks 6-7 of 8") == 1, stdout + stderr)
for ranks in (0, 2):
    job.expect(f"node out of range, {ranks} ranks", job.run([*plan, "4"], ranks), 2, ["--node 4", "0 to 3"], lines=1)
job.expect("negative node", job.run([*plan, "-1"]), 2, ["--node -1", "0 to 3"], lines=1)
job.expect("no nodes", job.run(["topo", "--nodes", "0", "--ranks-per-node", "2", "--node", "0"]), 2, ["--nodes 0"], lines=1)
job.expect("not a number", job.run([*plan, "three"]), 2, ["--node", "three"], lines=1)
job.expect("one option missing", job.run(["topo", "--nodes", "4", "--node", "1"]), 2, ["--ranks-per-node missing"], lines=1)

code, stdout, stderr, _ = job.run(["topo", "--simulate", "--nodes", "2", "--ranks-per-node", "3", "--json"])
places = [(r["rank"], r["host"], r["node_rank"], r["local_rank"]) for r in json.loads(stdout)["ranks"]]
job.check("a job that need not exist", code == 0 and places == [(3 * n + i, f"node{n + 1}", n, i) for n in (0, 1) for i in (0, 1, 2)], stdout)
code, stdout, stderr, _ = job.run(["topo", "--simulate", "--nodes", "100", "--ranks-per-node", "8"])
job.check("... of many ranks", code == 0 and "800 ranks on 100 nodes" in stdout and "... and 736 more" in stdout, stdout)
job.expect("... of no size", job.run(["topo", "--simulate"]), 2, ["--nodes and --ranks-per-node missing"], lines=1)

# The running job.
for ranks in (0, 2, 4):
    code, stdout, stderr, _ = job.run(["topo", "--json"], ranks)
    answer = json.loads(stdout)
    numbers = [r["rank"] for r in answer["ranks"]]
    job.check(f"topo, {ranks} ranks", code == 0 and numbers == list(range(max(ranks, 1))) and answer["node_count"] == 1, stdout + stderr)

# Launches that would run as something else than was asked for. Tasks that MPI did not join each are rank 0 of 1 for MPI: the one that
# the launcher calls 0 speaks, the others leave with the same code (tests/slurm). Here no launcher is an ancestor: the variables are
# left over, and whoever they name speaks.
lone = {"SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"}
job.expect("srun without PMIx, task 0", job.run(["topo"], SLURM_PROCID="0", **lone), 4, ["srun --mpi=pmix", "srun --mpi=list"], lines=1)
job.expect("srun without PMIx, task 1", job.run(["topo"], SLURM_PROCID="1", **lone), 4, ["srun --mpi=pmix"], lines=1)
for left_over, parts in (({"OMPI_COMM_WORLD_RANK": "2"}, ["unset OMPI_COMM_WORLD_RANK"]),
                         ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, ["mpirun started 4 tasks"]),
                         ({"SLURM_PROCID": "2", "SLURM_NTASKS": "4"}, ["unset SLURM_PROCID"]),
                         ({"PMI_RANK": "1", "PMI_SIZE": "2"}, ["PMI_SIZE=2"])):
    label = " ".join(f"{key}={value}" for key, value in left_over.items())
    job.expect(f"{label}: topo says why not", job.run(["topo"], **left_over), 4, parts, lines=1)
    for words in (["info"], ["--version"], [*plan, "3"]):
        code, stdout, stderr, _ = job.run(words, **left_over)
        job.check(f"{label}: {words[0]} needs no MPI and answers", code == 0 and stdout, f"{code} {stdout} {stderr}")
    job.expect(f"{label}: a mistake is told", job.run(["tpoo"], **left_over), 2, ["did you mean topo?"], lines=1)
    job.expect(f"{label}: so is a folder that is not there", job.run(["ckpt", "ls", "/absent"], **left_over), 6, ["/absent"], lines=1)
real = {**lone, "SLURM_STEPID": "0", "SLURM_JOB_ID": "7", "SLURM_JOBID": "7", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}
job.expect("srun --mpi=none of a real job", job.run(["topo"], **real), 4, ["srun --mpi=pmix"], lines=1)
# Whether MPI stops by itself, or starts alone and is refused, depends on how it was built: the fix is named either way.
outcome = job.run(["topo"], PMI_RANK="0", PMI_SIZE="2", PMI_FD="99", **real)
job.check("srun --mpi=pmi2", outcome[0] != 0 and "srun --mpi=pmix" in outcome[2], outcome[2])
job.expect("variables set by hand", job.run(["topo"], SLURM_PROCID="0", SLURM_NTASKS="4"), 4, ["srun --mpi=pmix", "unset"], lines=1)
batch = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
job.expect("batch script without srun", job.run(["topo"], **batch), 4, ["SLURM_NTASKS=4", "srun --mpi=pmix"], lines=1)
for tasks, more in (("4", "part of its allocation is idle"), ("1", "ranks share the allocated cores")):
    outcome = job.run(["topo"], ranks=2, **{**batch, "SLURM_NTASKS": tasks})
    job.check(f"mpirun -np 2 in a job of {tasks}: both numbers are named", outcome[0] == 0 and outcome[1].count("warning: mpirun started 2 ranks") == 1
              and f"SLURM_NTASKS={tasks})" in outcome[1] and more in outcome[1], outcome[1] + outcome[2])
outcome = job.run(["topo"], ranks=2, **{**batch, "SLURM_NTASKS": "2"})
job.check("mpirun with the job's own number", outcome[0] == 0 and "warning: mpirun" not in outcome[1] and not outcome[2], outcome[1] + outcome[2])
shell = job.run(["topo"], SLURM_JOB_ID="7", SLURM_NTASKS="4")
job.check("a shell of salloc is warned", shell[0] == 0 and shell[1].count("warning: this allocation has 4 tasks") == 1, shell[1] + shell[2])
job.expect("mpiexec of another MPI", job.run(["topo"], PMI_RANK="0", PMI_SIZE="2"), 4, ["PMI_SIZE=2", "Use the mpirun"], lines=1)
for ranks in (0, 2):
    outcome = job.run(["topo"], ranks, SLURM_NTASKS="two")
    job.expect(f"malformed variable, {ranks} ranks", outcome, 4, ["SLURM_NTASKS='two'"], lines=1)
job.expect("malformed rank", job.run(["topo"], SLURM_PROCID="0x1", **lone), 4, ["SLURM_PROCID='0x1'"], lines=1)
# Rank 0 watches the others through a connection to each, and asks the system for so many open files.
few = Launched([job.program, "--", "prlimit", "--nofile=120:400", *job.mpirun])
job.check("the limit of open files is raised", few.run(["topo"], 2)[0] == 0)
few = Launched([job.program, "--", "prlimit", "--nofile=120:120", *job.mpirun])
job.expect("... as far as it may be", few.run(["topo"], 2), 4, ["258 open files", "120 (ulimit -Hn)"], lines=1)

job.finish()
