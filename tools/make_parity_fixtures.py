#!/usr/bin/env python3
"""Makes tests/models/fixtures/*.h5: what GPT-2 and Llama of Hugging Face's transformers compute with random weights.

  tools/make_parity_fixtures.py [--out tests/models/fixtures] [--only NAME]

Run it again only to add a case: the files are committed, and tests/models/pytorch_parity_test.cpp compares Cohort with them. It needs
PyTorch, transformers 4.40.2, h5py and numpy. On Debian 12:

  apt install python3-torch python3-venv
  /usr/bin/python3 -m venv --system-site-packages ENVIRONMENT
  ENVIRONMENT/bin/pip install transformers==4.40.2 h5py 'numpy<2'
  ENVIRONMENT/bin/python tools/make_parity_fixtures.py

A file holds numbers under Cohort's names and layouts:

  /weights/NAME    fp32, one dataset per logical parameter: "blocks.0.attention.query.weight" [outputs, inputs]
  /inputs          int32 [samples, tokens]
  /targets         int32 [samples, tokens], -1 where the target counts nothing
  /logits          fp32 [samples, tokens, vocabulary]
  /gradients/NAME  fp32, of the mean loss

Attributes of the file: the [model] section of the run file, `loss` (the mean over the targets that count), `counted` (how many
those are), `made_with` (which classes), and the versions of what computed it.

transformers' own code runs forward and backward in double precision, so that the numbers differ from the truth by the last bit
of fp32. Weights are multiples of 1/128 below 2: exact in fp32, bf16 and fp16 alike, so that a model in any of these types starts
from the same weights; and they compress to a byte. Run again with the same versions, this gives the same bytes.
"""

import argparse
import contextlib
import math
import platform
import warnings
from pathlib import Path
from unittest import mock

import h5py
import numpy
import torch
import transformers

SEED = 1729
GRID = 128  # weights are multiples of 1 / GRID
IGNORED = -1  # target that counts nothing

SMALL = dict(layers=2, width=24, heads=4, kv_heads=4, ffn_width=40, context=12, vocabulary=37, tied_head=True,
             rope_theta=10000.0, norm_epsilon=1e-5, samples=3, tokens=12)

CASES = {
    "gpt2": dict(SMALL, kind="gpt2"),
    # Sizes without a common divisor, samples shorter than the context, an epsilon that shows.
    "gpt2_untied_odd_sizes": dict(SMALL, kind="gpt2", layers=1, width=15, heads=5, kv_heads=5, ffn_width=7, context=9,
                                  vocabulary=11, tied_head=False, norm_epsilon=1e-2, tokens=7),
    "llama_all_kv_heads": dict(SMALL, kind="llama", tied_head=False),
    # A small theta lets the slow pairs turn, too, within a few tokens.
    "llama_grouped": dict(SMALL, kind="llama", kv_heads=2, rope_theta=100.0),
    "llama_one_kv_head_odd_sizes": dict(SMALL, kind="llama", width=18, heads=3, kv_heads=1, ffn_width=7, context=9,
                                        vocabulary=11, tied_head=False, norm_epsilon=1e-2, tokens=7),
    # The head size that GPU kernels are made for, and samples longer than a tile of 64 tokens.
    "llama_head_size_64": dict(SMALL, kind="llama", layers=1, width=128, heads=2, kv_heads=1, ffn_width=48, context=80,
                               vocabulary=24, samples=2, tokens=70),
}


# ---- The models, and where Cohort's parameters lie in them ----


def make_model(case):
    common = dict(vocab_size=case["vocabulary"], tie_word_embeddings=case["tied_head"], attn_implementation="eager",
                  use_cache=False, bos_token_id=0, eos_token_id=0)
    if case["kind"] == "gpt2":
        config = transformers.GPT2Config(
            n_positions=case["context"], n_embd=case["width"], n_layer=case["layers"], n_head=case["heads"],
            n_inner=case["ffn_width"], layer_norm_epsilon=case["norm_epsilon"], activation_function="gelu_new", resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, **common)
        return transformers.GPT2LMHeadModel(config)
    config = transformers.LlamaConfig(
        hidden_size=case["width"], intermediate_size=case["ffn_width"], num_hidden_layers=case["layers"],
        num_attention_heads=case["heads"], num_key_value_heads=case["kv_heads"], max_position_embeddings=case["context"],
        rms_norm_eps=case["norm_epsilon"], rope_theta=case["rope_theta"], hidden_act="silu", **common)
    return transformers.LlamaForCausalLM(config)


