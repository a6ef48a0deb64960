#!/usr/bin/env python3
"""Cohort, compiled PyTorch and llm.c on the same GPUs: training steps of the same models, one program after the other.

  tools/compare_gpu.py [--cases NAME ...] [--gpus 1] [--only cohort torch llmc] [--llmc PATH/train_gpt2cu] [--json FILE]
                       [--precision fp8]

Needs NVIDIA GPUs, a Python with PyTorch 2.4 or newer and Cohort's CUDA build; llm.c only if its program is named. Each program
runs in processes of its own, one for each GPU, so that it starts with empty GPUs. A case takes about a minute and a half.

A step is: forward and backward of all micro-batches, gradient clipping at norm 1, AdamW; bf16 arithmetic with fp32 master
weights, no dropout, random tokens. PyTorch's side is compare_gpu_torch.py: torch.compile, scaled_dot_product_attention,
autocast, fused AdamW, TF32 allowed, vocabulary padded to a multiple of 64; on several GPUs DistributedDataParallel. Cohort's
side is `cohort bench step`. --precision fp8: linear layers but the vocabulary's multiply in 8 bits in both, PyTorch's by torchao, or
by torch._scaled_mm where there is none; MFU stays a share of the bf16 peak. With --gpus N each GPU does what it does alone, so a step has N times the tokens.

Figures: tokens/s over all GPUs from the median step; each program first takes the same number of untimed steps. MFU is (6 N + 12 L C T) x tokens/s over --peak-tflops x GPUs, where N is
all parameters but the position embeddings, a tied output layer and padding not counted. First step: seconds from the start of
the process to the end of its first step; Cohort reports its own, since the command began. Later runs of torch.compile find the
cache of the first one; TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 shows the time without.
"""

import argparse
import array
import json
import os
import random
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TITLES = {"cohort": "Cohort", "torch": "PyTorch", "llmc": "llm.c"}
WARM_UP_STEPS = 5
LLMC_POSITIONS = 1024  # of its GPT-2
PART_SECONDS = 300  # a program that takes longer hangs

SHAPES = {
    "gpt2-124m": dict(kind="gpt2", layers=12, width=768, heads=12, context=1024, vocabulary=50257),
    "gpt2-774m": dict(kind="gpt2", layers=36, width=1280, heads=20, context=1024, vocabulary=50257),
    "llama-1b": dict(kind="llama", layers=16, width=2048, heads=32, kv_heads=8, ffn_width=8192, context=2048, vocabulary=32000),
}

# Named after micro-batch x accumulation on each GPU, and the context if it is not the shape's. Timed steps are chosen so that they take 5 to 20 seconds.
CASES = {
    "gpt2-124m-64x8": dict(shape="gpt2-124m", micro_batch=64, accumulation=8, steps=10),
    "gpt2-124m-32x1": dict(shape="gpt2-124m", micro_batch=32, accumulation=1, steps=80),
    "gpt2-774m-16x8": dict(shape="gpt2-774m", micro_batch=16, accumulation=8, steps=10),
    "llama-1b-8x1": dict(shape="llama-1b", micro_batch=8, accumulation=1, steps=40),
    "llama-1b-16x1": dict(shape="llama-1b", micro_batch=16, accumulation=1, steps=20),
    "gpt2-124m-2x1-16k": dict(shape="gpt2-124m", micro_batch=2, accumulation=1, context=16384, steps=40),
    "llama-1b-1x1-16k": dict(shape="llama-1b", micro_batch=1, accumulation=1, context=16384, steps=20),
}


# ---- What is counted ----


def parameter_count(case):
    """N of the convention: all parameters but the position embeddings, a tied output layer counted once."""
    width, vocabulary = case["width"], case["vocabulary"]
    if case["kind"] == "gpt2":
        return vocabulary * width + case["layers"] * (12 * width**2 + 13 * width) + 2 * width
    key_width = width * case["kv_heads"] // case["heads"]
    block = 2 * width**2 + 2 * width * key_width + 3 * width * case["ffn_width"] + 2 * width
    return 2 * vocabulary * width + case["layers"] * block + width


def flops_per_token(case):
    return 6 * parameter_count(case) + 12 * case["layers"] * case["width"] * case["context"]


def padded_vocabulary(case):
    return (case["vocabulary"] + 63) // 64 * 64


# ---- Starting the programs ----


class PartFailed(Exception):
    """One program gave no figure; the others go on."""


