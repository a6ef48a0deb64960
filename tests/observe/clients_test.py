"""What a run writes for other tools, read by these: TensorBoard's loader, wandb's reader, Python's csv.

    clients_test.py EXPORT_WANDB PROGRAM -- MPIRUN FLAG ...
"""

import csv
import glob
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "commands"))
from launched import Launched  # noqa: E402
from training import Training  # noqa: E402

os.environ.update(WANDB_ERROR_REPORTING="false", WANDB_SILENT="true")
from tensorboard.backend.event_processing import event_accumulator  # noqa: E402
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader  # noqa: E402

export_wandb = sys.argv[1]
job = Launched(sys.argv[2:])
folder = tempfile.TemporaryDirectory(prefix="cohort_clients_")
training = Training(job, folder.name)
KEYS = {"train__validate_every": 8, "train__validate_at_start": "true", "log__every": 4, "checkpoint__every": 6, "schedule__warmup_steps": 0,
        "observe__layers_every": 4, "observe__tensorboard": "true", "sample__tokens": 10}
run = training.path("run")


def lines_of(file, run=run):
    with open(os.path.join(run, file), encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def loaded(run=run):
    """By TensorBoard's own loader, all of it."""
    accumulator = event_accumulator.EventAccumulator(os.path.join(run, "tensorboard"), size_guidance={
        event_accumulator.SCALARS: 0, event_accumulator.HISTOGRAMS: 0, event_accumulator.TENSORS: 0})
    return accumulator.Reload()


def near(value, wanted):
    return math.isclose(value, wanted, rel_tol=1e-6) or (math.isnan(value) and math.isnan(wanted))


# 1. A run that is stopped before its end and goes on from an earlier checkpoint: steps 13 to 15 are done twice.
job.expect("a run", job.run(training.words("run", train__steps=15, checkpoint__at_end="false", schedule__decay_steps=24, **KEYS), 2), 0, lines=0)
first_part = loaded()
job.check("its events end at its last step", [event.step for event in first_part.Scalars("loss")] == list(range(1, 16)))
job.expect("... resumed", job.run([*training.words("run", train__steps=24, schedule__decay_steps=24, **KEYS), "--resume"], 2), 0, lines=0)
files = sorted(os.listdir(run + "/tensorboard"))
job.check("each start has a file", len(files) == 2 and all(name.startswith("events.out.tfevents.") for name in files), files)

# 2. TensorBoard.
metrics, layers = lines_of("metrics.jsonl"), {record["step"]: record["layers"] for record in lines_of("layers.jsonl")}
board = loaded()
tags = board.Tags()
for name in ("loss", "gradient_norm", "learning_rate", "tokens_per_second"):
    events = board.Scalars(name)
    job.check(f"TensorBoard has each step's {name} once", [event.step for event in events] == list(range(1, 25)), [event.step for event in events])
    job.check("... as metrics.jsonl has it", all(near(event.value, record[name]) for event, record in zip(events, metrics[1:])))
job.check("... its time", all(math.isclose(event.wall_time, record["time"], abs_tol=1e-3) for event, record in zip(board.Scalars("loss"), metrics[1:])))
job.check("... the validations, that before the first step too", [event.step for event in board.Scalars("validation_loss")] == [0, 8, 16, 24])
job.check("... what is in objects by groups", {"seconds/forward", "seconds/step", "memory/max", "own_work/median"} <= set(tags["scalars"]), tags["scalars"])
job.check("... and no facts of the run", not [tag for tag in tags["scalars"] if tag.startswith(("run/", "step", "time"))], tags["scalars"])
wanted = {f"{kind}/{layer}" for record in layers.values() for layer, kinds in record.items() for kind in kinds}
job.check("TensorBoard has a histogram of each layer", set(tags["histograms"]) == wanted and "gradients/blocks.0" in wanted, tags["histograms"])
for tag in sorted(wanted):
    kind, layer = tag.split("/")
    events = board.Histograms(tag)
    good = [event.step for event in events] == [1, 4, 8, 12, 16, 20, 24]
    for event in events:
        values, histogram = layers[event.step][layer][kind], event.histogram_value
        good = good and sum(histogram.bucket) == histogram.num == values["elements"] and len(histogram.bucket) == len(histogram.bucket_limit)
        good = good and list(histogram.bucket_limit) == sorted(histogram.bucket_limit) and histogram.min < histogram.max
        # Values lie anywhere in a bin of half an octave, so the norm is known to a fifth.
        good = good and 0.8 < math.sqrt(histogram.sum_squares) / values["norm"] < 1.2
    job.check(f"... {tag}", good, [(event.step, event.histogram_value) for event in events][:2])
job.check("... and the norms", all(near(event.value, layers[event.step]["blocks.0"]["gradients"]["norm"]) for event in board.Scalars("gradients_norm/blocks.0")))
texts = [event for event in board.Tensors("sample")]
sample = lines_of("samples.jsonl")[-1]["text"]
job.check("... the samples of both ends", [event.step for event in texts] == [15, 24] and texts[1].tensor_proto.string_val[0].decode(errors="replace") == sample, texts)
job.check("... as text", board.SummaryMetadata("sample").plugin_data.plugin_name == "text")

# A fresh start takes the old files away; a file that is cut off is read up to there.
with open(os.path.join(run, "tensorboard", files[-1]), "rb+") as file:
    file.truncate(os.path.getsize(file.name) - 7)
whole = sum(1 for _ in EventFileLoader(os.path.join(run, "tensorboard", files[-1])).Load())
job.check("a file that is cut off is read up to there", whole > 12, whole)
job.expect("a run that starts over", job.run([*training.words("run", train__steps=2, **{**KEYS, "sample__tokens": 0, "train__validate_at_start": "false"}), "--overwrite"], 2), 0, lines=0)
job.check("... leaves its own events alone", [event.step for event in loaded().Scalars("loss")] == [1, 2])
job.expect("a run without them", job.run(training.words("plain", train__steps=2, schedule__warmup_steps=0), 1), 0, lines=0)
job.check("... has none", not os.path.exists(training.path("plain/tensorboard")))

# A loss that is no number is none there, either.
job.expect("a run with a loss that is no number", job.run([*training.words("nan", train__steps=4, train__on_nonfinite="skip", schedule__warmup_steps=0, observe__tensorboard="true"), "--fault", "nan:rank=0,step=2"], 1), 0)
losses = {event.step: event.value for event in loaded(training.path("nan")).Scalars("loss")}
job.check("... has NaN in TensorBoard", set(losses) == {1, 2, 3, 4} and math.isnan(losses[2]) and not math.isnan(losses[3]), losses)

# 3. CSV.
full = training.path("full")
job.expect("a run for CSV", job.run(training.words("full", train__steps=12, **{**KEYS, "observe__tensorboard": "false"}), 2), 0, lines=0)
out = training.path("csv")
job.expect("... as CSV", job.run(["report", full, "--csv", out]), 0, lines=0)
tables = {}
for name in ("steps", "ranks", "layers"):
    with open(f"{out}/{name}.csv", encoding="utf-8", newline="") as file:
        tables[name] = list(csv.DictReader(file))
metrics = lines_of("metrics.jsonl", full)
job.check("steps.csv has a row a record", [int(row["step"]) for row in tables["steps"]] == list(range(13)))
job.check("... with every bit of a number", all(float(row["loss"]) == record["loss"] for row, record in zip(tables["steps"][1:], metrics[1:])))
job.check("... and what is in objects", all(float(row["seconds.forward"]) == record["seconds"]["forward"] for row, record in zip(tables["steps"][1:], metrics[1:])))
job.check("... and nothing where nothing is", tables["steps"][1]["validation_loss"] == "" and tables["steps"][8]["validation_loss"] != "")
ranks = lines_of("ranks.jsonl", full)
job.check("ranks.csv has a row a rank and report", [(int(row["step"]), int(row["rank"])) for row in tables["ranks"]] == [(record["step"], rank) for record in ranks for rank in (0, 1)])
job.check("... with its memory", [float(row["memory"]) for row in tables["ranks"]] == [value for record in ranks for value in record["memory"]])
layers = lines_of("layers.jsonl", full)
job.check("layers.csv has a row a layer and kind", [(int(row["step"]), row["layer"], row["values"], float(row["norm"])) for row in tables["layers"]] ==
          [(record["step"], layer, kind, values["norm"]) for record in layers for layer, kinds in record["layers"].items() for kind, values in kinds.items()])
job.expect("... replaces nothing unasked", job.run(["report", full, "--csv", out]), 2, ["--overwrite"])
job.expect("... but if asked", job.run(["report", full, "--csv", out, "--overwrite"]), 0, lines=0)
job.expect("... of one run alone", job.run(["report", full, run, "--csv", training.path("two")]), 2, ["one run"])
job.expect("... of none", job.run(["report", folder.name, "--csv", training.path("none")]), 7, ["not a run folder"])
with open(full + "/metrics.jsonl", encoding="utf-8") as file:
    whole = file.read()
with open(full + "/metrics.jsonl", "a", encoding="utf-8") as file:
    file.write(whole.splitlines()[3] + "\n")
job.expect("... of two runs mixed", job.run(["report", full, "--csv", training.path("mixed")]), 0, ["as if two runs had written it"])
with open(full + "/metrics.jsonl", "w", encoding="utf-8") as file:
    file.write(whole + '{"step":13,"lo')
torn = job.run(["report", full, "--csv", training.path("torn")])
job.expect("... of a run that is being written", torn, 0, ["is cut off"])
with open(training.path("torn") + "/steps.csv", encoding="utf-8", newline="") as file:
    job.check("... has the rest", len(list(csv.DictReader(file))) == 13)

# 4. Weights & Biases, offline.
from wandb.proto import wandb_internal_pb2  # noqa: E402

datastore = importlib.import_module("wandb/sdk/internal/datastore".replace("/", "."))


def exported(*words):
    done = subprocess.run([sys.executable, export_wandb, *words], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout.strip(), done.stderr


code, place, said = exported(full)
job.check("the run is exported for wandb", code == 0 and os.path.isdir(place) and "cannot be read" in said, (code, place, said))
found = glob.glob(full + "/wandb/offline-run-*/run-*.wandb")
job.check("... into a folder that `wandb sync` takes", len(found) == 1, found)
store = datastore.DataStore()
store.open_for_scan(found[0])
history, kinds, settings = [], set(), {}
while (data := store.scan_data()) is not None:
    record = wandb_internal_pb2.Record()
    record.ParseFromString(data)
    kinds.add(record.WhichOneof("record_type"))
    if record.HasField("history"):
        history.append({(item.key or "/".join(item.nested_key)): json.loads(item.value_json) for item in record.history.item})
    if record.HasField("run"):
        settings.update({item.key: json.loads(item.value_json) for item in record.run.config.update})
by_step = {row["_step"]: row for row in history}
job.check("wandb's reader has each step once", sorted(by_step) == list(range(13)) and len(history) == 13, sorted(by_step))
job.check("... with the losses", all(near(by_step[record["step"]]["loss"], record["loss"]) for record in metrics[1:]))
job.check("... histograms", by_step[4]["gradients/blocks.0/_type"] == "histogram" and
          sum(by_step[4]["gradients/blocks.0/values"]) == layers[1]["layers"]["blocks.0"]["gradients"]["elements"], by_step[4])
job.check("... the settings", settings.get("model", {}).get("width") == 32, settings)
job.check("... and the end of the run", "exit" in kinds, kinds)
job.check("it replaces nothing unasked", exported(full)[0] == 1)
code, again, _ = exported(full, "--overwrite")
job.check("... but if asked, under the same id", code == 0 and place.rsplit("-", 1)[1] == again.rsplit("-", 1)[1], (place, again))
job.check("no run is said", exported(folder.name)[0] == 1)
job.finish()
