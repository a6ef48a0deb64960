#!/usr/bin/env python3
"""PyTorch's side of compare_gpu.py and compare_scaling.py, which start it: one timed run of one model, in one process for each GPU.

  compare_gpu_torch.py SETTINGS      SETTINGS: JSON with case, device, compile, warm_up_steps, launched (time of the start) and, for
                                     several GPUs, strategy: ddp (the default) or fsdp2; precision: bf16 (the default) or fp8

GPT-2 and a Llama-style model as plain PyTorch writes them: fp32 weights, bf16 by autocast, attention by
scaled_dot_product_attention. fp8: the linear layers of the blocks by torchao's tensorwise recipe, or, where there is no torchao,
by torch._scaled_mm in the same way. Shapes in the comments: batch B, tokens T, width C, head size D.
"""

import contextlib
import json
import os
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

# ---- The models ----


def build_gpt2(case):
    width, heads, vocabulary = case["width"], case["heads"], case["padded_vocabulary"]

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
    width, heads, kv_heads, vocabulary = case["width"], case["heads"], case["kv_heads"], case["padded_vocabulary"]
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


# ---- 8 bits ----


def round_to_fp8(x, dtype):
    """x in 8 bits by a scale of its own, and what the codes are to be multiplied by."""
    largest = torch.finfo(dtype).max
    scale = largest / x.abs().amax().float().clamp(min=1e-12)
    return (x.float() * scale).clamp(-largest, largest).to(dtype), scale.reciprocal()


class Fp8Product(torch.autograd.Function):
    """x W^T: x [R, K], W [N, K]. torch._scaled_mm takes its second operand by columns."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        (x8, of_x), (w8, of_w) = (round_to_fp8(one, torch.float8_e4m3fn) for one in (x, weight))
        return torch._scaled_mm(x8, w8.t(), scale_a=of_x, scale_b=of_w, out_dtype=x.dtype, use_fast_accum=True)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dy8, of_dy = round_to_fp8(dy, torch.float8_e5m2)
        (x8, of_x), (w8, of_w) = (round_to_fp8(one, torch.float8_e4m3fn) for one in (x, weight))
        dx = torch._scaled_mm(dy8, w8.t().contiguous().t(), scale_a=of_dy, scale_b=of_w, out_dtype=dy.dtype)
        dw = torch._scaled_mm(dy8.t().contiguous(), x8.t().contiguous().t(), scale_a=of_dy, scale_b=of_x, out_dtype=dy.dtype)
        return dx, dw


class Fp8Linear(nn.Linear):
    def forward(self, x):  # x: [B, T, K]
        product = Fp8Product.apply(x.reshape(-1, x.shape[-1]).bfloat16(), self.weight.bfloat16())
        return (product if self.bias is None else product + self.bias.bfloat16()).view(*x.shape[:-1], -1)


def use_fp8(blocks):
    """Their linear layers multiply in 8 bits from now on. Says by what."""
    try:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    except ImportError:
        for module in blocks.modules():
            if type(module) is nn.Linear:
                module.__class__ = Fp8Linear
        return "torch._scaled_mm"
    convert_to_float8_training(blocks, config=Float8LinearConfig.from_recipe_name("tensorwise"))
    return "torchao, tensorwise"


# ---- A training step ----


def shard_model(model, device):
    """FSDP2: each block is a unit, and what is left; computed in bf16, gradients reduced in fp32."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if device.type == "cuda" else MixedPrecisionPolicy()
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def prepare_model(case, device, compiled, ranks, strategy, precision):
    """The bare module, and what to call: compiled and, on several GPUs, averaging gradients."""
    with device:  # initial values are made on the GPU: a billion of them take long on the host
        model = build_gpt2(case) if case["kind"] == "gpt2" else build_llama(case)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.02)
    if precision == "fp8":
        print(f"8 bits by {use_fp8(model.blocks)}", file=sys.stderr)
    if ranks > 1 and strategy == "fsdp2":
        shard_model(model, device)
        if compiled:
            for block in model.blocks:
                block.compile()  # as torchtitan does: hooks of a unit stay outside of the compiled graph
        return model, model
    train_model = torch.compile(model) if compiled else model
    if ranks > 1:
        # static_graph: every micro-batch uses the same parameters. DDP learns it in the first backward, which must communicate.
        train_model = nn.parallel.DistributedDataParallel(
            train_model, device_ids=[device] if device.type == "cuda" else None, broadcast_buffers=False,
            gradient_as_bucket_view=True, static_graph=True)
    return model, train_model


def make_optimizer(model):
    """Fused AdamW with weight decay on matrices only."""
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), fused=True)


def make_step(case, device, compiled, ranks, strategy, precision):
    """The function that takes one training step, and the number of parameters."""
    model, train_model = prepare_model(case, device, compiled, ranks, strategy, precision)
    optimizer = make_optimizer(model)
    tokens = torch.randint(case["vocabulary"], (case["micro_batch"], case["context"] + 1), device=device)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step(first=False):
        for micro_step in range(case["accumulation"]):
            communicates = first or micro_step + 1 == case["accumulation"]
            with contextlib.nullcontext() if ranks == 1 or communicates or strategy == "fsdp2" else train_model.no_sync():
                with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):  # many CPUs have no bf16
                    loss = train_model(inputs, targets) / case["accumulation"]
                loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach() * case["accumulation"]

    return step, sum(p.numel() for p in model.parameters())


# ---- One timed run ----


def run(settings):
    """Rank 0 prints the result as a line of JSON. `torchrun` sets the variables if there are several ranks."""
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

    step, parameters = make_step(case, device, settings["compile"], ranks, settings.get("strategy", "ddp"),
                                 settings.get("precision", "bf16"))
    first_loss = step(first=True).item()
    wait()
    first_step_seconds = time.time() - settings["launched"]
    for _ in range(settings["warm_up_steps"]):
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


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
