#!/usr/bin/env python3
"""Cohort and PyTorch side by side on the CPU: training steps of the same GPT-2, taking turns on the same cores.

  tools/compare_pytorch.py [--rounds 5] [--shape small|tiny|all] [--ranks 2] [--threads 1] [--compile] [--json FILE]

Needs a Python with PyTorch (pip install torch, or Debian's python3-torch with /usr/bin/python3) and a built Cohort (make). Each round
runs PyTorch, then Cohort; the table gives medians over the rounds and, in brackets, smallest and largest. With --ranks 2 a second
table compares PyTorch's DistributedDataParallel over gloo with `mpirun -np 2`, where that PyTorch has it.

A step is: forward, backward, gradient clipping at norm 1, AdamW; fp32, no dropout, random tokens made before the clock starts, GELU
in its tanh form. Both sides take the same untimed steps first, and a run's figure is the median of its steps. GFLOP/s count
6 N + 12 L C T per token, where N is all parameters but the position embeddings, the tied output layer counted once (nanoGPT's
convention). On a machine that others use, compare processor times: a step's seconds also hold the waits for a core.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VOCABULARY = 65
WARM_UP = 5  # untimed steps: allocation, and compilation where there is one

# Timed steps are chosen so that one run takes some seconds on one core.
SHAPES = {
    "small": dict(layers=6, width=384, heads=6, context=256, micro_batch=8, steps=6),
    "tiny": dict(layers=4, width=128, heads=4, context=64, micro_batch=12, steps=100),
}


# ---- PyTorch: the model, and one timed run in a process of its own ----


def build_model(shape):
    import torch
    from torch import nn
    from torch.nn import functional as F

    width, heads, context = shape["width"], shape["heads"], shape["context"]
    fused_attention = hasattr(F, "scaled_dot_product_attention")

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            # No buffer of the module: DDP would send it to the other ranks, and gloo knows no booleans.
            self.future = torch.ones(context, context, dtype=torch.bool).triu(1)

        def forward(self, x):  # x: [B, T, C]
            batch, tokens, _ = x.shape
            q, k, v = (part.view(batch, tokens, heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
            if fused_attention:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                scores = (q * (width // heads) ** -0.5) @ k.transpose(-2, -1)
                y = scores.masked_fill_(self.future[:tokens, :tokens], float("-inf")).softmax(dim=-1) @ v
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
            self.token = nn.Embedding(VOCABULARY, width)
            self.position = nn.Embedding(context, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(shape["layers"])))
            self.norm = nn.LayerNorm(width)
            for parameter in self.parameters():
                if parameter.dim() == 2:
                    nn.init.normal_(parameter, std=0.02)

        def forward(self, tokens, targets):
            x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
            logits = self.norm(self.blocks(x)) @ self.token.weight.T  # tied head
            return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))

    return Gpt2()


def make_optimizer(model):
    """AdamW with weight decay on matrices only; fused where this PyTorch has that for the CPU."""
    import torch

    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    settings = dict(lr=1e-3, betas=(0.9, 0.95))
    try:
        return torch.optim.AdamW(groups, fused=True, **settings), True
    except (TypeError, RuntimeError, ValueError):  # older versions: no such argument, or CUDA only
        return torch.optim.AdamW(groups, **settings), False


def matrix_product_peak():
    """GFLOP/s of the best of several 1024^3 products of this PyTorch."""
    import torch

    n = 1024
    a, b = torch.randn(n, n), torch.randn(n, n)
    best = float("inf")
    for _ in range(8):
        start = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - start)
    return 2 * n**3 / best / 1e9


def torch_worker(shape, rank, ranks, port, compiled, threads):
    """One timed run; rank 0 prints its result as a line of JSON."""
    import torch

    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    torch.manual_seed(rank)
    model = train_model = build_model(shape)
    if ranks > 1:
        torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
        train_model = torch.nn.parallel.DistributedDataParallel(model)
    if compiled:
        train_model = torch.compile(train_model)
    optimizer, fused = make_optimizer(model)

    batches = [torch.randint(VOCABULARY, (shape["micro_batch"], shape["context"] + 1)) for _ in range(WARM_UP + shape["steps"])]

    def step(tokens):
        loss = train_model(tokens[:, :-1], tokens[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    seconds, processor = [], []
    for number, tokens in enumerate(batches):
        if number == WARM_UP and ranks > 1:
            torch.distributed.barrier()
        start, used = time.perf_counter(), time.process_time()
        step(tokens)
        if number >= WARM_UP:
            seconds.append(time.perf_counter() - start)
            processor.append(time.process_time() - used)
    if rank == 0:
        counted = sum(p.numel() for p in model.parameters()) - model.position.weight.numel()
        print(json.dumps({
            "tokens_per_second": ranks * shape["micro_batch"] * shape["context"] / statistics.median(seconds),
            "step_processor_seconds": ranks * statistics.median(processor),
            "gemm_peak_gflops": matrix_product_peak() if ranks == 1 else None,
            "parameters": counted,
            "fused_attention": hasattr(torch.nn.functional, "scaled_dot_product_attention"),
            "fused_adamw": fused,
        }))


# ---- The comparison ----


def with_threads(threads):
    return {**os.environ, **{name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}}


def finish(processes, what):
    """Waits for all, stops with the output if one failed, and returns what the first wrote."""
    outputs = [process.communicate() for process in processes]
    for process, (out, err) in zip(processes, outputs):
        if process.returncode != 0:
            raise SystemExit(f"{what} failed with exit code {process.returncode}:\n{out}{err}")
    return outputs[0][0]


def start(command, threads):
    return subprocess.Popen([str(part) for part in command], env=with_threads(threads), text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run_torch(options, shape, ranks):
    with socket.socket() as probe:  # a free port for the ranks to meet at
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    workers = [start([sys.executable, __file__, "--worker", json.dumps([shape, rank, ranks, port, options.compile, options.threads])],
                     options.threads) for rank in range(ranks)]
    return json.loads(finish(workers, "PyTorch").strip().splitlines()[-1])


def run_cohort(options, shape, ranks):
    command = [options.cohort, "bench", "step", "--model", "gpt2", "--vocabulary", VOCABULARY, "--warm-up", WARM_UP,
               "--threads", options.threads, "--json"]
    for name, value in shape.items():
        command += ["--" + name.replace("_", "-"), value]
    if ranks > 1:
        as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", *as_root, "-np", ranks, *command, "--strategy", "bucketed"]
    output = finish([start(command, options.threads)], "cohort bench step")
    try:
        return json.loads(output)
    except ValueError:
        raise SystemExit(f"cohort bench step --json was to print one JSON object, but printed:\n{output}")


def compare(options, name, ranks):
    """Alternates the two for all rounds; returns the figures of one table row."""
    shape = SHAPES[name]
    runs = {"pytorch": [], "cohort": []}
    for round_number in range(options.rounds):
        runs["pytorch"].append(run_torch(options, shape, ranks))
        runs["cohort"].append(run_cohort(options, shape, ranks))
        print(f"  {name}, {ranks} ranks, round {round_number + 1} of {options.rounds}", file=sys.stderr)
    per_token = 6 * runs["pytorch"][0]["parameters"] + 12 * shape["layers"] * shape["width"] * shape["context"]
    row = {"shape": name, **shape, "ranks": ranks, "threads": options.threads, "flop_per_token": per_token}
    for side in runs:
        speeds = [run["tokens_per_second"] for run in runs[side]]
        median = statistics.median(speeds)
        row[side] = {"tokens_per_second": median, "smallest": min(speeds), "largest": max(speeds), "gflops": median * per_token / 1e9,
                     "step_processor_seconds": statistics.median(run["step_processor_seconds"] for run in runs[side]),
                     "gemm_peak_gflops": max(run.get("gemm_peak_gflops") or 0 for run in runs[side])}
    ratios = [c["tokens_per_second"] / p["tokens_per_second"] for p, c in zip(runs["pytorch"], runs["cohort"])]
    row["ratio"] = {"median": statistics.median(ratios), "smallest": min(ratios), "largest": max(ratios)}
    row["processor_ratio"] = row["pytorch"]["step_processor_seconds"] / row["cohort"]["step_processor_seconds"]
    row["details"] = runs
    return row


def print_row(row):
    print(f"\n{row['shape']}: {row['layers']} layers, width {row['width']}, {row['heads']} heads, T {row['context']}, "
          f"micro-batch {row['micro_batch']}, {row['ranks']} process(es) of {row['threads']} thread(s)")
    print(f"  {'':8} {'tokens/s':>10} {'[min .. max]':>20} {'GFLOP/s':>9} {'GEMM peak':>10} {'processor ms':>13}")
    for side, title in (("pytorch", "PyTorch"), ("cohort", "Cohort")):
        figures = row[side]
        spread = f"[{figures['smallest']:.0f} .. {figures['largest']:.0f}]"
        peak = f"{figures['gemm_peak_gflops']:.1f}" if figures["gemm_peak_gflops"] else "-"
        print(f"  {title:8} {figures['tokens_per_second']:>10.0f} {spread:>20} {figures['gflops']:>9.1f} {peak:>10} "
              f"{1e3 * figures['step_processor_seconds']:>13.1f}")
    ratio = row["ratio"]
    print(f"  Cohort / PyTorch, round by round: {ratio['median']:.2f} [{ratio['smallest']:.2f} .. {ratio['largest']:.2f}]; "
          f"by processor time {row['processor_ratio']:.2f}")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohort", type=Path, default=ROOT / "build/cpu/cohort", help="the binary (default: build/cpu/cohort)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each side (default: 5)")
    parser.add_argument("--shape", choices=[*SHAPES, "all"], default="all")
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2], help="processes; one table for each (default: 1 2)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each process (default: 1)")
    parser.add_argument("--compile", action="store_true", help="PyTorch's side through torch.compile (PyTorch 2)")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)  # how the script starts PyTorch's processes
    return parser.parse_args()


def main():
    options = parse_options()
    if options.worker:
        return torch_worker(*json.loads(options.worker))
    try:
        import torch
    except ImportError:
        raise SystemExit(f"{sys.executable} has no PyTorch. Debian: apt install python3-torch, then run this with /usr/bin/python3")
    if not options.cohort.exists():
        raise SystemExit(f"{options.cohort} does not exist: build Cohort with `make`, or name the binary with --cohort")
    if options.rounds < 1 or options.threads < 1 or min(options.ranks, default=0) < 1:
        raise SystemExit("--rounds, --threads and --ranks must be 1 or more")
    gloo = torch.distributed.is_available() and getattr(torch.distributed, "is_gloo_available", lambda: True)()
    print(f"PyTorch {torch.__version__}, Python {sys.version.split()[0]}, load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    rows = []
    for ranks in options.ranks:
        if ranks > 1 and not gloo:
            print(f"\n{ranks} processes: skipped, since this PyTorch was built without torch.distributed and gloo")
            continue
        for name in SHAPES if options.shape == "all" else [options.shape]:
            rows.append(compare(options, name, ranks))
            print_row(rows[-1])
    if options.json:
        options.json.write_text(json.dumps({"pytorch": torch.__version__, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
