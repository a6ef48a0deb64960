"""`cohort train --trace` and `cohort trace show`: the file is a trace, tells the truth, and costs nothing where it is off."""

import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict

import trace_schema
from launched import Launched, environment_without_launcher
from training import Running, Training

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_trace_")
training = Training(job, folder.name)
PHASES = ("data", "forward", "backward", "communication", "optimizer", "device", "validation", "checkpoint")
SHORT = {"train__steps": 8, "schedule__warmup_steps": 0, "train__validate_every": 4, "sample__tokens": 0}
PIPELINE = {"model__layers": 2, "parallel__pp": 2}
LAYOUTS = {  # name: ranks, keys
    "one": (1, {}),
    "buckets": (3, {"train__global_batch": 12}),
    "hooks": (2, {"parallel__data": "hooks"}),
    "zero3": (2, {"parallel__data": "zero3", "model__layers": 2}),
    "tensor": (2, {"parallel__tp": 2}),
    "pipeline": (2, PIPELINE),
    "mixed": (4, {**PIPELINE, "checkpoint__every": 4, "checkpoint__async": "true"}),
}
# Of the trace and the metrics: times of the same clock, read once for both, rounded to a nanosecond.
ROUNDING = 1e-6
# Waits are measured twice, just beside each other; a busy machine may take the core away between the two: seconds, and a part of it all.
BETWEEN_TWO_CLOCKS, PART = 0.05, 0.1


def trace_of(name, number=1):
    return trace_schema.load(training.path(f"{name}/trace{'' if number == 1 else f'_{number}'}.json"))


def say(faults):
    return "\n".join(faults[:5])


def seconds_by_phase(trace, rank, step):
    """Of the phases of a step, what is inside of them taken off; and what was waited in training."""
    inner, seconds, waited = defaultdict(float), defaultdict(float), 0.0
    slices = trace_schema.slices(trace, rank)
    window = next(event for event, _ in slices if event["name"] == f"step {step}")
    chain, phases = [], []
    for event, _ in slices:
        while chain and trace_schema.end(chain[-1]) <= event["ts"]:
            chain.pop()
        inside = window["ts"] <= event["ts"] and trace_schema.end(event) <= trace_schema.end(window) + trace_schema.HALF
        within = [outer for outer in chain if outer["cat"] == "phase"]
        if inside and event["cat"] == "phase":
            phases.append(event)
            if within:
                inner[id(within[-1])] += event["dur"]
        if inside and event["cat"] == "wait" and not any(outer["name"] in ("validation", "checkpoint") for outer in within):
            waited += 1e-6 * event["dur"]
        chain.append(event)
    for event in phases:
        seconds[event["name"]] += 1e-6 * (event["dur"] - inner[id(event)])
    return seconds, waited


# 1. Layouts: the same losses with and without, a sound trace, and the times of the metrics.
for name, (ranks, keys) in LAYOUTS.items():
    plain, traced = name + "_plain", name
    job.expect(f"{name}: without a trace", job.run(training.words(plain, **SHORT, **keys), ranks), 0, lines=0, seconds=120)
    done = job.run(training.words(traced, "--trace", "steps=3-5", **SHORT, **keys), ranks)
    job.expect(f"{name}: with one", done, 0, lines=0, seconds=120)
    job.check("... says where it is", "traced steps 3-5 to" in done[1], done[1])
    losses = [[line["loss"] for line in training.metrics(run)] for run in (plain, traced)]
    job.check("... the losses are the same, bit for bit", losses[0] == losses[1] and len(losses[0]) == 8, losses)
    files = [{entry for entry in os.listdir(training.path(run))} for run in (plain, traced)]
    job.check("... no other file", files[1] - files[0] == {"trace.json"} and not files[0] - files[1], files)
    trace = trace_of(traced)
    faults = trace_schema.faults(trace)
    job.check("... the trace is sound", not faults, say(faults))
    for metrics in training.metrics(traced)[2:5]:
        seconds, waited = seconds_by_phase(trace, 0, metrics["step"])
        apart = {phase: (seconds[phase], metrics["seconds"][phase]) for phase in PHASES if abs(seconds[phase] - metrics["seconds"][phase]) > ROUNDING * 200}
        job.check(f"... step {metrics['step']} has the seconds of the metrics, phase by phase", not apart, apart)
        if ranks == 1:
            job.check("... and one rank exposes nothing", "exposed_communication" not in metrics, metrics)
            continue
        times = metrics["seconds"]
        exposed = metrics["exposed_communication"] * (times["step"] - times["validation"] - times["checkpoint"])
        job.check("... and its exposed communication", 0 <= metrics["exposed_communication"] <= 1 and abs(waited - exposed) < BETWEEN_TWO_CLOCKS + PART * exposed,
                  (waited, exposed))

