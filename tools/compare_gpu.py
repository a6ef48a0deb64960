#!/usr/bin/env python3
"""Cohort, compiled PyTorch and llm.c on the same GPUs: training steps of the same models, one program after the other.

  tools/compare_gpu.py [--cases NAME ...] [--gpus 1] [--only cohort torch llmc] [--llmc PATH/train_gpt2cu] [--json FILE]

Needs NVIDIA GPUs, a Python with PyTorch 2.4 or newer and Cohort's CUDA build; llm.c only if its program is named. Each program runs in
a process of its own (one for each GPU), so that it starts with an empty GPU. A case takes about a minute and a half, most of it torch.compile.

A step is: forward and backward of all micro-batches, gradient clipping at norm 1, AdamW; bf16 arithmetic with fp32 master weights, no
dropout, random tokens. PyTorch's side is plain PyTorch in this file: torch.compile, scaled_dot_product_attention, autocast, fused
AdamW, TF32 allowed, vocabulary padded to a multiple of 64; on several GPUs DistributedDataParallel. Cohort's side is `cohort bench step`.
With --gpus N each GPU does what it does alone, so a step has N times the tokens.

Figures: tokens/s over all GPUs from the median step. MFU is (6 N + 12 L C T) x tokens/s over --peak-tflops x GPUs, where N is all
parameters but the position embeddings, a tied output layer and padding not counted. First step: seconds from the start of the process
to the end of its first step, for Cohort as it reports it, since the command began. Later runs of torch.compile find the first one's cache;
TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 shows the time without.
"""

import argparse
import array
import contextlib
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
PART_SECONDS = 300  # a program that takes longer hangs

SHAPES = {
    "gpt2-124m": dict(kind="gpt2", layers=12, width=768, heads=12, context=1024, vocabulary=50257),
    "gpt2-774m": dict(kind="gpt2", layers=36, width=1280, heads=20, context=1024, vocabulary=50257),
    "llama-1b": dict(kind="llama", layers=16, width=2048, heads=32, kv_heads=8, ffn_width=8192, context=2048, vocabulary=32000),
}

# Named after micro-batch x accumulation on each GPU. Timed steps are chosen so that they take 5 to 20 seconds.
CASES = {
    "gpt2-124m-64x8": dict(shape="gpt2-124m", micro_batch=64, accumulation=8, steps=10),
    "gpt2-124m-32x1": dict(shape="gpt2-124m", micro_batch=32, accumulation=1, steps=80),
    "gpt2-774m-16x8": dict(shape="gpt2-774m", micro_batch=16, accumulation=8, steps=10),
    "llama-1b-8x1": dict(shape="llama-1b", micro_batch=8, accumulation=1, steps=40),
    "llama-1b-16x1": dict(shape="llama-1b", micro_batch=16, accumulation=1, steps=20),
}


# ---- The models ----


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