def whole(tensor):
    return tensor


def transposed(tensor):
    return tensor.T


def part(index):
    """The index-th of query, key and value, which GPT-2 keeps in one matrix [C, 3C] and one bias [3C]."""

    def cut(tensor):
        third = tensor.chunk(3, dim=-1)[index]
        return third.T if third.dim() == 2 else third

    return cut


def places_of_gpt2(model, case):
    """GPT-2's Conv1D keeps its weights as [inputs, outputs]; Cohort keeps all weights as [outputs, inputs]."""
    body = model.transformer
    places = {"embedding.weight": (body.wte.weight, whole), "positions.weight": (body.wpe.weight, whole)}
    for i, block in enumerate(body.h):
        name = f"blocks.{i}"
        for kind in ("weight", "bias"):
            turned = transposed if kind == "weight" else whole
            places[f"{name}.norm1.{kind}"] = (getattr(block.ln_1, kind), whole)
            for index, projection in enumerate(("query", "key", "value")):
                places[f"{name}.attention.{projection}.{kind}"] = (getattr(block.attn.c_attn, kind), part(index))
            places[f"{name}.attention.output.{kind}"] = (getattr(block.attn.c_proj, kind), turned)
            places[f"{name}.norm2.{kind}"] = (getattr(block.ln_2, kind), whole)
            places[f"{name}.feed_forward.up.{kind}"] = (getattr(block.mlp.c_fc, kind), turned)
            places[f"{name}.feed_forward.down.{kind}"] = (getattr(block.mlp.c_proj, kind), turned)
    places["norm.weight"] = (body.ln_f.weight, whole)
    places["norm.bias"] = (body.ln_f.bias, whole)
    if not case["tied_head"]:
        places["head.weight"] = (model.lm_head.weight, whole)
    return places


def places_of_llama(model, case):
    """The same layouts as Cohort's, the order of the rotary pairs (i, i + head_size / 2) included."""
    body = model.model
    places = {"embedding.weight": (body.embed_tokens.weight, whole)}
    for i, block in enumerate(body.layers):
        attention, feed_forward = block.self_attn, block.mlp
        modules = {"norm1": block.input_layernorm, "attention.query": attention.q_proj, "attention.key": attention.k_proj,
                   "attention.value": attention.v_proj, "attention.output": attention.o_proj,
                   "norm2": block.post_attention_layernorm, "feed_forward.gate": feed_forward.gate_proj,
                   "feed_forward.up": feed_forward.up_proj, "feed_forward.down": feed_forward.down_proj}
        places.update({f"blocks.{i}.{name}.weight": (module.weight, whole) for name, module in modules.items()})
    places["norm.weight"] = (body.norm.weight, whole)
    if not case["tied_head"]:
        places["head.weight"] = (model.lm_head.weight, whole)
    return places


def places_of(model, case):
    """Cohort's name -> (the parameter of transformers, what to cut out of it or of its gradient)."""
    places = places_of_gpt2(model, case) if case["kind"] == "gpt2" else places_of_llama(model, case)
    named, all_elements = sum(cut(p).numel() for p, cut in places.values()), sum(p.numel() for p in model.parameters())
    assert named == all_elements, f"{named} elements have a name in Cohort, the model has {all_elements}"
    return places


# ---- Random weights and batches ----


def random_weight(random, name, shape):
    """Far from initial values: attention looks at some tokens more than at others, non-linearities bend, and a norm weight or a
    bias left out changes the result."""
    matrix = len(shape) == 2
    norm_weight = "norm" in name and name.endswith("weight")
    values = random.normal(size=shape) * (1.2 / math.sqrt(shape[-1]) if matrix else 0.3) + (1.0 if norm_weight else 0.0)
    return numpy.clip(numpy.round(values * GRID), -2 * GRID + 1, 2 * GRID - 1) / GRID