# 2. What is in them.
for name, layers in (("one", ["embedding", "blocks.0", "head"]), ("zero3", ["embedding", "blocks.0", "blocks.1", "head"])):
    spans = [event for event, _ in trace_schema.slices(trace_of(name), 0)]
    for run, order in (("forward", layers), ("backward", layers[::-1])):
        found = [event["name"] for event in spans if event["cat"] == "layer" and event["args"]["pass"] == run]
        job.check(f"{name}: layers of {run}", found and found == order * (len(found) // len(order)), found)
pipeline = trace_of("pipeline")
for rank, layers in ((0, {"embedding", "blocks.0"}), (1, {"blocks.1", "head"})):
    spans = [event for event, _ in trace_schema.slices(pipeline, rank)]
    job.check(f"pipeline: rank {rank} has its layers", {event["name"] for event in spans if event["cat"] == "layer"} == layers)
    for run in ("forward", "backward"):
        batches = sorted(event["args"]["micro_batch"] for event in spans if event["cat"] == "micro_batch" and event["args"]["pass"] == run)
        job.check(f"... and all micro-batches of {run}", batches == sorted([0, 1, 2, 3] * 3), batches)
    flows = [about for _, _, about in trace_schema.requests(pipeline, rank) if about["operation"] in ("send", "recv") and about["form"] == "asynchronous"]
    job.check("... and messages of training, with bytes and the other rank", len(flows) == 2 * 4 * 3 and all(f["bytes"] == 2 * 32 * 32 * 4 and f["peer"] == 1 - rank for f in flows), flows[:2])
kinds = {(about["group"], about["operation"], about["form"]) for _, _, about in trace_schema.requests(trace_of("zero3"), 1)}
job.check("zero3: gathers and scatters that overlap", {("dp", "all_gather", "asynchronous"), ("dp", "reduce_scatter", "asynchronous")} <= kinds, kinds)
kinds = {(about["group"], about["operation"]) for _, _, about in trace_schema.requests(trace_of("tensor"), 0)}
job.check("tensor: sums among tp", ("tp", "all_reduce") in kinds, kinds)
saver = [event["name"] for event, _ in trace_schema.slices(trace_of("mixed"), 3, track=1)]
job.check("mixed: the saver's thread", "saving a checkpoint" in saver, saver)

# A rank whose clock is 5000 s ahead, as on another node: in a time namespace, where that is allowed.
ahead = ["unshare", "--time", "--fork", "--monotonic", "5000"]
if subprocess.run([*ahead, "true"], capture_output=True).returncode != 0:
    print("skipped clocks that differ: no time namespaces here")
else:
    words = [job.program, *training.words("ahead", "--trace", "steps=3-5", **SHORT, **PIPELINE)]
    done = subprocess.run([*job.mpirun, "-np", "1", *words, ":", "-np", "1", *ahead, *words], env=environment_without_launcher(), capture_output=True,
                          text=True, timeout=120)
    job.check("clocks that differ", done.returncode == 0, done.stderr)
    faults = trace_schema.faults(trace_of("ahead"))
    job.check("... are made one", not faults, say(faults))
    last = max(event.get("ts", 0) for event in trace_of("ahead")["traceEvents"])
    job.check("... and time begins at 0", last < 60e6, last)

# 3. The check itself sees what is wrong.
sound = trace_of("pipeline")


def broken(what, change):
    trace = copy.deepcopy(sound)
    change(trace["traceEvents"], trace)
    job.check(f"the check sees {what}", trace_schema.faults(trace))


def shift(rank, by):
    def change(events, _):
        for event in events:
            if event["pid"] == rank and "ts" in event:
                event["ts"] += by
    return change


broken("a begin without its end", lambda events, _: events.remove(next(e for e in events if e["ph"] == "e")))
broken("a missing rank", lambda events, trace: trace.update(traceEvents=[e for e in events if e["pid"] == 0]))
broken("a slice that is too long", lambda events, _: next(e for e in events if e.get("cat") == "layer").update(dur=1e7))
broken("time that goes back", lambda events, _: [e for e in events if e["ph"] == "X"][-1].update(ts=1.0))
broken("a clock that is 50 ms late", shift(1, 5e4))
broken("a clock that is early", lambda events, trace: (shift(0, 5e4)(events, trace), trace))

# 4. Ranges: one step, the first, the last; a second one beside the first; what was stopped, and resumed.
job.expect("the first step", job.run(training.words("first", "--trace", "steps=1", **SHORT), 2), 0, lines=0)
job.check("... is traced", not trace_schema.faults(trace_of("first")) and trace_of("first")["otherData"]["steps"] == [1, 1])
job.expect("again, to resume", job.run(training.words("twice", "--trace", "steps=2-3", **{**SHORT, "train__steps": 4}, schedule__decay_steps=8), 2), 0, lines=0)
before = open(training.path("twice/trace.json"), "rb").read()
job.expect("... and resumed", job.run(training.words("twice", "--resume", "--trace", "steps=3-6", **SHORT, schedule__decay_steps=8), 2), 0, lines=0)
job.check("... the first trace is as it was", open(training.path("twice/trace.json"), "rb").read() == before)
job.check("... the second has what was left", trace_of("twice", 2)["otherData"]["steps"] == [5, 6] and not trace_schema.faults(trace_of("twice", 2)))
late = job.run(training.words("twice", "--resume", "--trace", "steps=2-3", **{**SHORT, "train__steps": 9}, schedule__decay_steps=8), 2)
job.expect("a range that is done", late, 0, lines=0)
job.check("... is said to be", "nothing is traced" in late[1] and not os.path.exists(training.path("twice/trace_3.json")), late[1])
job.expect("--overwrite", job.run(training.words("twice", "--overwrite", **SHORT), 2), 0, lines=0)
job.check("... removes traces", not [entry for entry in os.listdir(training.path("twice")) if entry.startswith("trace")])
stopped = Running(training, "stopped", 2, "--trace", "steps=2-900", train__steps=100000, schedule__warmup_steps=0, train__validate_every=0)
stopped.wait_for_step(20)
open(training.path("stopped/stop"), "w").close()
code, output, _ = stopped.finish()
first, last = trace_of("stopped")["otherData"]["steps"]
job.check("a run that is stopped on the way leaves what it has", code == 13 and first == 2 and last >= 20 and not trace_schema.faults(trace_of("stopped")), output)
killed = Running(training, "killed", 2, "--trace", "steps=2-900", train__steps=100000, schedule__warmup_steps=0, train__validate_every=0)
killed.wait_for_step(20)
killed.kill_all()
killed.finish()
job.check("one that is killed leaves no trace", not [entry for entry in os.listdir(training.path("killed")) if entry.startswith("trace")])
blocked = training.path("blocked")
os.makedirs(blocked + "/trace.json.tmp")
done = job.run(training.words("blocked", "--trace", "steps=2-3", **SHORT), 2)
job.expect("a trace that cannot be written does not end the run", done, 0, lines=0)
job.check("... but is missed", "warning: steps 2-3 were traced, but" in done[1] and "cannot be written" in done[1], done[1])

# 5. What makes no sense, before anything is done.
for value, part in (("10-12", "of the form"), ("steps=", "of the form"), ("steps=a-b", "of the form"), ("steps=3-", "of the form"), ("steps=0-2", "count from 1"),
                    ("steps=5-4", "comes before"), ("steps=7-9", "ends with step 8"), ("steps=99999999999999999999", "of the form"), ("steps=1-2,4", "of the form")):
    job.expect(f"--trace {value}", job.run(training.words("refused", "--trace", value, **SHORT), 2), 2, [f"--trace {value}", part], lines=1)
job.expect("more than fits into memory", job.run(training.words("refused", "--trace", "steps=1-1001", **{**SHORT, "train__steps": 2000})), 2, ["at most 1000"], lines=1)
job.check("... nothing was begun", not os.path.exists(training.path("refused")))

# 6. On the terminal, and in the report.
shown = job.run(["trace", "show", training.path("pipeline")])
job.expect("trace show", shown, 0, lines=0)
job.check("... adds it up", all(part in shown[1] for part in ("steps 3-5", "2 ranks", "forward", "exposed communication", "worked longest")), shown[1])
waits = sum(seconds_by_phase(pipeline, rank, step)[1] for rank in (0, 1) for step in (3, 4, 5)) / 2 / 3
line = next((line.split() for line in shown[1].splitlines() if line.startswith("exposed communication")), ["", "", "-1"])
job.check("... as it is", abs(float(line[2]) - waits) < 2e-4, (line, waits))
job.expect("trace show of a file", job.run(["trace", "show", training.path("mixed/trace.json")]), 0, lines=0)
job.expect("... of a run without one", job.run(["trace", "show", training.path("one_plain")]), 7, ["has no trace", "--trace"])
job.expect("... of no file", job.run(["trace", "show", training.path("nothing.json")]), 7, ["nothing.json"])
torn = training.path("torn.json")
with open(training.path("pipeline/trace.json"), encoding="utf-8") as file:
    text = file.read()
with open(torn, "w", encoding="utf-8") as file:
    file.write(text[:len(text) // 2])
job.expect("... of half a file", job.run(["trace", "show", torn]), 7, ["torn.json", "cut off"])
job.expect("... of another file", job.run(["trace", "show", training.path("pipeline/run.toml")]), 7, ["not a trace of cohort"])
shutil.copy(torn, training.path("zero3/trace_2.json"))
page = training.path("page.html")
job.expect("report", job.run(["report", training.path("pipeline"), training.path("one_plain"), training.path("zero3"), "--out", page]), 0, lines=0)
text = open(page, encoding="utf-8").read()
data = json.loads(text[text.index('id="data">') + 10:].split("</script>")[0])
drawn, without, unreadable = data["runs"]
pieces = drawn["trace"]["timeline"]["rows"]
job.check("... has the timeline", len(pieces) == 2 and all(row["pieces"] for row in pieces) and {"forward", "backward", "waiting"} <= set(drawn["trace"]["timeline"]["kinds"]), drawn["trace"]["timeline"]["kinds"])
# In step 4 a validation of three micro-batches sends forward, too.
job.check("... the messages, 8 KiB each", drawn["trace"]["messages"]["flows"] == [[0, 1, (3 * 4 + 3) * 8192 // 3], [1, 0, 4 * 8192]], drawn["trace"]["messages"])
job.check("... says that a run has none", "has no trace" in without["trace_note"], without.get("trace_note"))
job.check("... or one that cannot be read", "cut off" in unreadable["trace_note"], unreadable.get("trace_note"))
job.finish()
