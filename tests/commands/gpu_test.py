"""`cohort train` on GPUs: the losses of the CPU, the same bits again, other devices and types, and what is refused."""

import json
import subprocess
import sys
import tempfile

from launched import Launched
from training import DRIFT, Training

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_gpu_")
training = Training(job, folder.name)
CUDA = {"device__kind": "cuda"}
gpus = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60).stdout.count("GPU ")


def expect_run(name, ranks=0, *more, what=None, **keys):
    outcome = job.run(training.words(name, *more, **keys), ranks)
    job.expect(what or name, outcome, 0, lines=0, seconds=60)
    return [line["loss"] for line in training.metrics(name)]


def furthest(losses, others):
    return max((abs(a - b) / a for a, b in zip(losses, others, strict=True)), default=float("inf"))


# 1. Twenty steps of each model, in each type, against fp32 on the CPU. Heads of 64 so that the kernels for long models are used.
# fp32 differs by the order of its sums: 1e-6 of the loss at first, which twenty steps amplify a hundred times and more. tf32 keeps 10 bits of the operands
# of products, bf16 7 and fp16 10 bits of everything: single numbers err by 2^-11, 2^-9 and 2^-12, a loss over hundreds of tokens less.
tolerances = {"fp32": 1e-3, "tf32": 3e-3, "bf16": 2e-2, "fp16": 5e-3}
for kind in ("gpt2", "llama"):
    text = open(training.run_file, encoding="utf-8").read()
    if kind == "llama":
        text = text.replace('kind = "gpt2"', 'kind = "llama"\nkv_heads = 1').replace("dropout = 0.1\n", "")
    file = training.write(f"{kind}.toml", text)
    # A rate at which training is calm: where losses jump, the smallest difference decides where they land.
    shape = {"train__steps": 20, "model__width": 128, "model__layers": 2, "optimizer__learning_rate": 1e-3}
    cpu = expect_run(f"{kind}-cpu", run_file=file, **shape)
    for policy, tolerance in tolerances.items():
        gpu = expect_run(f"{kind}-{policy}", run_file=file, precision__policy=policy, **shape, **CUDA)
        apart = furthest(cpu, gpu)
        job.check(f"{kind} in {policy}: within {tolerance} of the CPU's losses ({apart:.1e})", apart < tolerance, f"{cpu}\n{gpu}")

# 2. The same bits again, and after a checkpoint; a run of the CPU goes on on a GPU and comes back.
for policy in ("fp32", "bf16", "fp16"):
    keys = {"precision__policy": policy, "checkpoint__every": 20, "train__steps": 40, **CUDA}
    expect_run(f"once-{policy}", **keys)
    expect_run(f"twice-{policy}", **keys)
    job.check(f"{policy}: two runs, the same bits", training.sums(f"once-{policy}", 40) == training.sums(f"twice-{policy}", 40))
    half = {**keys, "train__steps": 20, "schedule__decay_steps": 40}
    expect_run(f"half-{policy}", **half)
    expect_run(f"half-{policy}", 0, "--resume", what=f"half-{policy} goes on", **{**keys, "schedule__decay_steps": 40})
    job.check(f"{policy}: resumed, the same bits", training.sums(f"half-{policy}", 40) == training.sums(f"once-{policy}", 40))
expect_run("moves", train__steps=10, schedule__decay_steps=30)
expect_run("moves", 0, "--resume", what="from the CPU to the GPU", train__steps=20, schedule__decay_steps=30, **CUDA)
expect_run("moves", 0, "--resume", what="and back", train__steps=30)
stayed = expect_run("stayed", train__steps=30)
moved = [line["loss"] for line in training.metrics("moves")]
job.check("a run that moved has the losses of one that stayed", furthest(stayed, moved) < 1e-3, f"{stayed}\n{moved}")

# 3. The other commands.
evaluated = [job.run(["eval", training.path(name)]) for name in ("once-bf16", "stayed")]
for outcome in evaluated:
    job.expect("eval", outcome, 0, lines=0)
job.expect("generate", job.run(["generate", training.path("once-bf16"), "--prompt", "the ", "--tokens", "20"]), 0, lines=0)