def build_gpt2(case):
    import torch
    from torch import nn
    from torch.nn import functional as F

    width, heads, vocabulary = case["width"], case["heads"], padded_vocabulary(case)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)

        def forward(self, x):  # x: [B, T, C]
            batch, tokens, _ = x.shape
            q, k, v = (part.view(batch, tokens, heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(batch, tokens, width))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.attention = nn.LayerNorm(width), Attention()
            self.norm2 = nn.LayerNorm(width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(vocabulary, width)
            self.position = nn.Embedding(case["context"], width)
            self.blocks = nn.ModuleList(Block() for _ in range(case["layers"]))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)
            self.head.weight = self.token.weight  # tied

        def forward(self, tokens, targets):
            x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy(self.head(self.norm(x)).view(-1, vocabulary), targets.view(-1))

    return Gpt2()


def build_llama(case):
    import torch
    from torch import nn
    from torch.nn import functional as F

    width, heads, kv_heads, vocabulary = case["width"], case["heads"], case["kv_heads"], padded_vocabulary(case)
    head_size = width // heads
    grouped = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 5)  # attention knows grouped queries

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * head_size, bias=False)
            self.out = nn.Linear(width, width, bias=False)

        def forward(self, x, cos, sin):  # x: [B, T, C]; cos, sin: [T, D / 2]
            def rotate(part):
                first, second = part.float().chunk(2, dim=-1)
                return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(part.dtype)

            batch, tokens, _ = x.shape
            q, k, v = self.qkv(x).view(batch, tokens, -1, head_size).transpose(1, 2).split((heads, kv_heads, kv_heads), dim=1)
            q, k = rotate(q), rotate(k)
            if grouped:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            else:
                k, v = (part.repeat_interleave(heads // kv_heads, dim=1) for part in (k, v))
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(batch, tokens, width))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.attention = nn.RMSNorm(width, eps=1e-5), Attention()
            self.norm2 = nn.RMSNorm(width, eps=1e-5)
            self.gate = nn.Linear(width, case["ffn_width"], bias=False)
            self.up = nn.Linear(width, case["ffn_width"], bias=False)
            self.down = nn.Linear(case["ffn_width"], width, bias=False)

        def forward(self, x, cos, sin):
            x = x + self.attention(self.norm1(x), cos, sin)
            h = self.norm2(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(vocabulary, width)
            self.blocks = nn.ModuleList(Block() for _ in range(case["layers"]))
            self.norm = nn.RMSNorm(width, eps=1e-5)
            self.head = nn.Linear(width, vocabulary, bias=False)
            frequency = 10000.0 ** (-torch.arange(0, head_size, 2).float() / head_size)
            angle = torch.outer(torch.arange(case["context"]).float(), frequency)
            self.register_buffer("cos", angle.cos(), persistent=False)
            self.register_buffer("sin", angle.sin(), persistent=False)

        def forward(self, tokens, targets):
            x = self.token(tokens)
            for block in self.blocks:
                x = block(x, self.cos, self.sin)
            return F.cross_entropy(self.head(self.norm(x)).view(-1, vocabulary), targets.view(-1))

    return Llama()


# ---- PyTorch: one timed run in processes of its own ----


def prepare_model(case, device, compiled, ranks):
    """The bare module, and what to call: compiled and, on several GPUs, averaging gradients."""
    import torch
    from torch import nn

    with device:  # initial values are made on the GPU: a billion of them take long on the host
        model = build_gpt2(case) if case["kind"] == "gpt2" else build_llama(case)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.02)
    train_model = torch.compile(model) if compiled else model
    if ranks > 1:
        # The bound methods of a module that DDP wraps keep their graph from step to step, so it need not search for unused parameters.
        train_model = nn.parallel.DistributedDataParallel(
            train_model, device_ids=[device] if device.type == "cuda" else None, broadcast_buffers=False,
            gradient_as_bucket_view=True, static_graph=True)
    return model, train_model


def make_optimizer(model):
    """Fused AdamW with weight decay on matrices only."""
    import torch

    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), fused=True)


def make_step(case, device, compiled, ranks):
    """The function that takes one training step, and the number of parameters."""
    import torch

    model, train_model = prepare_model(case, device, compiled, ranks)
    optimizer = make_optimizer(model)
    tokens = torch.randint(case["vocabulary"], (case["micro_batch"], case["context"] + 1), device=device)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step():
        for micro_step in range(case["accumulation"]):
            last = micro_step + 1 == case["accumulation"]
            with contextlib.nullcontext() if ranks == 1 or last else train_model.no_sync():
                with torch.autocast(device.type, dtype=torch.bfloat16):
                    loss = train_model(inputs, targets) / case["accumulation"]
                loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach() * case["accumulation"]

    return step, sum(p.numel() for p in model.parameters())


def torch_worker(settings):
    """One timed run; rank 0 prints its result as a line of JSON. `torchrun` sets the variables if there are several ranks."""
    import torch

    case, cuda = settings["case"], settings["device"] == "cuda"
    rank, local_rank, ranks = (int(os.environ.get(name, default)) for name, default in
                               (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1)))
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
        torch.set_float32_matmul_precision("high")  # TF32
        torch.backends.cuda.enable_math_sdp(False)  # an error rather than attention without a fused kernel
    torch.manual_seed(1 + rank)
    if ranks > 1:
        torch.distributed.init_process_group("nccl" if cuda else "gloo")
    wait = torch.cuda.synchronize if cuda else lambda: None

    def mark():
        if not cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    step, parameters = make_step(case, device, settings["compile"], ranks)
    first_loss = step().item()
    wait()
    first_step_seconds = time.time() - settings["launched"]
    for _ in range(WARM_UP_STEPS):
        step()
    wait()
    marks = [mark()]
    for _ in range(case["steps"]):
        loss = step()
        marks.append(mark())  # the GPU notes the time when it gets there; the host does not wait
    wait()
    times = [begin.elapsed_time(end) * 1e-3 if cuda else end - begin for begin, end in zip(marks, marks[1:])]
    if rank == 0:
        print(json.dumps({
            "step_seconds": statistics.median(times),
            "step_seconds_best": min(times),
            "first_step_seconds": first_step_seconds,
            "gpu_bytes": torch.cuda.max_memory_allocated() if cuda else None,
            "parameters": parameters,
            "first_loss": first_loss,
            "last_loss": loss.item(),
            "version": torch.__version__,
        }))
    if ranks > 1:
        torch.distributed.destroy_process_group()


