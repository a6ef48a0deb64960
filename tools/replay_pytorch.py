#!/usr/bin/env python3
"""Replays a run of `cohort train` in PyTorch, step by step, and compares losses, gradient norms and weights.

  tools/replay_pytorch.py [--kind llama] [--layers 2 ...]                      a small model on the CPU
  tools/replay_pytorch.py --gpt2-124m --cohort build/cuda/cohort --device cuda --precisions fp32 tf32 bf16

transformers makes a model with random weights; `cohort ckpt import` and `cohort train` train it on one rank, with accumulation,
clipping, warm-up and weight decay. transformers, torch.optim.AdamW and clip_grad_norm_ then take the same steps, on the samples
that the rank's log names, and `cohort ckpt export` gives the weights to compare after some of them. Exits with 1 if a number is
beyond its bound. Needs torch 1.13 or newer, transformers 4.40 or newer, h5py, safetensors (tools/python-environment; on a GPU a
PyTorch for it), and a built Cohort.

Bounds. Both sides compute in the same precision and add in different orders. Losses: LOSS. Norms, relative: NORM. A weight may be
off by what rounding can make of AdamW. With e, the error of a gradient, its update u = m/(sqrt(v) + epsilon) changes by at most

    du = e (1 + |u|) / (sqrt(v) + epsilon)   (m and sqrt(v) are means: neither changes by more than e),

and by no more than 2 U, where U = (1 - beta1) / sqrt((1 - beta2) (1 - beta1^2 / beta2)), 1.2 here, is the largest that an
update can be (Cauchy-Schwarz). The allowance is the sum of rate * du over the steps. e is ERROR times the largest gradient of the
same tensor, or times a tenth of the largest of all, since a gradient that is the difference of large terms is only as exact as
they are. (The bias of keys, which softmax cancels, has gradients of nothing but rounding: AdamW makes whole steps of them.)
"""

import argparse
import contextlib
import dataclasses
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
warnings.filterwarnings("ignore")

import h5py
import numpy
import torch
import transformers

ROOT = Path(__file__).resolve().parents[1]

# In fp32 sums of some hundred terms differ by a few 1e-7 of the largest; AdamW carries that on, so that weights, and with them
# gradients, part slowly: after 50 steps of these small models losses are off by 1e-6. A tf32 operand has 10 bits after the
# leading one and a bf16 one 7: products err by 5e-4 and 4e-3, sums of them by less.
LOSS = {"fp32": 5e-6, "tf32": 5e-3, "bf16": 5e-2}
NORM = {"fp32": 1e-4, "tf32": 2e-2, "bf16": 1e-1}
ERROR = {"fp32": 1e-5, "tf32": 2e-3, "bf16": 2e-2}


@dataclasses.dataclass
class Case:
    """A run: the model, and how it is trained."""
    kind: str = "gpt2"
    layers: int = 2
    width: int = 64
    heads: int = 4
    kv_heads: int = 2  # llama
    context: int = 32
    vocabulary: int = 260
    tied: bool = True
    steps: int = 50
    micro_batch: int = 2
    accumulation: int = 2
    clip_norm: float = 0.5
    learning_rate: float = 1e-3
    warmup: int = 0
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.1
    final_fraction: float = 0.1
    weights_after: tuple = (1, 10)  # steps whose weights are compared: more than the warm-up

    @property
    def global_batch(self):
        return self.micro_batch * self.accumulation

    @property
    def largest_update(self):
        return (1.0 - self.beta1) / math.sqrt((1.0 - self.beta2) * (1.0 - self.beta1**2 / self.beta2))

    def rate(self, step):  # 0 is the first
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        share = 0.5 * (1.0 + math.cos(math.pi * (step - self.warmup) / (self.steps - self.warmup)))
        return self.learning_rate * (self.final_fraction + (1.0 - self.final_fraction) * share)


def make_model(case):
    """transformers' own random weights."""
    torch.manual_seed(1729)
    common = dict(vocab_size=case.vocabulary, tie_word_embeddings=case.tied, bos_token_id=0, eos_token_id=0)
    if case.kind == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            n_layer=case.layers, n_embd=case.width, n_head=case.heads, n_positions=case.context, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, **common))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        num_hidden_layers=case.layers, hidden_size=case.width, intermediate_size=3 * case.width, num_attention_heads=case.heads,
        num_key_value_heads=case.kv_heads, max_position_embeddings=case.context, rms_norm_eps=1e-5, **common))


