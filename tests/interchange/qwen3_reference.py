"""Qwen3 in PyTorch, for the tests: transformers has it only since 4.51, and the tests must not need that. Written from the technical
report and from what its config.json says; tensors have the names that transformers gives them."""

import json
import os
import types

import torch
from safetensors.torch import load_file, save_file
from torch import nn


def rms_norm(x, weight, epsilon):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


class RmsNorm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        return rms_norm(x, self.weight, self.epsilon)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        size = c.head_dim
        self.q_proj = nn.Linear(c.hidden_size, c.num_attention_heads * size, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * size, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * size, bias=False)
        self.o_proj = nn.Linear(c.num_attention_heads * size, c.hidden_size, bias=False)
        self.q_norm, self.k_norm = RmsNorm(size, c.rms_norm_eps), RmsNorm(size, c.rms_norm_eps)

    def heads(self, x):  # [B, T, heads * size] to [B, heads, T, size]
        return x.reshape(*x.shape[:2], -1, self.c.head_dim).transpose(1, 2)

    def rotated(self, x):
        half = self.c.head_dim // 2
        speeds = self.c.rope_theta ** (-torch.arange(half) / half)
        angles = torch.arange(x.shape[2])[:, None] * speeds
        low, high = x[..., :half], x[..., half:]
        return torch.cat([low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()], dim=-1)

    def forward(self, x):
        query = self.rotated(self.q_norm(self.heads(self.q_proj(x))))
        key = self.rotated(self.k_norm(self.heads(self.k_proj(x))))
        value = self.heads(self.v_proj(x))
        group = self.c.num_attention_heads // self.c.num_key_value_heads
        key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
        scores = query @ key.transpose(2, 3) * self.c.head_dim**-0.5
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        out = scores.masked_fill(future, float("-inf")).softmax(-1) @ value
        return self.o_proj(out.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attn, self.mlp = Attention(c), FeedForward(c)
        self.input_layernorm = RmsNorm(c.hidden_size, c.rms_norm_eps)
        self.post_attention_layernorm = RmsNorm(c.hidden_size, c.rms_norm_eps)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Qwen3(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = c = types.SimpleNamespace(**config)
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.model.layers = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))
        self.model.norm = RmsNorm(c.hidden_size, c.rms_norm_eps)
        self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        if c.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, tokens):
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x)
        return types.SimpleNamespace(logits=self.lm_head(self.model.norm(x)))

    def save_pretrained(self, folder, max_shard_size=None):
        """One file, whatever its size."""
        os.makedirs(folder)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(vars(self.config), file)
        tensors = {name: tensor.contiguous() for name, tensor in self.state_dict().items()}
        if self.config.tie_word_embeddings:
            del tensors["lm_head.weight"]
        save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def config_of(folder):
    with open(os.path.join(folder, "config.json")) as file:
        return json.load(file)


def load(folder):
    """The model, and the names of tensors that are missing or nobody's, as transformers reports them."""
    model = Qwen3(config_of(folder))
    weights = {}
    for name in os.listdir(folder):
        if name.endswith(".safetensors"):
            weights.update(load_file(os.path.join(folder, name)))
    if model.config.tie_word_embeddings:
        weights.setdefault("lm_head.weight", weights["model.embed_tokens.weight"])
    missing, unexpected = model.load_state_dict(weights, strict=False)
    return model, {"missing_keys": missing, "unexpected_keys": unexpected}
