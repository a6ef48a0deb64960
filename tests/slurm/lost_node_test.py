"""Nodes that are lost in mid-run: one loses its power, one its network. SLURM notices after SlurmdTimeout (20 s here), ends the job on the
nodes that are left, and puts a batch job back into the queue, from where it goes on once there are nodes enough."""

import sys
import time

from slurm import ROOT, Slurm

NOTICED = 90  # seconds: SlurmdTimeout, the interval of SLURM's looks at its nodes, KillWait, and a busy machine

slurm = Slurm(sys.argv[1:])
job, training = slurm.job, slurm.training
if not slurm.isolated:
    print("skipped: the nodes of this cluster are not isolated (that needs root), so they cannot be lost")
    sys.exit(77)


def words(name, steps, *more):
    return training.words(name, *more, train__steps=steps, train__validate_every=0, checkpoint__every=4, checkpoint__keep=3)


def ranks_on_nodes(name):
    """How many processes of a run there are, on all nodes: the host sees those of its pretended nodes."""
    return len([line for line in slurm.run("ps", "-e", "-o", "args=")[1].splitlines()
                if line.startswith(job.program) and training.path(name) in line])


# The batch job that is to survive, and what it would have come to undisturbed.
STEPS = 40
job.expect("undisturbed", job.run(words("undisturbed", STEPS), ranks=4, timeout=200), 0, seconds=200)
script = training.write("job.sbatch", f"""#!/bin/bash
echo "start $SLURM_RESTART_COUNT on $SLURM_JOB_NODELIST"
srun --mpi=pmix --kill-on-bad-exit=1 {job.program} {' '.join(words('batch', STEPS, '--resume-if-any'))}
""")
number = slurm.submit("--nodes=2", "--ntasks-per-node=2", "--open-mode=append", script)
job.check("the batch job trains", slurm.wait_for_step("batch", 10), slurm.log(number))
slurm.cluster("kill", "node2")
facts = slurm.wait_for(number, "PENDING", seconds=NOTICED)
job.check("power lost: the job is back in the queue", facts.get("JobState") == "PENDING" and facts["Restarts"] == "1", f"{facts}")
job.check("... no rank of it is left", ranks_on_nodes("batch") == 0)
job.check("... which is not for want of steps", len(training.metrics("batch")) < STEPS)
slurm.cluster("restart", "node2")
facts = slurm.wait_for(number, "COMPLETED", "FAILED", "NODE_FAIL", seconds=200)
job.check("power back: the job ends well", facts.get("JobState") == "COMPLETED", f"{facts}\n{slurm.log(number)}")
job.check("... with the losses of the undisturbed run, bit for bit", slurm.losses("batch") == slurm.losses("undisturbed"), slurm.log(number))
job.check("... and its weights", training.sums("batch", STEPS) == training.sums("undisturbed", STEPS))

# The cable is pulled while somebody waits at srun: the ranks on both sides live, and wait for each other. With a time-out shorter than
# SLURM's, Cohort's own monitor is the first to tell.
process = slurm.start("srun", "--mpi=pmix", "--nodes=2", "--ntasks-per-node=2", "--kill-on-bad-exit=1", job.program,
                      *words("cut", 100000), "--set", "watch.timeout=10")
job.check("the run at srun trains", slurm.wait_for_step("cut", 3))
slurm.cluster("cut", "node2")
outcome = slurm.finish(process, NOTICED)
job.check("network cut: ended by the monitor, which names the node", outcome[0] == 12 and "on node2" in outcome[2], str(outcome))
slurm.cluster("heal", "node2")
outcome = slurm.srun("--mpi=pmix", job.program, "topo")
job.check("network back: both nodes work", outcome[0] == 0 and "4 rank(s) on 2 node(s)" in outcome[1], str(outcome))
end = time.monotonic() + NOTICED  # slurmd learns that the job is no more when the node reports, and then ends its ranks
while ranks_on_nodes("cut") and time.monotonic() < end:
    time.sleep(1)
job.check("... and the ranks that were cut off are gone", ranks_on_nodes("cut") == 0)
slurm.end()