class Run:
    """A run of Cohort in a folder of its own, and what it left there."""

    def __init__(self, cohort, folder, case, precision="fp32", device="cpu"):
        self.program, self.folder, self.case = str(cohort), Path(folder), case
        text, self.tokens = self.folder / "text.txt", self.folder / "tokens.h5"
        kibibytes = 64 + case.steps * case.global_batch * case.context // 1024  # no sample comes again
        self.cohort("data", "synth", "stories", "--out", text, "--bytes", f"{kibibytes}KiB", "--seed", 7)
        self.cohort("data", "prepare", "--input", text, "--out", self.tokens, "--tokenizer", "byte")
        make_model(case).save_pretrained(self.folder / "start_hf")
        run_file = self.folder / "run.toml"
        self.cohort("ckpt", "import", self.folder / "start_hf", "--out", self.folder / "start", "--run-file", run_file, "--tokens",
                    self.tokens)
        keys = {
            "train.micro_batch": case.micro_batch, "train.global_batch": case.global_batch, "train.clip_norm": case.clip_norm,
            "train.validate_every": 0, "train.validation_samples": 1,
            "optimizer.learning_rate": case.learning_rate, "optimizer.beta1": case.beta1, "optimizer.beta2": case.beta2,
            "optimizer.epsilon": case.epsilon, "optimizer.weight_decay": case.weight_decay,
            "schedule.kind": "cosine", "schedule.warmup_steps": case.warmup, "schedule.decay_steps": case.steps,
            "schedule.final_fraction": case.final_fraction,
            "log.level": "debug", "sample.tokens": 0, "device.kind": device, "precision.policy": precision,
        }
        self.train("run", {**keys, "train.steps": case.steps, "checkpoint.at_end": "false"})
        # The same run again, ended earlier: one layout has the same bits in every run.
        for steps in case.weights_after:
            self.train(f"after_{steps}", {**keys, "train.steps": steps})
            self.cohort("ckpt", "export", self.folder / f"after_{steps}", "--out", self.folder / f"hf_after_{steps}")

    def cohort(self, *words):
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"cohort {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def train(self, name, keys):
        overrides = [f"{key}={value}" for key, value in {"run.directory": self.folder / name, **keys}.items()]
        self.cohort("train", self.folder / "run.toml", *[word for text in overrides for word in ("--set", text)])

    def metrics(self):
        with open(self.folder / "run" / "metrics.jsonl", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def samples(self):
        """[steps][global batch] as the log names them, in the order of their use."""
        text = (self.folder / "run" / "logs" / "rank_0" / "train.log").read_text(encoding="utf-8")
        named = [[int(word) for word in words.split()] for words in re.findall(r": step \d+ loss .* samples ([\d ]+)$", text, re.M)]
        assert len(named) == self.case.steps and all(len(ids) == self.case.global_batch for ids in named), \
            "the log does not name all samples of each step (it names 16 at most)"
        return named

    def batch(self, ids):
        """Inputs and targets [samples, context] of these samples: sample i begins at token i * context."""
        with h5py.File(self.tokens) as file:
            tokens = file["train"]
            rows = [tokens[i * self.case.context:(i + 1) * self.case.context + 1].astype(numpy.int64) for i in ids]
        rows = torch.tensor(numpy.stack(rows))
        return rows[:, :-1], rows[:, 1:]

    def weights_after(self, steps):
        return dict(load(self.folder / f"hf_after_{steps}").named_parameters())


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder).float()


class Replay:
    """The same steps in PyTorch. `case` may differ from the run's, to see that the comparison notices."""

    def __init__(self, run, case, precision, device):
        self.run, self.case, self.precision, self.device = run, case, precision, torch.device(device)
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        self.model = load(run.folder / "start_hf").to(self.device).train()
        self.names = {name: p for name, p in self.model.named_parameters()}
        decays = [p for p in self.names.values() if p.dim() > 1]
        others = [p for p in self.names.values() if p.dim() <= 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": decays, "weight_decay": case.weight_decay}, {"params": others, "weight_decay": 0.0}],
            lr=case.learning_rate, betas=(case.beta1, case.beta2), eps=case.epsilon)
        self.allowed = {name: torch.zeros_like(p) for name, p in self.names.items()}

    def losses(self, ids):
        """Backward of the mean loss, micro-batch by micro-batch; returns that mean."""
        case, total = self.case, 0.0
        for begin in range(0, len(ids), case.micro_batch):
            inputs, targets = (part.to(self.device) for part in self.run.batch(ids[begin:begin + case.micro_batch]))
            narrow = torch.autocast(self.device.type, torch.bfloat16) if self.precision == "bf16" else contextlib.nullcontext()
            with narrow:
                logits = self.model(inputs).logits
            loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="sum")
            loss = loss / (len(ids) * case.context)
            loss.backward()
            total += loss.item()
        return total

    def step(self, number, ids):
        """Loss, norm and rate of a step; 0 is the first."""
        rate = self.case.rate(number)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.losses(ids)
        # With the double-precision sum that the norm deserves; clipped by the same rule.
        norm = math.sqrt(sum(float(p.grad.double().pow(2).sum()) for p in self.names.values()))
        if self.case.clip_norm > 0.0 and norm > self.case.clip_norm:
            for p in self.names.values():
                p.grad.mul_(self.case.clip_norm / norm)
        self.optimizer.step()
        self.allow(number, rate)
        return loss, norm, rate

    @torch.no_grad()
    def allow(self, number, rate):
        largest = {name: p.grad.abs().max() for name, p in self.names.items()}
        floor = 0.1 * max(largest.values())
        for name, p in self.names.items():
            state = self.optimizer.state[p]
            size = (state["exp_avg_sq"] / (1.0 - self.case.beta2**(number + 1))).sqrt() + self.case.epsilon
            update = state["exp_avg"] / (1.0 - self.case.beta1**(number + 1)) / size
            error = ERROR[self.precision] * torch.maximum(largest[name], floor)
            self.allowed[name] += rate * torch.clamp(error * (1.0 + update.abs()) / size, max=2.0 * self.case.largest_update)


