"""`cohort data samples` against what ranks say in their logs that they were given, in two layouts and of a run file, and against the tokens."""

import json
import re
import sys
import tempfile

from launched import Launched
from training import Training

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_samples_")
training = Training(job, folder.name)
SHORT = {"train__steps": 40, "train__validate_every": 0, "sample__tokens": 0}


def samples(*words):
    outcome = job.run(["data", "samples", *words])
    job.expect(" ".join(map(str, words[1:])), outcome, 0, lines=0)
    return json.loads(outcome[1])["samples"]


def logged(name, rank, step):
    found = re.search(rf"step {step} loss .* samples ([\d ,]+)", training.log(name, rank))
    return [int(number) for number in re.findall(r"\d+", found[1])]


for name, ranks, keys in (("two", 2, {}), ("divided", 2, {"parallel__tp": 2, "train__micro_batch": 4}), ("three", 3, {"train__global_batch": 12})):
    job.expect(f"train {name}", job.run(training.words(name, **SHORT, **keys), ranks=ranks), 0, lines=0)
    for step in (1, 2, 17, 40):
        rows = samples(training.path(name), "--step", str(step), "--json")
        dp = 1 + max(row["dp_rank"] for row in rows)
        for rank in range(ranks):
            mine = [row["sample"] for row in rows if row["dp_rank"] == (rank if dp == ranks else 0)]
            job.check(f"{name}: the samples of rank {rank} in step {step}", mine == logged(name, rank, step), f"{mine}, {logged(name, rank, step)}")

rows = samples(training.path("two"), "--step", "40", "--json")
of_file = samples(training.run_file, "--step", "40", "--ranks", "2", "--set", "train.steps=40", "--json")
job.check("a run file says the same", rows == of_file)
# Some 1,150 samples: 36 KiB of training text, a character a token, 32 a sample.
epochs = [{row["epoch"] for row in samples(training.run_file, "--step", step, "--set", "train.steps=200", "--json")} for step in ("100", "150")]
job.check("epochs count from 1 and go up", epochs == [{1}, {2}], str(epochs))
job.check("a sample has the tokens of the context", all(row["tokens"] == [32 * row["sample"], 32 * row["sample"] + 32] for row in rows))
job.check("of one text all are of document 0", all(row["document"] == 0 for row in rows))
text = open(training.path("stories.txt"), encoding="utf-8").read()
job.check("the text is that of the corpus", all(row["text"] == text[row["tokens"][0]:row["tokens"][1]] for row in rows))  # a character a token

table = job.run(["data", "samples", training.path("two"), "--step", "3"])
job.check("as a table", table[0] == 0 and "micro-batch" in table[1] and len(table[1].splitlines()) == 9, table[1])
job.expect("a step that the run does not have", job.run(["data", "samples", training.path("two"), "--step", "41"]), 2, ["--step 41", "40 steps"], 1)
job.expect("step 0", job.run(["data", "samples", training.path("two"), "--step", "0"]), 2, ["--step"], 1)
job.expect("no such run", job.run(["data", "samples", training.path("nowhere"), "--step", "1"]), 7, ["nowhere"], 1)
job.finish()
