"""Sweeps as docs/planning.md has them, to the end: a job array over the global batch of inputs/batch_sweep.toml and one over a layout, and what
`cohort report` and `cohort compare` then read of their runs."""

import json
import re
import sys

from slurm import ENDED, ROOT, Slurm

slurm = Slurm(sys.argv[1:])
job, training = slurm.job, slurm.training
# The file itself, but small.
SMALL = {"data.tokens": training.tokens, "train.steps": 4, "schedule.warmup_steps": 1, "model.layers": 2, "model.width": 32, "model.heads": 2, "model.context": 32,
         "train.validate_every": 2, "train.validation_samples": 8, "sample.tokens": 0}


def swept(name, key, values, ranks, **keys):
    """The folders of the runs, in order, once all tasks have ended; what each said is checked."""
    training.run_file = str(ROOT / "inputs/batch_sweep.toml")
    script = slurm.render("array_sweep", name, "--ranks", str(ranks), "--sweep", f"{key}={','.join(values)}", **SMALL, **keys)
    number = slurm.submit(f"--output={slurm.folder}/%A_%a.log", script)
    for task, value in enumerate(values):
        facts = slurm.wait_for(f"{number}_{task}", *ENDED)
        text = slurm.log(f"{number}_{task}")
        job.check(f"{key} = {value}", facts.get("JobState") == "COMPLETED" and f"{key} = {value}" in text and "exit code 0" in text, slurm.why(f"{number}_{task}"))
    return [f"{name}-{value}" for value in values]


batches = swept("batches", "train.global_batch", ("8", "16"), 2)
layouts = swept("layouts", "parallel.tp", ("1", "2"), 2)

# Each batch has the rate that it calls for: that of 32 samples times the root of the ratio, once the warm-up of one step is over.
for name, batch in zip(batches, (8, 16)):
    rates = [line["learning_rate"] for line in training.metrics(name)]
    job.check(f"the rate of {batch} samples", len(rates) == 4 and abs(max(rates) / (3e-3 * (batch / 32) ** 0.5) - 1) < 1e-6, rates)

# One report of the array, and its losses: batches see other samples, layouts the same. Sums come in another order (training.DRIFT).
report = training.path("report.html")
outcome = slurm.run(job.program, "report", *map(training.path, batches), "--out", report)
job.check("report", outcome[0] == 0, outcome)
with open(report, encoding="utf-8") as file:
    runs = json.loads(re.search(r'id="data">(.*?)</script>', file.read(), re.S).group(1))["runs"]
job.check("... has both runs and their losses", [(run["name"], len(run["curves"]["loss"]["y"])) for run in runs] == [(name, 4) for name in batches], [run["name"] for run in runs])
losses = [[loss for _, loss in slurm.losses(name)] for name in layouts]
job.check("two layouts train alike", len(losses[0]) == 4 and all(abs(a / b - 1) < 1e-4 for a, b in zip(*losses)), losses)
outcome = slurm.run(job.program, "compare", *map(training.path, batches))
job.check("compare names what was swept", outcome[0] == 0 and "train.global_batch: " in outcome[1], outcome)
slurm.end()