def run(command, what):
    """What the command writes to its standard output."""
    try:
        process = subprocess.Popen([str(part) for part in command], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        raise PartFailed(f"{what} cannot be started: {error}")
    try:
        out, err = process.communicate(timeout=PART_SECONDS)
    except BaseException as error:  # too long, or the script is stopped: mpirun and torchrun take their children along
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise PartFailed(f"{what} did not end within {PART_SECONDS} s")
        raise
    if process.returncode != 0:
        last_lines = "\n".join((out + err).strip().splitlines()[-60:])
        raise PartFailed(f"{what} failed with exit code {process.returncode}:\n{last_lines}")
    return out


def last_json(output, what):
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise PartFailed(f"{what} should have printed a line of JSON, but printed:\n{output}")


def mpirun(options, command):
    if options.gpus == 1:
        return command
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", "--bind-to", "none", *as_root, *options.mpirun, "-np", options.gpus, *command]


def run_cohort(options, case):
    precision = options.precision if options.device == "cuda" else "fp32"
    command = [options.cohort, "bench", "step", "--device", options.device, "--precision", precision, "--shape", case["shape"],
               "--micro-batch", case["micro_batch"], "--accumulation", case["accumulation"], "--steps", case["steps"],
               "--warm-up", 1 + WARM_UP_STEPS, "--json"]
    if options.gpus > 1:
        command += ["--strategy", "bucketed"]
    for name, value in (DRY_SHAPE if options.dry else {"context": case["context"]}).items():
        command += ["--" + name, value]
    result = last_json(run(mpirun(options, command + options.cohort_flags), "cohort bench step"), "cohort bench step")
    return {"expected_flops": result["flops_per_token"], **result}


def run_torch(options, case):
    settings = {"case": {**case, "padded_vocabulary": padded_vocabulary(case)}, "device": options.device,
                "precision": options.precision, "compile": not options.no_compile, "warm_up_steps": WARM_UP_STEPS, "launched": time.time()}
    launcher = [sys.executable]
    if options.gpus > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.gpus}"]
    result = last_json(run([*launcher, ROOT / "tools/compare_gpu_torch.py", json.dumps(settings)], "PyTorch"), "PyTorch")
    positions = case["context"] * case["width"] if case["kind"] == "gpt2" else 0
    counted = 6 * (result["parameters"] - positions) + 12 * case["layers"] * case["width"] * case["context"]
    return {"expected_flops": counted, **result}


def write_llmc_tokens(path):
    """Random tokens in llm.c's file format: 256 integers (magic, version, count), then 16 bits a token."""
    block = array.array("H", random.Random(1).choices(range(50257), k=1 << 20))
    repeats = 4
    with open(path, "wb") as file:
        array.array("i", [20240520, 1, repeats * len(block)] + [0] * 253).tofile(file)
        for _ in range(repeats):
            block.tofile(file)


def run_llmc(options, case):
    """llm.c has GPT-2 only. Before the first step and after the last it evaluates in any case: as little as its options allow."""
    tokens = options.gpus * case["micro_batch"] * case["accumulation"] * case["context"]
    steps = 1 + WARM_UP_STEPS + case["steps"]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "tokens.bin"
        write_llmc_tokens(data)
        command = [options.llmc, "-i", data, "-j", data, "-e", f"d{case['layers']}", "-b", case["micro_batch"],
                   "-t", case["context"], "-d", tokens, "-x", steps, "-l", "0.0001", "-c", "0.1", "-z", int(options.gpus > 1),
                   "-v", 100000, "-m", 1, "-s", 100000, "-g", 1, *options.llmc_flags]
        output = run(mpirun(options, command), "llm.c")
    times = [1e-3 * float(found) for found in re.findall(r"^step\s+\d+/\d+ .*?([0-9.]+) ms", output, re.MULTILINE)]
    if len(times) != steps:
        raise PartFailed(f"llm.c should have printed {steps} steps, but printed:\n{output}")
    steady = times[1 + WARM_UP_STEPS:]
    return {"step_seconds": statistics.median(steady), "step_seconds_best": min(steady), "first_step_seconds": None}


RUNNERS = {"cohort": run_cohort, "torch": run_torch, "llmc": run_llmc}


# ---- The comparison ----

# Of a check without a GPU: what `cohort bench step` takes in place of the shape's own figures.
DRY_SHAPE = {"layers": 2, "width": 256, "heads": 16, "context": 64, "vocabulary": 512}


def resolve(options, name):
    """The case with its shape's figures and the command line's changes."""
    case = {**SHAPES[CASES[name]["shape"]], **CASES[name]}
    if options.dry:
        case.update(DRY_SHAPE, micro_batch=2, accumulation=min(case["accumulation"], 2), steps=3)
    if options.steps:
        case["steps"] = options.steps
    return case


def compare(options, name):
    """Runs the programs one after the other; returns the figures of the case."""
    case = resolve(options, name)
    tokens = options.gpus * case["micro_batch"] * case["accumulation"] * case["context"]
    row = {"case": name, **case, "gpus": options.gpus, "tokens_per_step": tokens, "flops_per_token": flops_per_token(case)}
    row["programs"] = {}
    for program in options.only:
        if program == "llmc" and (case["kind"] != "gpt2" or case["context"] > LLMC_POSITIONS or options.precision == "fp8"):
            continue
        begin = time.time()
        try:
            result = RUNNERS[program](options, case)
            # The padding of a vocabulary is less than a thousandth.
            if abs(result.pop("expected_flops", row["flops_per_token"]) / row["flops_per_token"] - 1) > 1e-3:
                raise PartFailed(f"{TITLES[program]} trained another model: its parameters do not match the shape's")
            result["tokens_per_second"] = tokens / result["step_seconds"]
            result["mfu"] = result["tokens_per_second"] * row["flops_per_token"] / (options.peak_tflops * 1e12 * options.gpus)
        except PartFailed as error:
            result = {"error": str(error)}
        row["programs"][program] = {**result, "part_seconds": time.time() - begin}
    return row


