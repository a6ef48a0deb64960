"""`cohort plan RUN.toml --gpu`, `--profile`, and what measures for it: `cohort bench calibration` and `cohort bench layouts`."""

import json
import os
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

from launched import Launched

job = Launched(sys.argv[1:])
root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
folder = tempfile.TemporaryDirectory(prefix="cohort_machine_")
llama = os.path.join(root, "inputs", "llama_8b.toml")


def path(name):
    return os.path.join(folder.name, name)


def answer(words, ranks=0, timeout=120):
    code, stdout, stderr, _ = job.run([*words, "--json"], ranks, timeout)
    job.check("JSON of " + " ".join(words[1:]), code == 0, stdout + stderr)
    return json.loads(stdout)


# By a data sheet: an estimate, and said to be one.
got = answer(["plan", llama, "--gpu", "h100", "--gpus", "16", "--price", "2", "--tokens", "1e12"])
job.check("an estimate", got["estimate"] and "data sheet" in got["basis"], got["basis"])
seconds = [layout["step_seconds"] for layout in got["layouts"]]
job.check("layouts with reasons, the fastest first", len(seconds) > 10 and seconds == sorted(seconds) and all(layout["reason"] for layout in got["layouts"]), seconds)
job.check("none that does not fit", all(layout["memory"] <= got["memory_of_rank"] for layout in got["layouts"]))
job.check("what does not fit, with its size", got["too_large"] and all(one["memory"] > got["memory_of_rank"] and "on a rank" in one["lacks"] for one in got["too_large"]), got["too_large"])
step = got["step"]
parts = sum(step[part] for part in ("products", "attention", "pointwise", "optimizer", "exposed_host_copies", "bubble")) + sum(step["exposed"].values())
job.check("a step is the sum of its parts", abs(parts - step["seconds"]) < 1e-9 and step["seconds"] == seconds[0], step)
# Products alone would have 0.78 by the data sheet.
job.check("MFU between 0.3 and 0.75", 0.3 < got["mfu"] < 0.75, got["mfu"])
job.check("scaling to 16,384", got["weak_scaling"][-1]["ranks"] == 16384 and got["weak_scaling"][0]["efficiency"] == 1.0, got["weak_scaling"][-1])
job.check("the batch stays where it is fixed", {point["global_batch"] for point in got["strong_scaling"]} == {512}, got["strong_scaling"])
job.check("cost", abs(got["cost"] - 2 * got["gpu_hours"]) < 1e-6 and abs(got["gpu_hours"] - 24 * 16 * got["days"]) < 1e-6, got["cost"])
job.check("goodput", 0.9 < got["goodput"] < 1.0 and got["failure_seconds"] == 50000 * 3600 / 16, got["goodput"])
job.check("no price, no cost", answer(["plan", llama, "--gpu", "h100", "--gpus", "8"])["cost"] is None)
def zero3(plan):
    names = ("dp 16, zero3", "dp 16, zero3, no checkpointing")
    return next(layout["step_seconds"] for layout in plan["layouts"] if layout["layout"] in names)


slower = answer(["plan", llama, "--gpu", "h100", "--gpus", "16", "--network-gbit", "1"])
job.check("a slow network costs time", slower["step"]["seconds"] > step["seconds"] and zero3(slower) > 2 * zero3(got), slower["step"])

svg = path("plan.svg")
code, stdout, stderr, _ = job.run(["plan", llama, "--gpu", "b200", "--gpus", "64", "--svg", svg], 0, 120)
job.check("in words", code == 0 and all(word in stdout for word in ("estimates", "Memory: ", "Layout: ", "Step: ", "Scaling", "Cost: ", "Failures: ", "Young 1974")), stdout + stderr)
job.check("paragraphs of 100 columns", max(len(line) for line in stdout.split("layouts of")[0].splitlines()) <= 100, stdout)
job.check("its picture", "efficiency" in "".join(ElementTree.parse(svg).getroot().itertext()))
job.expect("the picture is kept", job.run(["plan", llama, "--gpu", "b200", "--gpus", "64", "--svg", svg], 0, 120), 2, [svg, "--overwrite"], lines=1)
got = answer(["plan", llama, "--gpu", "h100", "--gpus", "8", "--suggest"])
job.check("--suggest alone", len(got["layouts"]) > 5 and "weak_scaling" not in got, list(got))
offloading = ["plan", llama, "--gpu", "h100", "--gpus", "8", "--suggest", "--set", "model.activation_offload=true", "--set", "model.checkpointed_layers=32"]
got = answer(offloading)
job.check("host memory of which nothing is known", got["layouts"] and all(layout["host_memory_of_node"] > 0 for layout in got["layouts"]))
most = max(layout["host_memory_of_node"] for layout in got["layouts"])
less = answer([*offloading, "--host-memory-gib", str(most / 2**31)])
job.check("half of what one needs is not enough for it", len(less["layouts"]) < len(got["layouts"]) and any("of host memory on a node" in one["lacks"] for one in less["too_large"]), less["too_large"])
got = answer(["plan", llama, "--gpu", "h100", "--gpus", "1", "--suggest"])
job.check("without a time where it takes parallel.offload", not got["layouts"] and got["untimed"][0]["offload"] == "optimizer", got)
job.expect("which is no plan for a machine", job.run(["plan", llama, "--gpu", "h100", "--gpus", "1"]), 3, ["parallel.offload", "of host memory on a node", "--host-memory-gib"], lines=1)

