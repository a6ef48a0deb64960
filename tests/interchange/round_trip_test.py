"""Cohort's checkpoints and transformers' models, there and back: round_trip_test.py COHORT LOGITS_OF_RUN

Needs torch, transformers, safetensors, numpy and h5py (tools/python-environment). Models are random, and bent: large weights,
biases and norms away from their initial values, so that every mistake in a name or a layout shows in the logits."""

import json
import os
import subprocess
import sys
import tempfile
import warnings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
warnings.filterwarnings("ignore")

import h5py
import numpy
import torch
import transformers
from safetensors.torch import load_file, save_file

import qwen3_reference

COHORT, LOGITS_OF_RUN = sys.argv[1:]
CONTEXT, VOCABULARY = 16, 260  # the vocabulary is larger than the byte tokenizer's, as where it is padded
# Both sides compute in fp32 and add in different orders: some ten operations that each err by about 1e-6 of the largest logit.
LOGIT_ERROR = 1e-5
# A target's loss is a difference of logits, of size 10 here; the mean errs less. Relative to the loss.
LOSS_ERROR = 1e-5

RUN_FILE = """\
[model]
kind = "{kind}"
layers = 2
width = 32
heads = 4
context = 16
vocabulary = 260
ffn_width = 56
init_std = 0.3
{keys}
[data]
tokens = "{tokens}"
[train]
steps = 3
micro_batch = 2
[optimizer]
learning_rate = 0.1
[schedule]
kind = "constant"
[sample]
tokens = 0
"""
OURS = {
    "gpt2_tied": ("gpt2", "tied_head = true\ndropout = 0.1\nnorm_epsilon = 1e-3"),
    "gpt2_untied": ("gpt2", "tied_head = false"),
    "llama_grouped_untied": ("llama", "kv_heads = 2\ntied_head = false\nrope_theta = 100.0\nnorm_epsilon = 1e-3"),
    "llama_tied": ("llama", "tied_head = true"),
    "qwen3_grouped_untied": ("qwen3", "head_size = 10\nkv_heads = 2\ntied_head = false\nrope_theta = 100.0\nnorm_epsilon = 1e-3"),
    "qwen3_tied": ("qwen3", "tied_head = true"),
}
failures = 0


def check(what, condition, detail=""):
    global failures
    print(("ok      " if condition else "FAILED  ") + what + (f" ({detail})" if detail else ""), flush=True)
    failures += 0 if condition else 1