def random_batch(random, case):
    shape = (case["samples"], case["tokens"])
    inputs = random.integers(case["vocabulary"], size=shape, dtype=numpy.int32)
    targets = random.integers(case["vocabulary"], size=shape, dtype=numpy.int32)
    targets[random.random(size=shape) < 0.2] = IGNORED
    return inputs, targets


# ---- Forward and backward ----


@contextlib.contextmanager
def all_in_double():
    """transformers computes norms, softmax, rotary angles and the logits in float32 whatever the type of the weights. Here what
    it calls float32 is double."""
    with mock.patch.object(torch, "float32", torch.float64), mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
        yield


def run(case, weights, inputs, targets, dtype):
    model = make_model(case).to(dtype).eval()
    places = places_of(model, case)
    with torch.no_grad():
        for name, (parameter, cut) in places.items():
            cut(parameter).copy_(torch.from_numpy(weights[name]))
    logits = model(input_ids=torch.from_numpy(inputs).long()).logits
    flat_targets = torch.from_numpy(targets).long().flatten()
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), flat_targets, ignore_index=IGNORED)
    loss.backward()
    gradients = {name: cut(parameter.grad).detach().numpy() for name, (parameter, cut) in places.items()}
    return logits.detach().numpy(), loss.item(), gradients


def check_double(double, single):
    """The results in double are those of the unchanged classes in float32, but for rounding."""
    for (name, a), (_, b) in zip([("logits", double[0]), *double[2].items()], [("logits", single[0]), *single[2].items()]):
        assert a.dtype == numpy.float64 and b.dtype == numpy.float32, f"{name}: {a.dtype} and {b.dtype}"
        numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5, err_msg=name)


# ---- The file ----


def write(path, case, weights, inputs, targets, results):
    logits, loss, gradients = results
    # The format of Cohort's own files, so that any HDF5 from 1.8 on reads it; no times: the same numbers give the same bytes.
    with h5py.File(path, "w", libver=("v108", "v108")) as file:

        def put(name, values):
            # A compressed dataset has an index of 2 KiB: not worth it for a small one.
            options = dict(compression="gzip", compression_opts=9, shuffle=True) if values.nbytes >= 4096 else {}
            file.create_dataset(name, data=values, track_times=False, **options)

        for key in ("layers", "width", "heads", "kv_heads", "ffn_width", "context", "vocabulary"):
            file.attrs[key] = numpy.int64(case[key])
        file.attrs["tied_head"] = numpy.int64(case["tied_head"])
        for key in ("rope_theta", "norm_epsilon"):
            file.attrs[key] = numpy.float64(case[key])
        file.attrs["loss"] = numpy.float64(loss)
        file.attrs["counted"] = numpy.int64((targets != IGNORED).sum())
        classes = "GPT2LMHeadModel" if case["kind"] == "gpt2" else "LlamaForCausalLM"
        texts = dict(kind=case["kind"], made_with=f"transformers {classes}, in double precision", seed=str(SEED),
                     torch=torch.__version__, transformers=transformers.__version__, numpy=numpy.__version__,
                     h5py=h5py.__version__, python=platform.python_version())
        for key, text in texts.items():
            file.attrs[key] = numpy.bytes_(text)
        put("inputs", inputs)
        put("targets", targets)
        put("logits", logits.astype(numpy.float32))
        for name in weights:
            put(f"weights/{name}", weights[name].astype(numpy.float32))
            put(f"gradients/{name}", gradients[name].astype(numpy.float32))


def make(path, case, number):
    random = numpy.random.default_rng([SEED, number])
    names = places_of(make_model(case), case)
    weights = {name: random_weight(random, name, tuple(cut(p).shape)) for name, (p, cut) in names.items()}
    inputs, targets = random_batch(random, case)
    single = run(case, weights, inputs, targets, torch.float32)
    with all_in_double():
        results = run(case, weights, inputs, targets, torch.float64)
    check_double(results, single)
    write(path, case, weights, inputs, targets, results)
    print(f"{path}: {sum(w.size for w in weights.values())} parameters, loss {results[1]:.6f}, {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[1] / "tests/models/fixtures")
    parser.add_argument("--only", choices=CASES, help="make only this case")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for number, (name, case) in enumerate(CASES.items()):
        if arguments.only in (None, name):
            make(arguments.out / f"{name}.h5", case, number)


if __name__ == "__main__":
    main()
