"""`cohort train --trace` on GPUs: a sound trace with the device's times, the same losses, and exposed communication that agrees."""

import subprocess
import sys
import tempfile

import trace_schema
from launched import Launched
from training import Training

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_gpu_trace_")
training = Training(job, folder.name)
gpus = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60).stdout.count("GPU ")
SHAPE = {"device__kind": "cuda", "train__steps": 30, "model__width": 256, "model__layers": 4, "model__heads": 4, "train__validate_every": 15, "sample__tokens": 0}
LAYOUTS = {"one": (1, {})}
if gpus >= 2:
    LAYOUTS |= {"buckets": (2, {}), "zero3": (2, {"parallel__data": "zero3"}), "pipeline": (2, {"parallel__pp": 2}), "tensor": (2, {"parallel__tp": 2})}
for name, (ranks, keys) in LAYOUTS.items():
    job.expect(f"{name}: without a trace", job.run(training.words(name + "_plain", **SHAPE, **keys), ranks), 0, lines=0, seconds=60)
    job.expect(f"{name}: with one", job.run(training.words(name, "--trace", "steps=13-17", **SHAPE, **keys), ranks), 0, lines=0, seconds=60)
    losses = [[line["loss"] for line in training.metrics(run)] for run in (name + "_plain", name)]
    job.check("... the losses are the same, bit for bit", losses[0] == losses[1] and len(losses[0]) == 30, losses)
    trace = trace_schema.load(training.path(name + "/trace.json"))
    faults = trace_schema.faults(trace)
    job.check("... the trace is sound", not faults, "\n".join(faults[:5]))
    compute = [event for event, _ in trace_schema.slices(trace, 0, track=100)]
    job.check("... layers on the compute stream", any(event["cat"] == "layer" and event["dur"] > 0 for event in compute), compute[:3])
    kernels = [event["name"] for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    print(f"   kernels: {trace['otherData']['kernels']}, {len(kernels)}")
    job.check("... kernels, or why there are none", bool(kernels) == (trace["otherData"]["kernels"] == "CUPTI"), trace["otherData"])
    if ranks == 1:
        continue
    transfers = [event for event, _ in trace_schema.slices(trace, 0, track=101)]
    job.check("... operations on the communication stream, with bytes", transfers and all(event["args"]["bytes"] > 0 for event in transfers), transfers[:3])
    job.check("... kernels of NCCL", not kernels or any(kernel.startswith("nccl") for kernel in kernels), set(kernels))
    metrics = training.metrics(name)[12:17]
    job.check("... exposed communication in the metrics", all(0 <= line["exposed_communication"] <= 1 for line in metrics), metrics)
    spans = [event for event, _ in trace_schema.slices(trace, 0)]
    steps = [(event["ts"], trace_schema.end(event)) for event in spans if event["cat"] == "step"]
    aside = [(event["ts"], trace_schema.end(event)) for event in spans if event["cat"] == "phase" and event["name"] in ("validation", "checkpoint")]
    for (begin, end), line in zip(steps, metrics):
        stalled = sum(event["dur"] for event in compute if event["cat"] == "stall" and begin <= event["ts"] < end and
                      not any(a <= event["ts"] < b for a, b in aside)) / 1e6
        metered = line["exposed_communication"] * (line["seconds"]["step"] - line["seconds"]["validation"] - line["seconds"]["checkpoint"])
        # Host waits after the step, for the figures of all ranks, are in the metrics alone.
        job.check(f"... step {line['step']}: the trace's stalls ({1e3 * stalled:.3f} ms) are those of the metrics ({1e3 * metered:.3f} ms)",
                  abs(stalled - metered) < max(0.001, 0.3 * metered), "")
job.finish()
