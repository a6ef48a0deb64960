"""Nodes that are lost in mid-run, under a job of the template multi_node: one loses its power, one its network. SLURM notices after
SlurmdTimeout (20 s here), ends the job on the nodes that are left, and puts it back into the queue; or Cohort's monitor notices before, and
the job's script puts it back. It goes on once there are nodes enough."""

import sys
from pathlib import Path

from slurm import ENDED, Slurm

NOTICED = 90  # seconds: SlurmdTimeout, the interval of SLURM's looks at its nodes, KillWait, and a busy machine

slurm = Slurm(sys.argv[1:])
job, training = slurm.job, slurm.training
if not slurm.isolated:
    print("skipped: the nodes of this cluster are not isolated (that needs root), so they cannot be lost")
    sys.exit(77)


def ranks_on_nodes(name):
    """How many processes of a run there are, on all nodes: the host sees those of its pretended nodes."""
    return len([line for line in slurm.run("ps", "-e", "-o", "args=")[1].splitlines()
                if line.split(" ")[0].endswith("/cohort") and training.path(name) in line])


# The batch job that is to survive, and what it would have come to undisturbed.
STEPS = 40
keys = {"train.steps": STEPS, "train.validate_every": 0, "checkpoint.every": 4, "checkpoint.keep": 3}
undisturbed = training.words("undisturbed", **{key.replace(".", "__"): value for key, value in keys.items()})
job.expect("undisturbed", job.run(undisturbed, ranks=4, timeout=200), 0, seconds=200)


def goes_on_to_the_end(name, number):
    """The job trains to the bits of the undisturbed run."""
    facts = slurm.wait_for(number, *ENDED, seconds=200)
    well = facts.get("JobState") == "COMPLETED"
    job.check(f"{name}: the job ends well", well, slurm.why(number))
    if not well:
        slurm.end()  # there is nothing to compare
    job.check("... with the losses of the undisturbed run, bit for bit", slurm.losses(name) == slurm.losses("undisturbed"), slurm.why(number))
    job.check("... and its weights", training.sums(name, STEPS) == training.sums("undisturbed", STEPS))


# Power: the ranks on the other node wait. SLURM notices before Cohort's monitor, and puts the job back into the queue.
number = slurm.submit(slurm.render("multi_node", "power", "--ranks", "4", "--nodes", "2", **keys))
job.check("the batch job trains", slurm.wait_for_step("power", 10) and ranks_on_nodes("power") == 4, slurm.why(number))
slurm.cluster("kill", "node2")
facts = slurm.wait_for(number, "PENDING", seconds=NOTICED)
job.check("power lost: the job is back in the queue", facts.get("JobState") == "PENDING" and facts["Restarts"] == "1", slurm.why(number))
job.check("... no rank of it is left", ranks_on_nodes("power") == 0)
job.check("... which is not for want of steps", len(training.metrics("power")) < STEPS)
job.check("... and not because the script asked", "exit code" not in slurm.log(number), slurm.log(number))
slurm.cluster("restart", "node2")
goes_on_to_the_end("power", number)

# The network, with a monitor that is faster than SLURM: as with the 300 seconds that SLURM takes by default. The script asks for the requeue.
number = slurm.submit(slurm.render("multi_node", "network", "--ranks", "4", "--nodes", "2", **keys, **{"watch.timeout": 10}))
job.check("the batch job trains", slurm.wait_for_step("network", 10), slurm.why(number))
slurm.cluster("cut", "node2")
facts = slurm.wait_for(number, "PENDING", seconds=NOTICED)
job.check("network lost: the job is back in the queue", facts.get("JobState") == "PENDING" and facts["Restarts"] == "1", slurm.why(number))
job.check("... because the script asked, after the monitor", "exit code 12" in slurm.log(number), slurm.why(number))
text = "".join(path.read_text() for path in Path(training.path("network/slurm")).glob("*.log"))
job.check("... which names the node", "on node2" in text and "has been silent" in text, slurm.why(number))
# Plugged in again, node2 still has the ranks that were cut off. SLURM ends them, and may meanwhile fail to start the job's new ones: the
# script then asks once more.
slurm.cluster("heal", "node2")
goes_on_to_the_end("network", number)
job.check("... and the ranks that were cut off are gone", ranks_on_nodes("network") == 0)
slurm.end()