def cohort(*words):
    done = subprocess.run([COHORT, *map(str, words)], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"cohort {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def our_logits(run, tokens):
    done = subprocess.run([LOGITS_OF_RUN, run], input=" ".join(map(str, tokens)), capture_output=True, text=True, check=True)
    return torch.tensor([[float(x) for x in line.split()] for line in done.stdout.splitlines()])


def difference(ours, model, tokens):
    """The largest difference of logits, relative to the largest logit."""
    with torch.no_grad():
        theirs = model(torch.tensor([tokens])).logits[0]
    return float((ours - theirs).abs().max() / theirs.abs().max())


def their_tokens(model, prompt, count):
    """The likeliest tokens, of those that the byte tokenizer has, by a whole pass for each."""
    tokens = list(prompt)
    for _ in range(count):
        with torch.no_grad():
            tokens.append(int(model(torch.tensor([tokens])).logits[0, -1, :256].argmax()))
    return tokens[len(prompt):]


def load(folder):
    if qwen3_reference.config_of(folder)["model_type"] == "qwen3":
        model, report = qwen3_reference.load(folder)
        return model.float().eval(), report
    model, report = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    return model.float().eval(), report


class Folder:
    def __init__(self, folder):
        self.folder = folder
        with open(self / "text.txt", "wb") as file:
            file.write(numpy.random.default_rng(7).integers(0, 256, 3000, dtype=numpy.uint8).tobytes())
        self.tokens = self / "tokens.h5"
        cohort("data", "prepare", "--input", self / "text.txt", "--out", self.tokens, "--tokenizer", "byte",
               "--validation", "0.2")
        with h5py.File(self.tokens) as file:
            self.validation = file["validation"][:].astype(numpy.int64)

    def __truediv__(self, name):
        return os.path.join(self.folder, name)

    def train(self, name):
        kind, keys = OURS[name]
        with open(self / f"{name}.toml", "w", encoding="utf-8") as file:
            file.write(RUN_FILE.format(kind=kind, keys=keys, tokens=self.tokens))
        cohort("train", self / f"{name}.toml", "--set", f"run.directory={self / name}")
        return self / name

    def their_loss(self, model):
        """The mean loss over all windows of the validation split, as `cohort eval` has it."""
        samples = (len(self.validation) - 1) // CONTEXT
        inputs = torch.tensor(self.validation[:samples * CONTEXT]).reshape(samples, CONTEXT)
        targets = torch.tensor(self.validation[1:samples * CONTEXT + 1])
        with torch.no_grad():
            logits = model(inputs).logits.reshape(-1, VOCABULARY)
        return float(torch.nn.functional.cross_entropy(logits, targets))

    def our_loss(self, run):
        return json.loads(cohort("eval", run, "--tokens", self.tokens, "--json"))["validation_loss"]


def planted_mistakes(model):
    """The weights of a model with one mistake each: what the comparison of logits must reject."""
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def changed(name, tensor):
        return {**weights, name: tensor}

    if model.config.model_type == "gpt2":
        fused, square = "transformer.h.1.attn.c_attn.weight", "transformer.h.0.attn.c_proj.weight"
        query, key, value = weights[fused].chunk(3, dim=1)
        yield "a matrix that is not transposed", changed(square, weights[square].T.contiguous())
        yield "query and key in the wrong order", changed(fused, torch.cat([key, query, value], dim=1))
        yield "query, key and value of each head side by side", changed(
            fused, torch.stack([part.reshape(32, 4, 8) for part in (query, key, value)], dim=2).reshape(32, 96))
        bias = "transformer.h.0.attn.c_attn.bias"
        yield "a bias left out", changed(bias, torch.zeros_like(weights[bias]))
    else:
        query, key = (f"model.layers.0.self_attn.{part}_proj.weight" for part in "qk")
        half = model.config.head_dim // 2 if model.config.model_type == "qwen3" else 4
        neighbours = {name: weights[name].reshape(-1, 2, half, 32).transpose(1, 2).reshape(-1, 32) for name in (query, key)}
        yield "rotary pairs of neighbours", {**weights, **neighbours}
        gate, up = (f"model.layers.1.mlp.{part}_proj.weight" for part in ("gate", "up"))
        yield "gate and up in the wrong order", {**weights, gate: weights[up], up: weights[gate]}
    if model.config.model_type == "qwen3":
        query, key = (f"model.layers.0.self_attn.{part}_norm.weight" for part in "qk")
        yield "the norms of queries and keys in the wrong order", {**weights, query: weights[key], key: weights[query]}
        yield "keys that are not normalised by their own weight", changed(key, torch.ones_like(weights[key]))


def test_export(folder, name):
    run, out = folder.train(name), folder / f"{name}.hf"
    cohort("ckpt", "export", run, "--out", out)
    model, report = load(out)
    problems = report if any(report.values()) else ""
    check(f"{name}: transformers finds every tensor and no other", not problems, problems)
    tokens = [int(token) for token in folder.validation[:CONTEXT]]
    ours = our_logits(run, tokens)
    error = difference(ours, model, tokens)
    check(f"{name}: the logits of transformers", error <= LOGIT_ERROR, f"{error:.1e}")
    texts = cohort("generate", run, "--prompt", "abc", "--tokens", CONTEXT - 3, "--temperature", 0, "--json")
    check(f"{name}: the likeliest tokens of transformers", json.loads(texts)["tokens"] == their_tokens(model, b"abc", CONTEXT - 3), texts)
    ours_loss, theirs_loss = folder.our_loss(run), folder.their_loss(model)
    check(f"{name}: the loss of transformers", abs(ours_loss - theirs_loss) <= LOSS_ERROR * theirs_loss,
          f"{ours_loss:.7f}, {theirs_loss:.7f}")
    for what, weights in planted_mistakes(model):
        model.load_state_dict(weights)
        error = difference(ours, model, tokens)
        check(f"{name}: {what} is rejected", error > 100 * LOGIT_ERROR, f"{error:.1e}")
    return run, out


def test_back(folder, name, run, out):
    """Weights survive the way there and back bit for bit, in both formats."""
    cohort("ckpt", "export", run, "--out", folder / "plain", "--format", "safetensors", "--overwrite")
    for source in (out, folder / "plain"):
        back = folder / f"{name}.back"
        cohort("ckpt", "import", source, "--out", back, "--overwrite")
        cohort("ckpt", "export", back, "--out", folder / "plain_again", "--format", "safetensors", "--overwrite")
        same = bytes_of(folder / "plain/model.safetensors") == bytes_of(folder / "plain_again/model.safetensors")
        check(f"{name}: imported from {os.path.basename(source)}, every bit is the same", same)


def bend(model):
    generator = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def their_models():
    torch.manual_seed(3)
    common = {"vocab_size": VOCABULARY, "initializer_range": 0.2}
    gpt2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT, "layer_norm_epsilon": 1e-3, **common}
    llama = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40,
             "max_position_embeddings": CONTEXT, **common}
    yield "their gpt2", transformers.GPT2LMHeadModel(transformers.GPT2Config(**gpt2))
    yield "their untied gpt2", transformers.GPT2LMHeadModel(
        transformers.GPT2Config(tie_word_embeddings=False, n_inner=24, **gpt2))
    yield "their grouped llama", transformers.LlamaForCausalLM(
        transformers.LlamaConfig(num_key_value_heads=2, rope_theta=50.0, rms_norm_eps=1e-3, **llama))
    yield "their tied llama", transformers.LlamaForCausalLM(
        transformers.LlamaConfig(num_key_value_heads=1, tie_word_embeddings=True, **llama))
    qwen3 = {"model_type": "qwen3", **llama, "num_key_value_heads": 2, "head_dim": 12, "rms_norm_eps": 1e-3, "rope_theta": 50.0,
             "hidden_act": "silu", "use_sliding_window": False, "layer_types": ["full_attention"] * 2}
    yield "their qwen3", qwen3_reference.Qwen3({**qwen3, "tie_word_embeddings": False})
    yield "their tied qwen3", qwen3_reference.Qwen3({**qwen3, "tie_word_embeddings": True})


