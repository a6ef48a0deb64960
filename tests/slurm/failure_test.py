"""Ranks that break on purpose, under srun on two nodes: whatever one of them does, the job ends within seconds, says which rank on which node,
and leaves a whole checkpoint; the same command again goes past it, to the bits of a run that nobody disturbed.

    failure_test.py COHORT VERIFY_RUN -- MPIRUN FLAG ..."""

import sys

from slurm import ENDED, Slurm
from fault_chain import LAST, LOST, RUN, FaultChain

# From srun to the end: starting takes a few seconds, the watch 4, and srun then gives the other tasks 5 to 12 (KillWait) to go.
SECONDS = 45

verify_run = sys.argv[2]
slurm = Slurm([sys.argv[1], *sys.argv[3:]])
job, training = slurm.job, slurm.training

# As in tests/commands/fault_test.py; but two see here that a process has ended: srun and Cohort's monitor, and either may be the first.
MATRIX = [
    ("exit:rank=3,step=1,code=3", (3, LOST), [("node2: task 3: Exited with exit code 3", "rank 3 of 4 on node2")]),
    ("exit:rank=0,step=4,phase=save,code=41", (41, LOST), [("node1: task 0: Exited with exit code 41", "rank 0 of 4 on node1")]),
    ("abort:rank=1,step=5,phase=backward", (134, LOST), [("node1: task 1: Aborted", "rank 1 of 4 on node1")]),
    ("kill:rank=2,step=7,phase=communication", (137, LOST), [("node2: task 2: Killed", "rank 2 of 4 on node2")]),
    ("segv:rank=3,step=9,phase=optimizer", (139, LOST), [("node2: task 3: Segmentation fault", "rank 3 of 4 on node2")]),
    ("throw:rank=2,step=12,phase=forward", (1,), ["rank 2 of 4 on node2", "in step 12: ", "fault.kind"]),
    ("nan:rank=3,step=13", (8,), [("step 13: loss nan", "step 13: loss -nan"), "embedding on rank 3", "--resume"]),
    ("disk:rank=3,step=15", (7,), ["rank 3 of 4 on node2", "in step 15: ", "train.log", "is the disk full?"]),
    ("disk:rank=0,step=16,phase=save", (7,), ["step_00000016", "File too large"]),
    ("stop:rank=2,step=17", (LOST,), ["rank 2 of 4 on node2", "stopped by a signal"]),
    ("hang:rank=3,step=18,phase=backward", (LOST,), ["rank 3 of 4 on node2", "is stuck at step 18"]),
    ("stop:rank=0,step=19", (LOST,), ["rank 0 of 4 on node1"]),
]
batch = {"train__global_batch": 8}
chain = FaultChain(training, verify_run, lambda words: slurm.srun("--mpi=pmix", "--kill-on-bad-exit=1", job.program, *words), SECONDS, **batch)
chain.run("matrix", MATRIX)

# A job script comes back by itself after a signal and after the loss of a rank, but not after an error, which would only repeat.
settings = {key.replace("__", "."): value for key, value in (RUN | batch).items()}


def broken(name, kind):
    fault = {"fault.kind": kind, "fault.rank": 2, "fault.step": 5}
    return slurm.render("multi_node", name, "--ranks", "4", "--nodes", "2", **settings, **fault)


script = broken("wrong", "throw")
number = slurm.submit(script)
facts = slurm.wait_for(number, *ENDED)
job.check("a job with an error stays away", facts.get("JobState") == "FAILED" and facts["Restarts"] == "0", slurm.why(number))
job.check("... and its log says whose", "rank 2 of 4 on node2" in slurm.log(number) and "exit code 1;" in slurm.log(number), slurm.why(number))
number = slurm.submit(script)
job.check("submitted again, it gets past it", slurm.wait_for(number, *ENDED).get("JobState") == "COMPLETED", slurm.why(number))
number = slurm.submit(broken("lost", "kill"))
facts = slurm.wait_for(number, *ENDED)
job.check("a job that has lost a rank comes back", facts.get("JobState") == "COMPLETED" and facts["Restarts"] == "1", slurm.why(number))
job.check("... with the weights of a run without loss", training.sums("lost", LAST) == training.sums("matrix_undisturbed", LAST))
slurm.end()