def print_row(row):
    millions = parameter_count(row) / 1e6
    print(f"\n{row['case']}: {row['layers']} layers, width {row['width']}, T {row['context']}, {millions:.0f} M parameters "
          f"counted, {row['tokens_per_step']:,} tokens per step on {row['gpus']} GPU{'s' * (row['gpus'] > 1)}")
    columns = ("tokens/s", "ms/step", "best", "MFU", "first step", "GPU memory", "Cohort / this")
    print("  {:8} {:>10} {:>9} {:>9} {:>7} {:>11} {:>11} {:>14}".format("", *columns))
    cohort = row["programs"].get("cohort", {}).get("tokens_per_second")
    for program, result in row["programs"].items():
        if "error" in result:
            print(f"  {TITLES[program]:8} " + result["error"].replace("\n", "\n    "))
            continue
        first = f"{result['first_step_seconds']:.1f} s" if result["first_step_seconds"] is not None else "-"
        memory = f"{result['gpu_bytes'] / 2**30:.1f} GiB" if result.get("gpu_bytes") else "-"
        ratio = f"{cohort / result['tokens_per_second']:.2f}" if cohort and program != "cohort" else ""
        print(f"  {TITLES[program]:8} {result['tokens_per_second']:>10,.0f} {1e3 * result['step_seconds']:>9.1f} "
              f"{1e3 * result['step_seconds_best']:>9.1f} {100 * result['mfu']:>6.1f}% {first:>11} {memory:>11} {ratio:>14}")
    sys.stdout.flush()


def card_names(options):
    if options.device == "cpu":
        return ["CPU, tiny models"]
    if not shutil.which("nvidia-smi"):
        return ["unknown card, no nvidia-smi"]
    fields = "name,driver_version,clocks.max.sm,power.limit"
    query = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], text=True, stdout=subprocess.PIPE)
    return query.stdout.strip().splitlines()[: options.gpus] or ["unknown card, nvidia-smi failed"]


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add, more = parser.add_argument, dict(type=shlex.split, default=[], metavar="FLAGS")
    add("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="NAME", help=f"default: all, {' '.join(CASES)}")
    add("--only", nargs="+", choices=TITLES, metavar="PROGRAM", help="cohort, torch, llmc (default: all that are found)")
    add("--gpus", type=int, default=1, help="GPUs of this machine to use (default: 1)")
    add("--precision", choices=["bf16", "fp8"], default="bf16", help="default: bf16; llm.c has no fp8")
    add("--steps", type=int, help="timed steps (default: each case's own, 10 or more)")
    add("--cohort", type=Path, default=ROOT / "build/cuda/cohort", help="the binary (default: build/cuda/cohort)")
    add("--cohort-flags", help="more flags for cohort bench step, as one string: --cohort-flags='--bucket-mib 32'", **more)
    add("--llmc", type=Path, help="llm.c's train_gpt2cu; built with cuDNN it is fastest, several GPUs need it built with MPI")
    add("--llmc-flags", help="more flags for train_gpt2cu, as one string", **more)
    add("--mpirun", help="more flags for mpirun, as one string", **more)
    add("--no-compile", action="store_true", help="PyTorch without torch.compile")
    add("--peak-tflops", type=float, default=989.0, help="one GPU's dense bf16 peak (default: 989, H100 and H200 SXM)")
    add("--dry", action="store_true", help="tiny models on the CPU: checks this script without a GPU, measures nothing")
    add("--json", type=Path, help="also write all figures to this file, after each case")
    options = parser.parse_args()
    options.device = "cpu" if options.dry else "cuda"
    if options.precision == "fp8" and options.dry:
        parser.error("--precision fp8 needs a GPU")
    if options.gpus < 1 or (options.steps is not None and options.steps < 1):
        parser.error("--gpus and --steps must be 1 or more")
    options.only = options.only or ["cohort", "torch"] + (["llmc"] if options.llmc else [])
    options.cohort, options.llmc = options.cohort.resolve(), options.llmc and options.llmc.resolve()
    if "llmc" in options.only and not (options.llmc and options.llmc.exists()):
        parser.error("llm.c needs --llmc PATH/train_gpt2cu, an existing file")
    if "cohort" in options.only and not options.cohort.exists():
        parser.error(f"{options.cohort} does not exist: build Cohort's cuda preset, or name the binary with --cohort")
    return options


def main():
    options = parse_options()
    cards = card_names(options)
    print("\n".join(cards))
    print(f"MFU = (6 N + 12 L C T) x tokens/s / ({options.gpus} x {options.peak_tflops:g} TFLOP/s)", flush=True)
    rows = []
    for name in options.cases:
        rows.append(compare(options, name))
        print_row(rows[-1])
        if options.json:
            figures = {"cards": cards, "peak_tflops": options.peak_tflops, "rows": rows}
            options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return int(any("error" in result for row in rows for result in row["programs"].values()))


if __name__ == "__main__":
    sys.exit(main())
