#!/usr/bin/env python3
"""A run as Weights & Biases keeps it, written without network by their own library:

    python3 tools/export_wandb.py runs/demo --project cohort     writes runs/demo/wandb/offline-run-...
    wandb sync runs/demo/wandb/offline-run-...                   sends it, whenever there is network

Metrics, histograms and norms of layers, samples and the settings of the run, at the steps that they are of. metrics.jsonl stays the
source: a run that has gone on since is exported anew with --overwrite, under the same name and id. Needs the package wandb; the
Python of the tests has it (`make python`)."""

import argparse
import glob
import hashlib
import json
import math
import os
import shutil
import sys

LOWEST = -48  # exponent of the least magnitude in the histograms of layers.jsonl (docs/observing.md)


def fail(message):
    sys.exit(f"export_wandb: {message}")


def note(message):
    print(f"note: {message}", file=sys.stderr)


def records(path):
    """By step: of two of one step the later counts. Lines that cannot be read are left out, and said."""
    by_step, unreadable, repeated = {}, 0, 0
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                record = json.loads(line)
                step = record["step"]
                if not isinstance(step, int) or step < 0:
                    raise ValueError
            except (ValueError, KeyError, TypeError):
                unreadable += 1
                continue
            repeated += step in by_step
            by_step[step] = record
    if unreadable:
        note(f"{unreadable} line(s) of {path} cannot be read and are left out: the run is writing it, or was killed then")
    if repeated:
        note(f"{repeated} step(s) are recorded twice in {path}, as if two runs had written it; the later record is exported")
    return by_step


def records_if_there(path):
    return records(path) if os.path.exists(path) else {}


def numbers(record, prefix=""):
    """Of a record and the objects in it, "seconds/forward"; what was written as text, as JSON has no NaN, as it was."""
    for name, value in record.items():
        if prefix == "" and name in ("step", "run", "slurm"):
            continue
        if isinstance(value, dict):
            yield from numbers(value, f"{prefix}{name}/")
        elif isinstance(value, (int, float)):
            yield prefix + name, value
        elif isinstance(value, str) and name.endswith("_text"):
            yield prefix + name[: -len("_text")], float(value)


def edge(half_octave):
    """Where a bin of layers.jsonl begins."""
    return math.ldexp(1.5 if half_octave % 2 else 1.0, half_octave // 2)


def histogram(values):
    """Counts, and the edges between them."""
    edges, counts = [], []

    def add(low, high, count):
        if edges and edges[-1] < low:
            edges.append(low)
            counts.append(0)
        if not edges:
            edges.append(low)
        edges.append(high)
        counts.append(count)

    negative, positive = values.get("negative"), values.get("positive")
    if negative:
        for i, count in reversed(list(enumerate(negative["counts"]))):
            add(-edge(negative["first"] + i + 1), -edge(negative["first"] + i), count)
    if values["zeros"]:
        add(-edge(2 * LOWEST), edge(2 * LOWEST), values["zeros"])
    if positive:
        for i, count in enumerate(positive["counts"]):
            add(edge(positive["first"] + i), edge(positive["first"] + i + 1), count)
    return counts, edges


def settings_of(run):
    path = os.path.join(run, "run.toml")
    try:
        import tomllib

        with open(path, "rb") as file:
            return tomllib.load(file)
    except ImportError:
        note("this Python is older than 3.11 and cannot read run.toml: the settings are left out")
    except (OSError, ValueError) as error:
        note(f"{path}: {error}: the settings are left out")
    return {}


def export(wandb, run, project, metrics):
    name = os.path.basename(os.path.abspath(run))
    # The same run has the same id each time; one that was started over has another.
    first = metrics[min(metrics)]
    identity = hashlib.sha256(f"{name} {first.get('time')}".encode()).hexdigest()[:8]
    layers, samples = (records_if_there(os.path.join(run, file)) for file in ("layers.jsonl", "samples.jsonl"))
    settings = wandb.Settings(console="off", disable_git=True, save_code=False, x_disable_stats=True, x_disable_meta=True)
    with wandb.init(project=project, name=name, id=identity, dir=run, mode="offline", config=settings_of(run), settings=settings) as log:
        for step in sorted({*metrics, *layers, *samples}):
            row = dict(numbers(metrics.get(step, {})))
            for layer, kinds in layers.get(step, {}).get("layers", {}).items():
                for kind, values in kinds.items():
                    row[f"{kind}_norm/{layer}"] = values["norm"] if values["norm"] is not None else float(values.get("norm_text", "nan"))
                    counts, edges = histogram(values)
                    if counts:
                        row[f"{kind}/{layer}"] = wandb.Histogram(np_histogram=(counts, edges))
            if step in samples:
                row["sample"] = wandb.Table(columns=["step", "text"], data=[[step, samples[step].get("text", "")]])
            log.log(row, step=step)
        return log.dir


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="folder of a run")
    parser.add_argument("--project", default="cohort")
    parser.add_argument("--overwrite", action="store_true", help="replace what was exported before")
    options = parser.parse_args()
    path = os.path.join(options.run, "metrics.jsonl")
    if not os.path.exists(path):
        fail(f"{options.run}: not a run folder: it has no metrics.jsonl, which a run writes from its first step on")
    metrics = records(path)
    if not metrics:
        fail(f"{path}: no step is recorded there yet")
    before = glob.glob(os.path.join(glob.escape(options.run), "wandb", "offline-run-*"))
    if before and not options.overwrite:
        fail(f"{before[0]} is there already: it is replaced with --overwrite")
    os.environ["WANDB_ERROR_REPORTING"] = "false"
    os.environ["WANDB_SILENT"] = "true"
    try:
        import wandb
    except ImportError:
        fail("the package wandb is missing: run this with build/python/bin/python (`make python`), or pip install wandb")
    for folder in before:
        shutil.rmtree(folder)
    print(os.path.dirname(export(wandb, options.run, options.project, metrics)))


if __name__ == "__main__":
    main()