# Measured: as many ranks as are started.
profile = path("machine.json")
refused = job.run(["bench", "calibration", profile, "--precision", "bf16,fp8"], 2)
job.expect("a CPU has no products in 8 bits", refused, 2, ["--precision fp8", "for GPUs", "cpu"], lines=1)
job.check("... which is said before anything is measured", "measuring" not in refused[1] and not os.path.exists(profile), refused[1])
code, stdout, stderr, _ = job.run(["bench", "calibration", profile], 2, 240)
job.check("calibration", code == 0 and "links inside a node" in stdout and "2 ranks on 1 node" in stdout, stdout + stderr)
with open(profile) as file:
    measured = json.load(file)
job.check("ops and collectives", {"linear_forward", "attention_backward", "adamw", "dropout"} <= {one["op"] for one in measured["ops"]} and
          {"all_reduce", "reduce_scatter", "all_gather", "recv"} == {one["operation"] for one in measured["collectives"]}, measured.keys())
job.expect("a profile is kept", job.run(["bench", "calibration", profile], 2), 2, [profile, "--overwrite"], lines=1)
tiny = ["--layers", "2", "--width", "64", "--heads", "2", "--context", "64", "--steps", "2", "--warm-up", "1"]
rows = answer(["bench", "layouts", *tiny, "--profile", profile], 2, 240)
job.check("four strategies in three precisions", [(row["precision"], row["layout"]) for row in rows] == [
    (precision, f"dp 2, {data}") for precision in ("fp32", "bf16", "fp16") for data in ("bucketed", "zero1", "zero2", "zero3")], rows)
job.check("memory within 5 %", all(abs(row["memory_planned"] / row["memory_measured"] - 1) < 0.05 for row in rows), rows)
# Others may load the machine.
job.check("times are planned", all(0 < row["step_seconds_planned"] < 10 * row["step_seconds"] for row in rows[:4]), rows)
job.check("not of types that were not measured", all(row["step_seconds_planned"] is None for row in rows[4:]), rows)
code, stdout, stderr, _ = job.run(["bench", "layouts", *tiny, "--precision", "fp32", "--layout", "tp=2", "--layout", "pp=2"], 2)
job.check("other layouts, as text", code == 0 and "tp 2" in stdout and "pp 2" in stdout and "planned ms" not in stdout, stdout + stderr)
demo = ["plan", os.path.join(root, "inputs", "demo.toml"), "--set", "model.vocabulary=1024", "--ranks", "4"]
got = answer([*demo, "--profile", profile])
job.check("a plan by what was measured", not got["estimate"] and got["ranks_per_node"] == 2 and got["mfu"] is None, got["basis"])

# What it refuses.
job.expect("a GPU that is not known", job.run(["plan", llama, "--gpu", "h101"]), 2, ["--gpu h101", "did you mean", "b200"], lines=1)
job.expect("two machines", job.run(["plan", llama, "--gpu", "h100", "--profile", profile]), 2, ["--gpu or --profile"], lines=1)
job.expect("a machine to measure on", job.run(["plan", llama, "--gpu", "h100", "--measure"]), 2, ["--measure runs on this one"], lines=1)
job.expect("a price of nothing", job.run(["plan", llama, "--price", "2"]), 2, ["--price needs --gpu"], lines=1)
job.expect("--gpu without a run file", job.run(["plan", "--gpu", "h100"]), 2, ["run.toml --gpu"], lines=1)
job.expect("what no 8 of these hold", job.run(["plan", llama, "--gpu", "t4", "--gpus", "2", "--set", "precision.policy=fp16"]), 3, ["no layout of 2 ranks fits", "the smallest"], lines=1)
job.expect("a number of GPUs that divides nothing", job.run(["plan", llama, "--gpu", "h100", "--gpus", "37"]), 3, ["no layout of 37 ranks"], lines=1)
job.expect("a precision that was not measured", job.run([*demo, "--profile", profile, "--set", "precision.policy=bf16"]), 3, ["no measurements", "bf16", "cohort bench calibration"], lines=1)
job.expect("no profile", job.run([*demo, "--profile", path("none.json")]), 7, ["none.json"], lines=1)
with open(path("torn.json"), "w") as file:
    file.write(json.dumps(measured)[:2000])
job.expect("a torn profile", job.run([*demo, "--profile", path("torn.json")]), 3, ["torn.json"], lines=1)
with open(path("old.json"), "w") as file:
    json.dump({**measured, "version": 99}, file)
job.expect("a profile of another version", job.run([*demo, "--profile", path("old.json")], 2), 3, ["old.json", "version 99", "cohort bench calibration"], lines=1)
job.expect("a profile for layouts that is torn", job.run(["bench", "layouts", *tiny, "--profile", path("torn.json")], 2), 3, ["torn.json"], lines=1)
job.expect("a layout that does not fit the ranks", job.run(["bench", "layouts", *tiny, "--layout", "tp=4"], 2), 3, ["tp=4"], lines=1)
job.finish()
