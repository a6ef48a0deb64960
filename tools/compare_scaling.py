#!/usr/bin/env python3
"""Every layout on 1, 2, 4, ... GPUs of this machine, beside compiled PyTorch's DistributedDataParallel and FSDP2: one table.

  tools/compare_scaling.py [--shapes gpt2-124m llama-1b] [--gpus 1 2] [--only cohort torch] [--layouts TEXT ...] [--json FILE]

Needs NVIDIA GPUs, Cohort's CUDA build, and for the peers a Python with PyTorch 2.6 or newer. About a minute for each line of the table.

Each GPU adds the same number of tokens to a step, whatever the layout: with N GPUs split by tensor, pipeline or context parallelism a
micro-batch has N times the samples, or there are N times as many micro-batches. `of N x 1`: tokens/s over N times those of one GPU by the same program;
`of apart`: over the sum of N such programs at the same time, one on each GPU, which lowers the clock as much and leaves only what the layout costs.
`exposed`: the share of a step in which the GPU waits for communication (`cohort bench step`). A step is that of tools/compare_gpu.py; FSDP2 shards each
block and the whole, with parameters in bf16 and reductions in fp32.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compare_gpu import PartFailed, ROOT, SHAPES, WARM_UP_STEPS, last_json, padded_vocabulary, run

# Samples of a GPU and step, and micro-batches of a pipeline: as many as keep it busy.
SIZES = {"gpt2-124m": dict(samples=32, steps=40, pipeline_micro_batches=16), "llama-1b": dict(samples=8, steps=20, pipeline_micro_batches=8)}
DATA = ("bucketed", "zero1", "zero2", "zero3")
APART = "one on each GPU"
TINY = dict(layers=2, width=64, heads=4, context=32, vocabulary=512)  # --dry, on CPUs


def layouts(ranks, shape):
    """Of Cohort: (name, keys of [parallel], micro-batch, accumulation); the tokens of a step are the same in all."""
    samples = 4 if shape == "dry" else SIZES[shape]["samples"]
    pieces = 2 if shape == "dry" else SIZES[shape]["pipeline_micro_batches"]
    if ranks == 1:
        return [("one GPU", {"data": "bucketed"}, samples, 1)]
    found = [(f"dp={ranks}, {name}", {"data": name}, samples, 1) for name in DATA]
    sequence = {"tp": ranks, "sequence": "true"}
    found += [(f"tp={ranks}", {"tp": ranks}, ranks * samples, 1), (f"tp={ranks}, sequence", sequence, ranks * samples, 1),
              (f"tp={ranks}, tensor_overlap", {**sequence, "tensor_overlap": "true"}, ranks * samples, 1),
              (f"pp={ranks}, {pieces} micro-batches", {"pp": ranks}, ranks * samples // pieces, pieces), (f"cp={ranks}", {"cp": ranks}, ranks * samples, 1)]
    if ranks >= 4:
        found.append((f"dp={ranks // 2}, tp=2", {"tp": 2}, 2 * samples, 1))
    return found


def mpirun(ranks, command):
    if ranks == 1:
        return command
    return ["mpirun", "--bind-to", "none", *(["--allow-run-as-root", "--oversubscribe"] if os.geteuid() == 0 else []), "-np", ranks, *command]


def cohort_command(options, shape, keys, micro_batch, accumulation):
    command = [options.cohort, "bench", "step", "--device", "cpu" if options.dry else "cuda", "--precision", "fp32" if options.dry else "bf16",
               "--micro-batch", micro_batch, "--accumulation", accumulation, "--warm-up", 1 + WARM_UP_STEPS, "--json"]
    if options.dry:
        command += [word for name, value in TINY.items() for word in (f"--{name}", value)] + ["--steps", 2]
    else:
        command += ["--shape", shape, "--steps", SIZES[shape]["steps"]]
    for key, value in keys.items():
        command += ["--strategy", value] if key == "data" else ["--set", f"parallel.{key}={value}"]
    return command


def run_cohort(options, shape, ranks, keys, micro_batch, accumulation, prefix=()):
    command = [*prefix, *mpirun(ranks, cohort_command(options, shape, keys, micro_batch, accumulation))]
    result = last_json(run(command, "cohort bench step"), "cohort bench step")
    exposed = result["phase_seconds"]["communication"] / result["step_seconds"] if ranks > 1 else None
    memory = (result.get("gpu") or {}).get("peak_bytes")
    return {"tokens_per_second": result["tokens_per_second"], "step_seconds": result["step_seconds"], "exposed": exposed, "gpu_bytes": memory}


def run_torch(options, shape, ranks, strategy, prefix=()):
    case = {"kind": "llama" if shape == "llama-1b" and not options.dry else "gpt2", **(TINY if options.dry else SHAPES[shape])}
    case |= {"micro_batch": 4 if options.dry else SIZES[shape]["samples"], "accumulation": 1, "steps": 2 if options.dry else SIZES[shape]["steps"]}
    settings = {"case": {**case, "padded_vocabulary": padded_vocabulary(case)}, "device": "cpu" if options.dry else "cuda", "compile": not options.dry,
                "strategy": strategy, "warm_up_steps": WARM_UP_STEPS, "launched": time.time()}
    launcher = [sys.executable] + (["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else [])
    result = last_json(run([*prefix, *launcher, ROOT / "tools/compare_gpu_torch.py", json.dumps(settings)], "PyTorch"), "PyTorch")
    tokens = ranks * case["micro_batch"] * case["context"]
    return {"tokens_per_second": tokens / result["step_seconds"], "step_seconds": result["step_seconds"], "exposed": None, "gpu_bytes": result["gpu_bytes"]}


def run_apart(gpus, run_on_one):
    """As many programs of one GPU at the same time; run_on_one(prefix) runs one behind the words of prefix."""
    with ThreadPoolExecutor(gpus) as pool:
        rows = list(pool.map(lambda gpu: run_on_one(("env", f"CUDA_VISIBLE_DEVICES={gpu}")), range(gpus)))
    return {**rows[0], "tokens_per_second": sum(row["tokens_per_second"] for row in rows), "step_seconds": max(row["step_seconds"] for row in rows)}


def parts_of(options, shape, ranks):
    """(program, what, how to run it), in the order of the table."""
    alone = layouts(1, "dry" if options.dry else shape)[0]
    parts = []
    if "cohort" in options.only:
        if ranks > 1:
            parts.append(("Cohort", APART, lambda: run_apart(ranks, lambda prefix: run_cohort(options, shape, 1, *alone[1:], prefix))))
        for name, keys, micro_batch, accumulation in layouts(ranks, "dry" if options.dry else shape):
            parts.append(("Cohort", name, lambda k=keys, m=micro_batch, a=accumulation: run_cohort(options, shape, ranks, k, m, a)))
    if "torch" in options.only:
        if ranks > 1:
            parts.append(("PyTorch", APART, lambda: run_apart(ranks, lambda prefix: run_torch(options, shape, 1, "ddp", prefix))))
        for name in ("one GPU",) if ranks == 1 else ("ddp", "fsdp2"):
            strategy = "ddp" if name == "one GPU" else name
            parts.append(("PyTorch", {"ddp": "DDP", "fsdp2": "FSDP2"}.get(name, name), lambda s=strategy: run_torch(options, shape, ranks, s)))
    wanted = [part for part in parts if not options.layouts or any(text in part[1] for text in options.layouts)]
    if not wanted:
        sys.exit(f"compare_scaling.py: no layout of {ranks} GPUs has {' or '.join(options.layouts)} in its name; there are "
                 + ", ".join(dict.fromkeys(f"'{part[1]}'" for part in parts)))
    return wanted


def share(row, base):
    return f"{100 * row['tokens_per_second'] / base:.1f} %" if base else "-"


def print_line(program, name, ranks, row, alone, apart):
    exposed = f"{100 * row['exposed']:.1f} %" if row["exposed"] is not None else "-"
    memory = f"{row['gpu_bytes'] / 2**30:.1f} GiB" if row["gpu_bytes"] else "-"
    print(f"  {ranks:>4}  {program:8} {name:26} {row['tokens_per_second']:>11,.0f} {1e3 * row['step_seconds']:>9.1f} {share(row, ranks * alone):>9} "
          f"{share(row, apart):>9} {exposed:>9} {memory:>10}", flush=True)


def compare(options, shape):
    print(f"\n{shape}\n  {'GPUs':>4}  {'':8} {'layout':26} {'tokens/s':>11} {'ms/step':>9} {'of N x 1':>9} {'of apart':>9} {'exposed':>9} {'memory':>10}",
          flush=True)
    rows, alone = [], {}
    for ranks in options.gpus:
        apart = {}
        for program, name, work in parts_of(options, shape, ranks):
            try:
                row = work()
            except PartFailed as error:
                print(f"  {ranks:>4}  {program:8} {name:26} " + str(error).replace("\n", "\n    "), flush=True)
                rows.append({"shape": shape, "gpus": ranks, "program": program, "layout": name, "error": str(error)})
                continue
            if ranks == 1:
                alone[program] = row["tokens_per_second"]
            elif name == APART:
                apart[program] = row["tokens_per_second"]
            print_line(program, name, ranks, row, alone.get(program, 0), apart.get(program, 0))
            rows.append({"shape": shape, "gpus": ranks, "program": program, "layout": name, **row})
    return rows


def cards(options):
    if options.dry or not shutil.which("nvidia-smi"):
        return ["CPU, tiny models" if options.dry else "unknown cards, no nvidia-smi"]
    query = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,power.limit", "--format=csv,noheader"], text=True, stdout=subprocess.PIPE)
    return query.stdout.strip().splitlines()


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--shapes", nargs="+", choices=SIZES, default=list(SIZES), metavar="NAME", help=f"default: {' '.join(SIZES)}")
    add("--gpus", nargs="+", type=int, default=[1, 2], metavar="N", help="numbers of GPUs, one table each (default: 1 2)")
    add("--only", nargs="+", choices=("cohort", "torch"), default=["cohort", "torch"], metavar="PROGRAM", help="cohort, torch (default: both)")
    add("--layouts", nargs="+", metavar="TEXT", help="only lines with one of these in their names, such as 'one' dp FSDP2 (default: all)")
    add("--cohort", type=Path, default=ROOT / "build/cuda/cohort", help="the binary (default: build/cuda/cohort)")
    add("--dry", action="store_true", help="tiny models on CPUs: checks this script without a GPU, measures nothing")
    add("--json", type=Path, help="also write all figures to this file")
    options = parser.parse_args()
    if min(options.gpus) < 1:
        parser.error("--gpus must be 1 or more")
    options.cohort = options.cohort.resolve()
    if "cohort" in options.only and not options.cohort.exists():
        parser.error(f"{options.cohort} does not exist: build Cohort's cuda preset, or name the binary with --cohort")
    return options


def main():
    options = parse_options()
    print("\n".join(cards(options)))
    rows = [row for shape in options.shapes for row in compare(options, shape)]
    if options.json:
        options.json.write_text(json.dumps({"cards": cards(options), "rows": rows}, indent=2) + "\n")
    return int(any("error" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
