"""Scripts that `cohort job` writes for this cluster, to the end: SLURM takes each template, and the jobs do what they say. And starts that are
wrong, which must end with a message and not hang."""

import sys
from pathlib import Path

from slurm import ENDED, ROOT, Slurm

slurm = Slurm(sys.argv[1:])
job, training = slurm.job, slurm.training
steps = 8
keys = {"train.steps": steps, "train.validate_every": 0, "checkpoint.every": 4}


def runs(what, number, *said):
    """A job ends well, and its log has what it should say."""
    facts = slurm.wait_for(number, *ENDED)
    text = slurm.log(number)
    job.check(what, facts.get("JobState") == "COMPLETED" and all(word in text for word in said), slurm.why(number))


for template in sorted(path.stem for path in (ROOT / "jobs/templates").glob("*.sbatch")):
    if template == "gpu":
        continue  # the nodes have none
    words = ["--sweep", "optimizer.learning_rate=1e-3,2e-3"] if template == "array_sweep" else []
    script = slurm.render(template, f"taken-{template}", "--ranks", "2", *words, **keys)
    code, _, stderr, _ = slurm.run("sbatch", "--test-only", script)
    job.check(f"SLURM takes {template}", code == 0, stderr)

# Jobs that do not wait for each other go side by side.
single = slurm.submit(slurm.render("single_node", "single", "--ranks", "2", **keys))
multi = slurm.submit(slurm.render("multi_node", "multi", "--ranks", "4", "--nodes", "2", **keys))
sweep = slurm.render("array_sweep", "sweep", "--ranks", "2", "--sweep", "optimizer.learning_rate=1e-3,2e-3", **keys)
array = slurm.submit(f"--output={slurm.folder}/%A_%a.log", sweep)
runs("single_node", single, "2 ranks on 1 nodes", "exit code 0")
runs("multi_node", multi, "4 ranks on 2 nodes", "exit code 0")
for task, value in enumerate(("1e-3", "2e-3")):
    runs(f"array_sweep, task {task}", f"{array}_{task}", f"optimizer.learning_rate = {value}", "exit code 0")
    job.check("... in a folder of its own", len(training.metrics(f"sweep-{value}")) == steps)
losses = [slurm.losses(name)[-1] for name in ("sweep-1e-3", "sweep-2e-3", "single", "multi") if slurm.losses(name)]
job.check("two values train differently, two places do not", len(losses) == 4 and losses[0] != losses[1], str(losses))

number = slurm.submit(slurm.render("evaluation", "multi", "--ranks", "4", "--nodes", "2"))
runs("evaluation", number, "loss")

# A chain: the first link is told to stop, the second ends the run.
chained = {"train.steps": 400, "checkpoint.every": 10, "train.validate_every": 0, "model.width": 64}
first = slurm.submit(slurm.render("chain", "chained", "--ranks", "4", "--nodes", "2", **chained))
job.check("chain: the first link trains", slurm.wait_for_step("chained", 12), slurm.why(first))
slurm.run("scancel", "--batch", "--signal=USR1", first)
facts = slurm.wait_for(first, *ENDED)
job.check("... stops with exit code 9", facts.get("ExitCode") == "9:0", slurm.why(first))
second = slurm.log(first).partition("the next is job ")[2].split()
runs("... and the next ends the run", second[0] if second else "0", "link 1 of the chain", "the chain ends here")
job.check("... which has each step once", [step for step, _ in slurm.losses("chained")] == list(range(1, 401)))

# A link that a person cancels ends the chain.
first = slurm.submit(slurm.render("chain", "cancelled", "--ranks", "4", "--nodes", "2", **{**chained, "train.steps": 100000}))
job.check("chain: a link trains", slurm.wait_for_step("cancelled", 12), slurm.why(first))
slurm.run("scancel", first)
second = slurm.log(first).partition("the next is job ")[2].split()
facts = slurm.wait_for(second[0] if second else "0", *ENDED)
job.check("... is cancelled, and the next with it", facts.get("JobState") == "CANCELLED", slurm.why(first))

# The scripts of the labs, in a tree of links whose runs are the test's own. Lab 3: launch_test.py.
tree = Path(training.path("tree"))
(tree / "data").mkdir(parents=True)
for link, place in (("build", ROOT / "build"), ("inputs", ROOT / "inputs"), ("data/stories.h5", training.tokens)):
    (tree / link).symlink_to(place)
short = ["--set", "train.steps=2", "--set", "schedule.warmup_steps=1"]
labs = {name: slurm.submit(f"--chdir={tree}", str(ROOT / f"jobs/{name}.sbatch"), *short) for name in ("lab01", "lab02")}
runs("jobs/lab01.sbatch", labs["lab01"], "step 2: saved")
runs("jobs/lab02.sbatch", labs["lab02"], "parallel.data=bucketed --set run.name=lab02-mlp-bucketed")
job.check("... trains ten times", len(list(tree.glob("runs/lab02-*/metrics.jsonl"))) == 10, slurm.why(labs["lab02"]))
job.check("... without a warning", "warning" not in slurm.log(labs["lab02"]), slurm.log(labs["lab02"]))

# Wrong starts.
words = training.words("wrong", train__steps=4)
outcome = slurm.run("srun", "--mpi=pmix", "--nodes=2", "--ntasks=3", job.program, *words)
job.expect("3 tasks cannot share a batch of 8", outcome, 3, ["global_batch", "3"], lines=1, seconds=60)
outcome = slurm.run("srun", "--mpi=pmix", "--nodes=2", "--ntasks-per-node=2", job.program, *words, "--set", "parallel.tp=3")
job.expect("4 tasks are no multiple of tp = 3", outcome, 3, ["3", "4"], lines=1, seconds=60)
outcome = slurm.run("srun", "--mpi=pmix", "--nodes=1", "--nodelist=node9", job.program, "topo")
job.check("a node that is not there: srun says so", outcome[0] not in (0, "none: it hangs") and "node" in outcome[2], str(outcome))
others = " ".join([job.program, *words, "--set", "train.steps=5"])
split = training.write("words.conf", f"0-1 {' '.join([job.program, *words])}\n2-3 {others}\n")
outcome = slurm.srun("--mpi=pmix", "--multi-prog", split)
job.expect("two command lines in one step", outcome, 2, ["command line differs"], seconds=60)
split = training.write("programs.conf", f"0-1 {job.program} topo\n2-3 /bin/sleep 60\n")
outcome = slurm.srun("--mpi=pmix", "--kill-on-bad-exit=1", "--export=ALL,COHORT_WATCH_TIMEOUT=10", "--multi-prog", split)
job.check("two programs in one step, one without MPI", outcome[0] not in (0, "none: it hangs") and outcome[3] < 40, str(outcome))
twice = f"{job.program} topo >/dev/null && {job.program} topo"
outcome = slurm.srun("--mpi=pmix", "sh", "-c", twice)
job.expect("two programs in one step, one after the other", outcome, 4, ["in this srun step", "its own srun"], lines=1)
slurm.end()