def test_import(folder, name, model):
    forms = [("one file", "5GB"), ("shards", "20KB")]
    for form, shard in forms[:1] if isinstance(model, qwen3_reference.Qwen3) else forms:
        saved, run = folder / f"{name} {form}", folder / f"{name} {form} run"
        model.save_pretrained(saved, max_shard_size=shard)
        check(f"{name}, {form}: saved so", os.path.exists(os.path.join(saved, "model.safetensors")) == (form == "one file"))
        cohort("ckpt", "import", saved, "--out", run)
        ours, theirs = folder.our_loss(run), folder.their_loss(model)
        check(f"{name}, {form}: the same loss", abs(ours - theirs) <= LOSS_ERROR * theirs, f"{ours:.7f}, {theirs:.7f}")
    # ... and out again, in shards, as transformers reads them.
    cohort("ckpt", "export", run, "--out", folder / f"{name} again", "--shard-size", "20KB")
    again, _ = load(folder / f"{name} again")
    state = again.state_dict()
    check(f"{name}: imported and exported in shards, every bit is the same",
          all(torch.equal(tensor, state[key]) for key, tensor in model.state_dict().items()))


LONG = 512
# What a user may expect of logits: 1e-4 of the largest, at the first position and at the last of a long sample. Angles of rotary
# positions are rounded by transformers in fp32: 1e-5 at position 500.
LONG_ERROR = 1e-4


def long_models():
    llama = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40, "vocab_size": VOCABULARY,
             "max_position_embeddings": LONG, "num_key_value_heads": 2, "initializer_range": 0.2}
    scaling = {"llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 64},
               "linear": {"type": "linear", "factor": 4.0}}
    torch.manual_seed(4)
    yield "long gpt2", transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, n_positions=LONG, vocab_size=VOCABULARY, initializer_range=0.2))
    for name, rope in (("long llama", None), *((f"long llama, {name}", rope) for name, rope in scaling.items())):
        yield name, transformers.LlamaForCausalLM(transformers.LlamaConfig(rope_scaling=rope, **llama))