# 4. Several GPUs: the losses of one.
if gpus >= 2:
    alone = expect_run("alone", train__steps=20, **CUDA)
    for strategy in ("naive", "hooks", "bucketed"):
        losses = expect_run(f"two-{strategy}", 2, train__steps=20, parallel__data=strategy, **CUDA)
        job.check(f"two GPUs, {strategy}: the losses of one", furthest(alone, losses) < DRIFT, f"{alone}\n{losses}")
    losses = expect_run("two-bf16", 2, train__steps=20, precision__policy="bf16", precision__reduction="compute", **CUDA)
    job.check("two GPUs, all in bf16", furthest(alone, losses) < 2e-2, f"{alone}\n{losses}")

# Ranks that share a GPU because they were asked to.
one = expect_run("one", train__steps=10, **CUDA)
job.expect("two ranks share a GPU", job.run(training.words("sharing", train__steps=10, device__share="true", **CUDA), 2,
                                            CUDA_VISIBLE_DEVICES="0"), 0, lines=0)
shared = [line["loss"] for line in training.metrics("sharing")]
job.check("their losses are those of one rank", furthest(one, shared) < DRIFT, f"{one}\n{shared}")

# 5. What a run says of its GPUs: in metrics, of memory, of NCCL; and the preflight.
ranks = min(2, gpus)
expect_run("watched", ranks, train__steps=6, schedule__decay_steps=6, log__every=2, **CUDA)
told = [line["gpu"] for line in training.metrics("watched") if "gpu" in line]
job.check("metrics know the GPUs of all ranks", told and all(t["ranks"] == ranks and 0 < t["watts"]["mean"] < 2000 and
                                                              t["memory_used_bytes"]["max"] > 1e8 for t in told), told)
with open(training.path("watched/logs/rank_0/train.log"), encoding="utf-8") as log:
    memory = [line for line in log if "of device memory" in line]
# The largest free block is looked for only when memory has run out.
job.check("the log says once where device memory went", len(memory) == 1 and " free; tensors " in memory[0] and
          "activations" in memory[0], memory)
talkative = job.run(training.words("talkative", train__steps=2, schedule__warmup_steps=1, **CUDA), ranks, NCCL_DEBUG="INFO")
job.expect("NCCL_DEBUG", talkative, 0, lines=0)
if ranks == 2:
    for rank in range(ranks):
        with open(training.path(f"talkative/logs/rank_{rank}/nccl.log"), encoding="utf-8") as log:
            job.check(f"rank {rank} has NCCL's messages", "NCCL INFO" in log.read())
    job.check("and the console has none", "NCCL INFO" not in talkative[1] + talkative[2], talkative[1])
code, out, err, _ = job.run(["preflight", "--quick", "--disk", folder.name, "--json"], ranks)
report = json.loads(out)
found = report["nodes"][0]["gpus"]
job.check("preflight sees all GPUs, each once", len({gpu["pci_id"] for gpu in found}) == len(found) == gpus, found)
job.check("and measures them", all(1e9 < gpu["from_device_bytes_per_s"] < 1e12 and 1e11 < gpu["memory_bytes_per_s"] < 2e13 and
                                   not gpu["problem"] for gpu in found), found)
pairs = report["nodes"][0]["gpu_pairs"]
job.check("and their pairs", len(pairs) == gpus * (gpus - 1) and all(pair["bytes_per_s"] > 1e9 for pair in pairs), pairs)
job.check("and NCCL between ranks", ranks == 1 or report["nccl_bus_bytes_per_s"] > 1e9, f"{report['nccl_bus_bytes_per_s']}\n{err}")

# 6. What is refused, in one message.
two_on_one = job.run(training.words("shared", **CUDA), 2, CUDA_VISIBLE_DEVICES="0")
job.expect("two ranks on one GPU", two_on_one, 4, parts=["device.share"], lines=1)
job.expect("no GPU", job.run(training.words("none", **CUDA), CUDA_VISIBLE_DEVICES=""), 4, parts=["CUDA_VISIBLE_DEVICES"], lines=1)
job.expect("a CPU run without a GPU", job.run(training.words("cpu-alone", train__steps=6), CUDA_VISIBLE_DEVICES=""), 0, lines=0)
too_large = job.run(training.words("large", "--set", "model.width=131072", "--set", "model.layers=40", **CUDA))
job.expect("too large for the device", too_large, 10, parts=["optimizer", "activations", "train.micro_batch"], lines=1)
diverged = job.run(training.words("diverged", optimizer__learning_rate=1e6, **CUDA))
job.expect("a loss that is not finite", diverged, 8, parts=["loss", "training has diverged"], lines=1)

job.finish()