@dataclasses.dataclass
class Differences:
    """At worst over the steps; weights after each of case.weights_after, as a share of their allowance."""
    loss: float = 0.0
    norm: float = 0.0
    rate: float = 0.0
    weights: dict = dataclasses.field(default_factory=dict)  # {steps: share of the allowance}
    plain: dict = dataclasses.field(default_factory=dict)    # {steps: largest difference}

    def failures(self, precision):
        found = []
        if not self.loss <= LOSS[precision]:
            found.append(f"losses differ by {self.loss:.1e}, allowed {LOSS[precision]:.0e}")
        if not self.norm <= NORM[precision]:
            found.append(f"norms differ by {self.norm:.1e}, allowed {NORM[precision]:.0e}")
        if not self.rate <= 1e-9:
            found.append(f"learning rates differ by {self.rate:.1e}")
        found += [f"weights after {steps} steps differ by {share:.1f} times the allowance"
                  for steps, share in self.weights.items() if not share <= 1.0]
        return found


@torch.no_grad()
def compare_weights(replay, steps, found):
    theirs = replay.run.weights_after(steps)
    share = plain = 0.0
    for name, p in replay.names.items():
        difference = (p.detach().cpu() - theirs[name]).abs()
        # Storing a weight rounds it by 2^-24 of its size, on both sides and at each step.
        allowed = replay.allowed[name].cpu() + 2.0**-23 * steps * theirs[name].abs()
        share = max(share, float((difference / allowed.clamp(min=1e-12)).max()))
        plain = max(plain, float(difference.max()))
    found.weights[steps], found.plain[steps] = share, plain


def replay(run, case=None, precision="fp32", device="cpu"):
    """Differences of the run from its replay."""
    case = case or run.case
    again, found = Replay(run, case, precision, device), Differences()
    for number, (line, ids) in enumerate(zip(run.metrics(), run.samples(), strict=True)):
        loss, norm, rate = again.step(number, ids)
        found.loss = max(found.loss, abs(loss - line["loss"]))
        found.norm = max(found.norm, abs(norm - line["gradient_norm"]) / norm)
        found.rate = max(found.rate, abs(rate - line["learning_rate"]))
        if number + 1 in run.case.weights_after:
            compare_weights(again, number + 1, found)
    return found


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohort", default=ROOT / "build/cpu/cohort", help="the program (build/cpu/cohort)")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precisions", nargs="+", default=["fp32"], choices=list(LOSS))
    parser.add_argument("--gpt2-124m", action="store_true", help="12 layers, width 768, context 1024, 50,257 rows")
    parser.add_argument("--folder", help="keep the runs there [a temporary folder]")
    for field in dataclasses.fields(Case):
        if field.type in ("int", "float", "str") or field.type in (int, float, str):
            kind = field.type if isinstance(field.type, type) else {"int": int, "float": float, "str": str}[field.type]
            parser.add_argument("--" + field.name.replace("_", "-"), type=kind)
    parser.add_argument("--untied", action="store_true")
    return parser.parse_args(words)


def case_of(options):
    values = {}
    if options.gpt2_124m:
        values = dict(layers=12, width=768, heads=12, context=1024, vocabulary=50257, micro_batch=4, accumulation=4, clip_norm=1.0,
                      learning_rate=6e-5)  # at 6e-4 the rows that stand for no text make training jump, and what was rounding grows
    for field in dataclasses.fields(Case):
        if (value := getattr(options, field.name, None)) is not None:
            values[field.name] = value
    if options.untied:
        values["tied"] = False
    case = Case(**values)
    return dataclasses.replace(case, weights_after=tuple(n for n in case.weights_after if case.warmup < n <= case.steps))


def main(words):
    options = parse(words)
    case = case_of(options)
    print(f"PyTorch {torch.__version__}, transformers {transformers.__version__}, {options.device}; {case}", flush=True)
    failed = False
    for precision in options.precisions:
        with contextlib.ExitStack() as stack:
            folder = Path(options.folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="cohort_replay_"))) / precision
            folder.mkdir(parents=True)
            run = Run(options.cohort, folder, case, precision, options.device)
            found = replay(run, precision=precision, device=options.device)
            weights = ", ".join(f"after {n} steps {found.plain[n]:.1e} ({share:.2f} of the allowance)"
                                for n, share in found.weights.items())
            print(f"{precision}: {case.steps} steps; losses differ by at most {found.loss:.1e} (allowed {LOSS[precision]:.0e}), "
                  f"norms by {found.norm:.1e} ({NORM[precision]:.0e}); weights {weights}", flush=True)
            for failure in found.failures(precision):
                print(f"  FAILED: {failure}")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
