"""Labs 5 and 6 in real runs: a learner's loss scale over a run in fp16, and a learner's reduce-scatter and all-gather under ZeRO.
precision_and_memory_test.py PROGRAM ROOT -- MPIRUN FLAG ..."""

import json

from learner import check, expect, finish, has, root, run, scratch


def metrics(name):
    with open(scratch / "runs" / name / "metrics.jsonl", encoding="utf-8") as file:
        return [{key: record.get(key) for key in ("step", "loss", "loss_scale", "skipped")} for record in map(json.loads, file)]


(scratch / "data").mkdir()
expect("text", run("data", "synth", "stories", "--out", "data/stories.txt", "--bytes", "100KiB"), 0)
expect("tokens", run("data", "prepare", "--input", "data/stories.txt", "--out", "data/stories.h5", "--tokenizer", "char"), 0)

# 1. The loss scale of a run in fp16, which overflows and grows: the bits are those of Cohort's own rule, or another rule is seen.
RUN = root / "inputs/lab05_precision.toml"
SHORT = ["--set", "train.steps=30", "--set", "precision.loss_scale=1e6", "--set", "precision.loss_scale_interval=2", "--set", "model.layers=1"]
WITH = ["--with", "labs/05_precision"]
has("05_precision", "exercise.cpp")
expect("a rule that is not written", run("train", RUN, *SHORT, *WITH, "--set", "run.name=empty", ranks=2), 2, "loss_scale_update is not written yet")
has("05_precision", "solution.cpp")
expect("Cohort's rule", run("train", RUN, *SHORT, "--set", "run.name=cohort", ranks=2), 0)
expect("the learner's rule", run("train", RUN, *SHORT, *WITH, "--set", "run.name=mine", ranks=2), 0, "loss_scale_update of labs/05_precision")
cohort, mine = metrics("cohort"), metrics("mine")
check("the run overflows, and its scale grows", any(step["skipped"] for step in cohort)
      and any(b["loss_scale"] > a["loss_scale"] for a, b in zip(cohort, cohort[1:])), cohort)
check("the same losses and scales, to the last bit", len(mine) == 30 and mine == cohort, (mine, cohort))
has("05_precision", "wrong/scale_doubles_on.cpp")
expect("a wrong rule", run("train", RUN, *SHORT, *WITH, "--set", "run.name=wrong", ranks=2), 0)
check("... has other scales", metrics("wrong") != cohort)
has("05_precision", "solution.cpp")
NONE = ["--unset", "precision.loss_scale", "--unset", "precision.loss_scale_interval"]
expect("bf16 has no loss scale", run("train", RUN, *NONE, *WITH, "--set", "precision.policy=bf16", "--set", "run.name=no", ranks=2), 2, "fp16")

# 2. The collectives of ZeRO: three and four ranks with a learner's prove equal to one; with wrong ones they differ.
RUN = root / "inputs/lab06_memory.toml"
SHORT = ["--set", "train.global_batch=24", "--set", "model.layers=2", "--steps", "2"]
PROVE = ["prove", RUN, *SHORT, "--with", "labs/06_memory"]
has("06_memory", "exercise.cpp")
expect("collectives that are not written", run(*PROVE, "--layout", "data=zero1", ranks=2), 2, "is not written yet")
has("06_memory", "solution.cpp")
for ranks in (3, 4):
    expect(f"stages 1 to 3 on {ranks} ranks", run(*PROVE, *(f"--layout=data=zero{stage}" for stage in (1, 2, 3)), ranks=ranks), 0, "zero1 ... equal",
           "zero2 ... equal", "zero3 ... equal")
for file, function in (("scatter_next_owner", "reduce_scatter"), ("gather_one_step_less", "all_gather")):
    has("06_memory", f"wrong/{file}.cpp")
    expect(f"{file} is found", run(*PROVE[:-1], f"labs/06_memory:{function}", "--layout", "data=zero1", ranks=3), 11, "DIFFERS")
has("06_memory", "solution.cpp")
TRAIN = ["train", RUN, "--with", "labs/06_memory", "--set", "run.name=refused"]
expect("a strategy without shards", run(*TRAIN, "--set", "parallel.data=bucketed", ranks=2), 2, "has no shards", "zero1, zero2 or zero3")
expect("16 bits", run(*TRAIN, "--set", "precision.policy=bf16", ranks=2), 2, "in fp32")
expect("hybrid sharding", run(*TRAIN, "--set", "parallel.data=zero3", "--set", "parallel.shard_ranks=2", ranks=4), 2, "parallel.shard_ranks")

finish()
