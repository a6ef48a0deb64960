"""What the cluster's queue does to jobs, and what Cohort makes of it: signals before the time limit, requeue, arrays, dependencies,
a partition whose jobs give way."""

import sys

from slurm import ENDED, ROOT, Slurm

slurm = Slurm(sys.argv[1:])
job, training = slurm.job, slurm.training
LAB4 = str(ROOT / "jobs/lab04.sbatch")


def keys(name, steps):
    pairs = (f"run.directory={training.path(name)}", f"data.tokens={training.tokens}", f"train.steps={steps}", "model.width=32",
             "train.validate_every=0", "log.level=info")
    return [word for pair in pairs for word in ("--set", pair)]


# The time limit ends a job that does not listen: SIGTERM, KillWait seconds, SIGKILL. SLURM counts limits in minutes:
# this one waits while the others go on.
limited = slurm.submit("--time=00:01:00", "--signal=B:USR1@55", "--wrap",
                      "trap 'echo warned' USR1; trap '' TERM; for i in $(seq 600); do sleep 1; done")

# Ended from outside: scancel --signal reaches the script, which hands it on; the ranks agree on a step, save, and end with 9.
number = slurm.submit(LAB4, *keys("signalled", 100000))
job.check("the run trains", slurm.wait_for_step("signalled", 3), slurm.log(number))
slurm.run("scancel", "--batch", "--signal=USR1", number)
facts = slurm.wait_for(number, *ENDED)
saved = training.checkpoints("signalled")
done = len(training.metrics("signalled"))
job.check("scancel --signal=USR1: saved, exit code 9", facts.get("ExitCode") == "9:0" and saved == [done], f"{facts}\n{slurm.log(number)}")

# Requeued: the same job number starts anew with SLURM_RESTART_COUNT 1, and goes on from its last checkpoint.
number = slurm.submit(LAB4, "--resume-if-any", *keys("requeued", 100000), "--set", "checkpoint.every=4", "--set", "checkpoint.keep=2")
job.check("the run saves", slurm.wait_for_step("requeued", 9), slurm.log(number))
slurm.run("scontrol", "requeue", number)
before = len(training.metrics("requeued"))
facts = slurm.wait_for(number, "PENDING")
facts = slurm.wait_for(number, "RUNNING", seconds=60)
job.check("scontrol requeue: runs again", facts.get("JobState") == "RUNNING" and facts["Restarts"] == "1", str(facts))
job.check("... and goes on", slurm.wait_for_step("requeued", before + 3), slurm.log(number))
slurm.run("scancel", number)
slurm.wait_for(number, *ENDED)
text = slurm.log(number)
job.check("... from a checkpoint", "resum" in text, text)
steps = [step for step, _ in slurm.losses("requeued")]
job.check("... each step counted once", steps == list(range(1, len(steps) + 1)), str(steps))

# A job that gives way to another. SLURM puts it back into the queue when GraceTime is over, but not if it has ended by itself before, as
# Cohort does once it has saved: the script then asks for that. It is not told of the end: SLURM sends TERM to the ranks alone.
script = slurm.render("multi_node", "spare", "--ranks", "4", "--nodes", "2", PARTITION="spare",
                      **{"train.steps": 100000, "train.validate_every": 0, "checkpoint.every": 100000})
number = slurm.submit(script)
job.check("a job in the partition that gives way", slurm.wait_for_step("spare", 3), slurm.why(number))
urgent = slurm.submit("--nodes=2", "--ntasks-per-node=3", "--wrap", "srun hostname")  # of 4 CPUs that job has 2
job.check("... makes room", slurm.wait_for(urgent, *ENDED).get("JobState") == "COMPLETED", slurm.why(number))
job.check("... having saved", len(training.checkpoints("spare")) == 1, slurm.why(number))
before = len(training.metrics("spare"))
facts = slurm.wait_for_restart(number, 1)
job.check("... and comes back", facts.get("JobState") == "RUNNING" and facts["Restarts"] == "1", slurm.why(number))
job.check("... to where it was", slurm.wait_for_step("spare", before + 2), slurm.why(number))
steps = [step for step, _ in slurm.losses("spare")]
job.check("... each step counted once", steps == list(range(1, len(steps) + 1)), str(steps))

# TERM from a person reaches the script, which hands it on as USR1: srun would kill the ranks at TERM.
slurm.run("scancel", "--batch", "--signal=TERM", number)
facts = slurm.wait_for_restart(number, 2)
job.check("scancel --signal=TERM: saved, and comes back", facts.get("Restarts") == "2" and training.checkpoints("spare")[-1] > before,
          slurm.why(number))
slurm.run("scancel", number)
job.check("... unless it is cancelled", slurm.wait_for(number, *ENDED).get("JobState") == "CANCELLED", slurm.why(number))

# Arrays and dependencies: chains and sweeps are made of these.
array = slurm.submit("--array=1-3", f"--output={slurm.folder}/array-%a.log", "--wrap", "echo task $SLURM_ARRAY_TASK_ID")
after = slurm.submit(f"--dependency=afterok:{array}", "--wrap", f"cat {slurm.folder}/array-*.log")
job.check("a job after an array", slurm.wait_for(after, *ENDED).get("JobState") == "COMPLETED", str(slurm.facts(after)))
job.check("... sees what it left", slurm.log(after).split() == ["task", "1", "task", "2", "task", "3"], slurm.log(after))

facts = slurm.wait_for(limited, *ENDED, seconds=150)
job.check("the time limit", facts.get("JobState") == "TIMEOUT", slurm.why(limited))
job.check("... was announced", "warned" in slurm.log(limited), slurm.log(limited))
slurm.end()
