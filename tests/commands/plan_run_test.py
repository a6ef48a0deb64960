"""`cohort plan RUN.toml`: predictions, measurements beside them, suggestions, and what it refuses."""

import json
import os
import re
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

from launched import Launched
from training import Training

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_plan_")
training = Training(job, folder.name)


def plan(*more, **keys):
    overrides = [word for key, value in keys.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
    return ["plan", training.run_file, *overrides, *more]


def answer(words, ranks=0, code=0):
    got, stdout, stderr, _ = job.run([*words, "--json"], ranks)
    job.check("JSON of " + " ".join(words[2:]), got == code, stdout + stderr)
    return json.loads(stdout)


# Predictions, without ranks. The vocabulary comes from the token file.
got = answer(plan("--ranks", "4"))
job.check("ranks and batch", (got["ranks"], got["dp"], got["accumulation"]) == (4, 4, 1), got)
given = {(t["group"], t["operation"]): t["given"] for t in got["traffic"]}
# 8: the sum of the ranks' losses.
job.check("each gradient once", given == {("dp", "all_reduce"): 4 * got["parameters"] + 8}, got["traffic"])
job.check("moved by a ring", got["traffic"][0]["moved"] == 2 * 3 * given["dp", "all_reduce"] // 4, got["traffic"])
# ... and the optimizer's list of ranges that decay.
job.check("16 bytes a parameter", 0 <= sum(got["memory"][k]["predicted"] for k in ("parameters", "gradients", "optimizer")) - 16 * got["parameters"] < 1000, got)
zero3 = answer(plan("--ranks", "4", parallel__data="zero3"))
job.check("ZeRO-3 divides", zero3["memory"]["optimizer"]["predicted"] < got["memory"]["optimizer"]["predicted"] / 3.5, zero3["memory"])
large = answer(plan("--ranks", "16384", train__global_batch=0, train__accumulation=4, model__heads=4, parallel__tp=4, model__layers=4, parallel__pp=4))
job.check("16,384 ranks", large["ranks"] == 16384 and large["dp"] == 1024 and abs(large["bubble"] - 3 / 7) < 1e-12, large)
for ranks in (0, 2):
    code, stdout, stderr, _ = job.run(plan(), ranks)
    job.check(f"text once, {ranks} ranks", code == 0 and not stderr and stdout.count("layout ") == 1, stdout + stderr)
    job.check(f"the job's ranks, {ranks}", f"= {'2 ranks' if ranks else '1 rank'}, " in stdout, stdout)
code, stdout, stderr, _ = job.run(plan("--ranks", "4", data__tokens="none.h5", model__vocabulary=100, device__kind="cuda"))
job.check("without the token file, for a GPU", code == 0 and "Korthikanti" in stdout, stdout + stderr)
code, stdout, stderr, _ = job.run(plan("--ranks", "2", device__kind="cuda", parallel__data="zero1", parallel__offload="optimizer"))
job.check("offloaded from a GPU that is not here", code == 0 and "Offloaded to host memory: " in stdout and "--ranks-per-node" in stdout and "per token and layer" in stdout, stdout + stderr)
for ranks in (0, 2):
    got = answer(plan("--ranks-per-node", "2", *([] if ranks else ["--ranks", "2"]), device__kind="cuda", parallel__data="zero1", parallel__offload="optimizer"), ranks)
    job.check("host memory of a node, for both of its ranks", 0 < got["host_memory_of_rank"] == got["host_memory_of_node"] // 2, got)
job.expect("nodes are those of the job", job.run(plan("--measure", "--ranks-per-node", "2"), 2), 2, ["--ranks-per-node", "--measure"], lines=1)

# Measurements.
got = answer(plan("--measure", parallel__data="zero2", model__width=64), 2)
job.check("as predicted", got["equal"] and all(line["equal"] for part in ("memory", "others", "traffic") for line in got[part]), got)
job.check("two operations, to the byte", [line["off"] for line in got["traffic"]] == [0, 0], got["traffic"])
got = answer(plan("--measure", data__documents="separate", parallel__cp=2, train__micro_batch=4), 2)
job.check("separate documents, as predicted", got["equal"], got)
svg = os.path.join(folder.name, "step.svg")
code, stdout, stderr, _ = job.run(plan("--measure", "--steps", "3", "--svg", svg, model__layers=2, parallel__pp=2), 2)
job.check("a pipeline", code == 0 and "Bubble" in stdout and "pp send" in stdout and "All predictions are within 0.1 %" in stdout, stdout + stderr)
# One limit for every number, parts and total alike; the dry run and the plan say the same.
PIPELINES = [dict(parallel__pp=2, model__layers=4), dict(parallel__pp=2, model__layers=4, parallel__schedule="gpipe"),
             dict(parallel__pp=2, model__layers=4, parallel__schedule="interleaved", parallel__chunks=2, model__vocabulary=1000)]
for keys in PIPELINES:
    keys = dict(keys, model__width=128, model__heads=4)
    got = answer(plan("--measure", **keys), 2)
    job.check(f"to the byte: {keys}", len(got["memory"]) == 6 and all(line["off"] == 0 for line in got["memory"]), got["memory"])
    planned = answer(plan(**keys), 2)
    total = next(line for line in got["memory"] if line["what"] == "all, of one rank")
    job.check("the same total", planned["memory_of_rank"] == total["predicted"], (planned, total))
    overrides = [word for key, value in keys.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
    code, dry, stderr, _ = job.run(["train", training.run_file, *overrides, "--dry-run", "--ranks", "2"])
    code, text, stderr, _ = job.run(plan("--ranks", "2", **keys))
    said = re.search(r"memory +(\S+ \S+) per rank: parameters (\S+ \S+), gradients (\S+ \S+), optimizer (\S+ \S+), activations (\S+ \S+), buffers (\S+ \S+)", dry)
    job.check("the dry run says it", said is not None, dry)
    for what, amount in zip(["all, of one rank", "parameters", "gradients", "optimizer", "activations", "buffers"], said.groups()):
        job.check(f"plan and dry run: {what} {amount}", re.search(rf"{what} +{re.escape(amount)}\b", text), text + dry)
job.check("its picture", len(ElementTree.parse(svg).getroot()) > 0)

# Suggestions.
got = answer(plan("--suggest", "--ranks", "4", model__layers=2))
names = [layout["layout"] for layout in got["layouts"]]
job.check("suggestions", len(names) > 8 and any("pp 2" in n for n in names) and any("zero3" in n for n in names), names)
seconds = [layout["step_seconds"] for layout in got["layouts"]]
job.check("the fastest first", seconds == sorted(seconds), seconds)
code, stdout, stderr, _ = job.run(plan("--suggest", "--ranks", "4"))
job.check("suggestions as text", code == 0 and "Refused for this run" in stdout, stdout + stderr)
job.expect("nothing fits", job.run(plan("--suggest", "--ranks", "4", "--memory-gib", "0.0001")), 3, ["the smallest, dp"], lines=1)

# What it refuses.
for ranks in (0, 2):
    job.expect(f"a batch that does not divide, {ranks} ranks", job.run(plan("--ranks", "3"), ranks), 3, ["global batches that fit"], lines=1)
job.expect("no token file", job.run(plan(data__tokens="none.h5")), 7, ["none.h5", "model.vocabulary"], lines=1)
job.expect("no run file", job.run(["plan", "none.toml"]), 7, ["none.toml"], lines=1)
job.expect("ranks of a measurement", job.run(plan("--measure", "--ranks", "2")), 2, ["--ranks"], lines=1)
job.expect("two things at once", job.run(plan("--schedule", "1f1b")), 2, ["--schedule", "run file"], lines=1)
job.expect("--suggest without a run file", job.run(["plan", "--suggest"]), 2, ["run.toml --suggest"], lines=1)
job.expect("one step", job.run(plan("--measure", "--steps", "1")), 2, ["--steps"], lines=1)
job.expect("a picture of no pipeline", job.run(plan("--measure", "--svg", svg), 2), 3, ["parallel.pp = 1"], lines=1)
job.expect("--svg without --measure", job.run(plan("--svg", svg)), 2, ["--svg"], lines=1)
job.finish()
