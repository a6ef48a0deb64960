"""A job of the template multi_node that is sent back to the queue again and again, by `scontrol requeue` and by the signal before a time limit
in turn, trains as one that was left alone, bit for bit. COHORT_REQUEUES: how often (default 2). And its guard: a job that may start itself
anew no more, stays away."""

import os
import sys

from slurm import ENDED, Slurm

requeues = int(os.environ.get("COHORT_REQUEUES", "2"))
steps = 60 * (requeues + 1)  # more than are done while somebody looks, so that steps are left for each start
slurm = Slurm(sys.argv[1:])
job, training = slurm.job, slurm.training
keys = {"train.steps": steps, "train.validate_every": 0, "checkpoint.every": 40, "checkpoint.keep": 3,
        "model.width": 64}

undisturbed = training.words("undisturbed", **{key.replace(".", "__"): value for key, value in keys.items()} | {"checkpoint__every": steps})
outcome = slurm.srun("--mpi=pmix", job.program, *undisturbed, seconds=300)
job.check("a run that is left alone", outcome[0] == 0, str(outcome))

script = slurm.render("multi_node", "disturbed", "--ranks", "4", "--nodes", "2", **keys, RESTARTS=requeues + 1)
number = slurm.submit(script)
for count in range(1, requeues + 1):
    before = len(training.metrics("disturbed"))
    job.check(f"start {count} trains", slurm.wait_for_step("disturbed", before + 12, seconds=120), slurm.why(number))
    if count % 2:
        slurm.run("scontrol", "requeue", number)
    else:  # saves, ends with exit code 9, and the script asks for the requeue
        slurm.run("scancel", "--batch", "--signal=USR1", number)
    facts = slurm.wait_for_restart(number, count)
    job.check(f"... and is requeued, {facts.get('Restarts')} of {count}", facts.get("Restarts") == str(count), slurm.why(number))
    if job.failures:
        slurm.end()  # what follows would only wait
facts = slurm.wait_for(number, *ENDED, seconds=300)
job.check("the last start ends well", facts.get("JobState") == "COMPLETED" and facts["Restarts"] == str(requeues), slurm.why(number))
losses = slurm.losses("disturbed")
job.check(f"{len(losses)} losses as of the run that was left alone, bit for bit", len(losses) == steps and
          losses == slurm.losses("undisturbed"), slurm.why(number))
job.check("... and its weights", training.sums("disturbed", steps) == training.sums("undisturbed", steps))

number = slurm.submit(slurm.render("multi_node", "guarded", "--ranks", "4", "--nodes", "2", **{**keys, "train.steps": 100000}, RESTARTS=0))
job.check("a job that may not start itself anew trains", slurm.wait_for_step("guarded", 3, seconds=120), slurm.why(number))
slurm.run("scancel", "--batch", "--signal=USR1", number)
facts = slurm.wait_for(number, *ENDED)
job.check("... ends with exit code 9", facts.get("ExitCode") == "9:0" and facts["Restarts"] == "0", slurm.why(number))
job.check("... and says why", "not requeued: already restarted 0 times" in slurm.log(number), slurm.why(number))
slurm.end()