# ---- Starting the programs ----


class PartFailed(Exception):
    """One program gave no figure; the others go on."""


def run(command, what):
    """What the command writes to its standard output."""
    process = subprocess.Popen([str(part) for part in command], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = process.communicate(timeout=PART_SECONDS)
    except BaseException as error:  # too long, or the user stops the script: mpirun and torchrun take their children along
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise PartFailed(f"{what} had not ended after {PART_SECONDS} s")
        raise
    if process.returncode != 0:
        raise PartFailed(f"{what} failed with exit code {process.returncode}:\n" + "\n".join((out + err).strip().splitlines()[-25:]))
    return out


def last_json(output, what):
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise PartFailed(f"{what} was to print a line of JSON, but printed:\n{output}")


def mpirun(options, command):
    if options.gpus == 1:
        return command
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", "--bind-to", "none", *as_root, *options.mpirun, "-np", options.gpus, *command]


def run_cohort(options, case):
    command = [options.cohort, "bench", "step", "--device", options.device, "--precision", "bf16" if options.device == "cuda" else "fp32",
               "--shape", case["shape"], "--micro-batch", case["micro_batch"], "--accumulation", case["accumulation"],
               "--steps", case["steps"], "--json"]
    if options.gpus > 1:
        command += ["--strategy", "bucketed"]
    for name, value in DRY_SHAPE.items() if options.dry else ():
        command += ["--" + name, value]
    result = last_json(run(mpirun(options, command + options.cohort_flags), "cohort bench step"), "cohort bench step --json")
    return {"expected_flops": result["flops_per_token"], **result}


def run_torch(options, case):
    settings = {"case": case, "device": options.device, "compile": not options.no_compile, "launched": time.time()}
    launcher = [sys.executable]
    if options.gpus > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.gpus}"]
    result = last_json(run([*launcher, __file__, "--worker", json.dumps(settings)], "PyTorch"), "PyTorch")
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
    """llm.c has GPT-2 only. It evaluates and samples after the last step whatever its options say: as little as it allows."""
    tokens = options.gpus * case["micro_batch"] * case["accumulation"] * case["context"]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "tokens.bin"
        write_llmc_tokens(data)
        command = [options.llmc, "-i", data, "-j", data, "-e", f"d{case['layers']}", "-b", case["micro_batch"], "-t", case["context"],
                   "-d", tokens, "-x", 1 + WARM_UP_STEPS + case["steps"], "-l", "0.0001", "-c", "0.1", "-z", int(options.gpus > 1),
                   "-v", 100000, "-m", 1, "-s", 100000, "-g", 1, *options.llmc_flags]
        output = run(mpirun(options, command), "llm.c")
    times = [1e-3 * float(found) for found in re.findall(r"^step\s+\d+/\d+ .*?([0-9.]+) ms", output, re.MULTILINE)]
    if len(times) != 1 + WARM_UP_STEPS + case["steps"]:
        raise PartFailed(f"llm.c was to print {1 + WARM_UP_STEPS + case['steps']} steps, but printed:\n{output}")
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
    row = {"case": name, **case, "gpus": options.gpus, "tokens_per_step": tokens, "flops_per_token": flops_per_token(case), "programs": {}}
    for program in options.only:
        if program == "llmc" and case["kind"] != "gpt2":
            continue
        begin = time.time()
        try:
            result = RUNNERS[program](options, case)
            # Padding of the vocabulary is less than a thousandth.
            if abs(result.pop("expected_flops", row["flops_per_token"]) / row["flops_per_token"] - 1) > 1e-3:
                raise PartFailed(f"{TITLES[program]} trained another model: its parameters do not match the shape's")
            result["tokens_per_second"] = tokens / result["step_seconds"]
            result["mfu"] = result["tokens_per_second"] * row["flops_per_token"] / (options.peak_tflops * 1e12 * options.gpus)
        except PartFailed as error:
            result = {"error": str(error)}
        row["programs"][program] = {**result, "part_seconds": time.time() - begin}
    return row