def test_long(folder, name, model):
    """Logits all along a long sample, and the ids of greedy decoding, of an imported model and of what is exported again."""
    saved, run, again = folder / name, folder / f"{name} run", folder / f"{name} again"
    model.save_pretrained(saved)
    cohort("ckpt", "import", saved, "--out", run)
    tokens = [int(token) for token in folder.validation[:LONG]]
    ours = our_logits(run, tokens)
    error = difference(ours, model, tokens)
    check(f"{name}: logits at all {LONG} positions", error <= LONG_ERROR, f"{error:.1e}")
    cohort("ckpt", "export", run, "--out", again)
    exported, _ = load(again)
    error = difference(ours, exported, tokens)
    check(f"{name}: exported again, the same logits", error <= LONG_ERROR, f"{error:.1e}")
    if model.config.model_type == "llama" and model.config.rope_scaling:
        exported.model.rotary_emb = load(folder / "long llama")[0].model.rotary_emb
        for layer in exported.model.layers:
            layer.self_attn.rotary_emb = exported.model.rotary_emb
        error = difference(ours, exported, tokens)
        check(f"{name}: positions without scaling are rejected", error > 100 * LONG_ERROR, f"{error:.1e}")
    prompt, count = b"Once upon a time", 40
    text = subprocess.run([COHORT, "generate", run, "--prompt", prompt, "--tokens", str(count), "--temperature", "0",
                           "--tokens-file", folder.tokens], capture_output=True, check=True, timeout=60).stdout
    ids = model.generate(torch.tensor([list(prompt)]), max_new_tokens=count, do_sample=False, pad_token_id=0, eos_token_id=None,
                         suppress_tokens=list(range(256, VOCABULARY)))[0]
    check(f"{name}: greedy decoding gives the ids of transformers", list(text[:-1]) == ids.tolist(),
              "" if list(text[:-1]) == ids.tolist() else f"{list(text[:-1])}, {ids.tolist()}")


def test_rounding(folder):
    """Sixteen bits as torch rounds them, ties, the smallest and the largest numbers among them."""
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=40, max_position_embeddings=CONTEXT,
        vocab_size=VOCABULARY))
    model.save_pretrained(folder / "rounding")
    path = folder / "rounding/model.safetensors"
    weights = load_file(path)
    embedding = weights["model.embed_tokens.weight"]
    count = embedding.numel()
    bits = numpy.random.default_rng(11).integers(0, 2**32, count, dtype=numpy.uint64).astype(numpy.uint32)
    bits[: count // 2] = bits[: count // 2] & 0xFFFF0000 | 0x8000  # halfway between two numbers of bf16
    bits[count // 2: count // 4 * 3] &= 0x807FFFFF  # no exponent: the smallest
    values = torch.from_numpy(bits.view(numpy.float32).copy())
    values[~(values.abs() < 1e37)] = -0.0  # what bf16 rounds to infinity is refused
    save_file({**weights, "model.embed_tokens.weight": values.reshape(embedding.shape)}, path, metadata={"format": "pt"})
    cohort("ckpt", "import", folder / "rounding", "--out", folder / "rounding run")
    weights = load_file(path)
    cohort("ckpt", "export", folder / "rounding run", "--out", folder / "rounding bf16", "--dtype", "bf16")
    exported = load_file(folder / "rounding bf16/model.safetensors")
    same = all(torch.equal(exported[name].view(torch.int16), tensor.bfloat16().view(torch.int16))
               for name, tensor in weights.items())
    check("bf16 is rounded as torch does, bit for bit", same and len(exported) == len(weights))
    done = subprocess.run([COHORT, "ckpt", "export", folder / "rounding run", "--out", folder / "fp16", "--dtype", "fp16"],
                          capture_output=True, text=True)
    check("weights too large for fp16 are refused", done.returncode == 6 and "too large for fp16" in done.stderr)


def test_half(folder, run):
    """fp16 of ordinary weights, and both types imported: 16 bits are exact in fp32."""
    wide, half = folder / "half.wide", folder / "half.fp16"
    cohort("ckpt", "export", run, "--out", wide)
    cohort("ckpt", "export", run, "--out", half, "--dtype", "fp16")
    wide, exported = load_file(wide + "/model.safetensors"), load_file(half + "/model.safetensors")
    check("fp16 is rounded as torch does, bit for bit",
          all(torch.equal(exported[name], tensor.half()) for name, tensor in wide.items()))
    cohort("ckpt", "import", half, "--out", folder / "half run")
    cohort("ckpt", "export", folder / "half run", "--out", folder / "half again", "--dtype", "fp16")
    check("fp16 imported and exported is the same file",
          bytes_of(half + "/model.safetensors") == bytes_of(folder / "half again/model.safetensors"))


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Folder(temporary)
        for name in OURS:
            run, out = test_export(folder, name)
            test_back(folder, name, run, out)
        test_half(folder, run)
        for name, model in their_models():
            test_import(folder, name, bend(model))
        for name, model in long_models():
            test_long(folder, name, bend(model))
        test_rounding(folder)
    sys.exit(1 if failures else 0)


main()