def print_row(row):
    print(f"\n{row['case']}: {row['layers']} layers, width {row['width']}, T {row['context']}, {row['tokens_per_step']:,} tokens a step, "
          f"{parameter_count(row) / 1e6:.0f} M parameters counted")
    print(f"  {'':8} {'tokens/s':>10} {'ms/step':>9} {'best':>9} {'MFU':>7} {'first step':>11} {'GPU memory':>11} {'Cohort / this':>14}")
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
        return ["CPU"]
    if not shutil.which("nvidia-smi"):
        return ["unknown card, no nvidia-smi"]
    query = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"],
                           text=True, stdout=subprocess.PIPE, check=False)
    return query.stdout.strip().splitlines()[: options.gpus] or ["unknown card, nvidia-smi failed"]


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="NAME",
                        help=f"which to run (default: all): {', '.join(CASES)}")
    parser.add_argument("--only", nargs="+", choices=TITLES, metavar="PROGRAM", help="cohort, torch, llmc (default: all that are there)")
    parser.add_argument("--gpus", type=int, default=1, help="GPUs of this machine to use (default: 1)")
    parser.add_argument("--steps", type=int, help="timed steps (default: as many as take some seconds)")
    parser.add_argument("--cohort", type=Path, default=ROOT / "build/cuda/cohort", help="the binary (default: build/cuda/cohort)")
    parser.add_argument("--cohort-flags", type=shlex.split, default=[], metavar="FLAGS", help="more flags of cohort bench step, one text")
    parser.add_argument("--llmc", type=Path, help="llm.c's train_gpt2cu, built with cuDNN for its best speed and with MPI for several GPUs")
    parser.add_argument("--llmc-flags", type=shlex.split, default=[], metavar="FLAGS", help="more flags of train_gpt2cu, one text")
    parser.add_argument("--mpirun", type=shlex.split, default=[], metavar="FLAGS", help="more flags of mpirun, one text")
    parser.add_argument("--no-compile", action="store_true", help="PyTorch without torch.compile")
    parser.add_argument("--peak-tflops", type=float, default=989.0, help="one GPU's dense bf16 peak (default: 989, H100 and H200 SXM)")
    parser.add_argument("--dry", action="store_true", help="tiny models on the CPU: checks this script without a GPU, measures nothing")
    parser.add_argument("--json", type=Path, help="also write all figures to this file, after each case")
    parser.add_argument("--worker", help=argparse.SUPPRESS)  # how the script starts PyTorch's processes
    options = parser.parse_args()
    options.device = "cpu" if options.dry else "cuda"
    if options.worker:
        return options
    if options.gpus < 1 or (options.steps is not None and options.steps < 1):
        parser.error("--gpus and --steps must be 1 or more")
    options.only = options.only or ["cohort", "torch"] + (["llmc"] if options.llmc else [])
    if "llmc" in options.only and not (options.llmc and options.llmc.exists()):
        parser.error("llm.c needs --llmc PATH/train_gpt2cu")
    if "cohort" in options.only and not options.cohort.exists():
        parser.error(f"{options.cohort} does not exist: build Cohort's cuda preset, or name the binary with --cohort")
    return options


def main():
    options = parse_options()
    if options.worker:
        return torch_worker(json.loads(options.worker))
    cards = card_names(options)
    print(f"{options.gpus} x {cards[0]} (name, driver, highest clock, power limit)" if options.device == "cuda" else "CPU, tiny models")
    print(f"MFU = (6 N + 12 L C T) tokens/s / ({options.peak_tflops:g} TFLOP/s x {options.gpus}); T and micro-batches are each GPU's own")
    rows = []
    for name in options.cases:
        rows.append(compare(options, name))
        print_row(rows[-1])
        if options.json:
            options.json.write_text(json.dumps({"cards": cards, "peak_tflops": options.peak_tflops, "rows": rows}, indent=2) + "\n")
    return int(any("error" in result for row in rows for result in row["programs"].values()))


if __name__ == "__main__":
    sys.exit(main())
