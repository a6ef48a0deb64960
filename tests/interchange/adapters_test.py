"""Adapters against h5py, safetensors, torch and peft: adapters_test.py COHORT

Merged weights are W + alpha / r B A, computed again here; exported adapters, joined by hand to the model in transformers' form, give
the merged model; and read back they are what they were."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
warnings.filterwarnings("ignore")

import h5py
import numpy
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

COHORT = sys.argv[1]
RANK, ALPHA = 3, 12.0
MODELS = {
    "gpt2": ("gpt2", "tied_head = true", "*"),
    "gpt2_some": ("gpt2", "tied_head = false", "*.query.weight, *.value.weight, blocks.1.feed_forward.up.weight"),
    "llama": ("llama", "kv_heads = 2\ntied_head = false", "*"),
    "llama_some": ("llama", "tied_head = true", "*.query.weight,*.value.weight"),
    "qwen3": ("qwen3", "head_size = 10\nkv_heads = 2\ntied_head = true", "*.gate.weight,*.output.weight"),
}
RUN_FILE = """\
[model]
kind = "{kind}"
layers = 2
width = 32
heads = 4
context = 16
ffn_width = 56
init_std = 0.3
{keys}
[data]
tokens = "tokens.h5"
[train]
steps = 4
micro_batch = 2
[optimizer]
learning_rate = 0.05
[schedule]
kind = "constant"
[sample]
tokens = 0
"""

failures = 0


def check(what, condition, detail=""):
    global failures
    print(("ok      " if condition else "FAILED  ") + what)
    if not condition:
        failures += 1
        print("   ", detail)


def cohort(*words, code=0):
    done = subprocess.run([COHORT, *words], capture_output=True, text=True, timeout=120)
    if done.returncode != code:
        check(" ".join(words), False, f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def weights_of(run):
    """All of /model, by name."""
    folder = os.path.join(run, "checkpoints")
    newest = sorted(name for name in os.listdir(folder) if name.startswith("step_"))[-1]
    found = {}
    with h5py.File(os.path.join(folder, newest, "model.h5")) as file:
        file["model"].visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return found


def distance(a, b):
    return float(numpy.abs(numpy.asarray(a, numpy.float64) - numpy.asarray(b, numpy.float64)).max())


def joined(base, adapters, config):
    """transformers' weights with PEFT's adapters folded in."""
    weights = dict(base)
    for name, a in adapters.items():
        if not name.endswith(".lora_A.weight"):
            continue
        module = name[len("base_model.model."):-len(".lora_A.weight")]
        b = adapters[name.replace("lora_A", "lora_B")]
        rank = config["rank_pattern"].get(module, config["r"])
        alpha = config["alpha_pattern"].get(module, config["lora_alpha"])
        assert module in config["target_modules"] and tuple(a.shape)[0] == rank == tuple(b.shape)[1], name
        change = alpha / rank * (b.double() @ a.double())
        weight = weights[module + ".weight"]
        weights[module + ".weight"] = (weight.double() + (change.T if config["fan_in_fan_out"] else change)).float()
    return weights


def logits_of(model):
    ids = torch.arange(48).reshape(3, 16) * 5 % 250
    with torch.no_grad():
        return model.eval()(ids).logits.double().numpy()


def try_model(name, kind, keys, targets):
    with open(name + ".toml", "w") as file:
        file.write(RUN_FILE.format(kind=kind, keys=keys))
    base, run, whole, again = f"runs/{name}_base", f"runs/{name}", f"runs/{name}_merged", f"runs/{name}_again"
    cohort("train", name + ".toml", "--set", f"run.name={name}_base")
    cohort("train", name + ".toml", "--set", f"run.name={name}", "--set", f"run.initial_checkpoint={base}", "--set", f"lora.rank={RANK}",
           "--set", f"lora.alpha={ALPHA}", "--set", f"lora.targets={targets}")
    cohort("ckpt", "merge", run, "--out", whole)
    ours, merged = weights_of(run), weights_of(whole)
    adapted = [key[:-len("/lora_a")] for key in ours if key.endswith("/lora_a")]
    check(f"{name}: adapters learned", adapted and all(numpy.abs(ours[layer + "/lora_b"]).max() > 1e-3 for layer in adapted))
    check(f"{name}: merged has the weights of the base model", set(merged) == {key for key in ours if "/lora_" not in key} == set(weights_of(base)))
    for key, value in merged.items():
        wanted = numpy.asarray(ours[key], numpy.float64)
        layer = key[:-len("/weight")]
        if layer in adapted:
            wanted = wanted + ALPHA / RANK * numpy.asarray(ours[layer + "/lora_b"], numpy.float64) @ ours[layer + "/lora_a"]
        if distance(value, wanted) > 1e-6:
            check(f"{name}: {key} is W + s B A", False, distance(value, wanted))
    for what, source in (("base", base), ("merged", whole), ("folded", run)):
        cohort("ckpt", "export", source, "--out", f"{name}_hf_{what}")
    cohort("ckpt", "export", run, "--out", f"{name}_peft", "--format", "peft")
    base_hf, merged_hf = load_file(f"{name}_hf_base/model.safetensors"), load_file(f"{name}_hf_merged/model.safetensors")
    folded = load_file(f"{name}_hf_folded/model.safetensors")
    check(f"{name}: the export of a run with adapters is that of the merged one",
          all(torch.equal(folded[key], merged_hf[key]) for key in merged_hf) and set(folded) == set(merged_hf))
    with open(f"{name}_peft/adapter_config.json") as file:
        config = json.load(file)
    adapters = load_file(f"{name}_peft/adapter_model.safetensors")
    by_hand = joined(base_hf, adapters, config)
    check(f"{name}: PEFT's adapters joined to the base model give the merged one",
          all(distance(by_hand[key], merged_hf[key]) < 1e-5 for key in merged_hf) and any(distance(base_hf[k], merged_hf[k]) > 1e-3 for k in base_hf))
    if kind != "qwen3":  # which this transformers does not know
        wanted = logits_of(transformers.AutoModelForCausalLM.from_pretrained(f"{name}_hf_merged"))
        model = peft.PeftModel.from_pretrained(transformers.AutoModelForCausalLM.from_pretrained(f"{name}_hf_base"), f"{name}_peft")
        apart = distance(logits_of(model), wanted)
        check(f"{name}: peft has the logits of the merged model ({apart:.1e} apart)", apart <= 1e-4)
        peft_round_trip(name, kind, base)
    cohort("ckpt", "import", f"{name}_peft", "--base", base, "--out", again)
    cohort("ckpt", "merge", again, "--out", again + "_merged")
    back = weights_of(again + "_merged")
    check(f"{name}: adapters that are read back give the same model", all(distance(back[key], merged[key]) < 1e-5 for key in merged))


def peft_round_trip(name, kind, base):
    """What peft writes, with another rank for some modules, is read."""
    config = peft.LoraConfig(r=4, lora_alpha=10, target_modules=["c_attn", "c_fc"] if kind == "gpt2" else ["q_proj", "down_proj"],
                             rank_pattern={"c_fc": 2, "down_proj": 2}, task_type="CAUSAL_LM", init_lora_weights=False)
    theirs = peft.get_peft_model(transformers.AutoModelForCausalLM.from_pretrained(f"{name}_hf_base"), config)
    theirs.save_pretrained(f"{name}_theirs")
    cohort("ckpt", "import", f"{name}_theirs", "--base", base, "--out", f"runs/{name}_theirs")
    cohort("ckpt", "export", f"runs/{name}_theirs", "--out", f"{name}_theirs_hf")
    apart = distance(logits_of(transformers.AutoModelForCausalLM.from_pretrained(f"{name}_theirs_hf")), logits_of(theirs))
    check(f"{name}: adapters of peft have its logits here ({apart:.1e} apart)", apart <= 1e-4)


def refuse(what, parts, change=None, tensors=None):
    shutil.copytree("llama_peft", "bad", dirs_exist_ok=True)
    if change:
        with open("bad/adapter_config.json") as file:
            config = json.load(file)
        config.update(change)
        with open("bad/adapter_config.json", "w") as file:
            json.dump(config, file)
    if tensors:
        save_file(tensors(load_file("bad/adapter_model.safetensors")), "bad/adapter_model.safetensors")
    said = cohort("ckpt", "import", "bad", "--base", "runs/llama_base", "--out", "runs/none", code=6)
    check(f"refused: {what}", all(part in said for part in parts) and not os.path.exists("runs/none"), said)


with tempfile.TemporaryDirectory(prefix="cohort_adapters_") as folder:
    os.chdir(folder)
    with open("text.txt", "w") as file:
        file.write("the quick brown fox jumps over the lazy dog. " * 60)
    cohort("data", "prepare", "--input", "text.txt", "--out", "tokens.h5")
    for name, (kind, keys, targets) in MODELS.items():
        try_model(name, kind, keys, targets)
    refuse("DoRA", ["use_dora", "true"], {"use_dora": True})
    refuse("another method", ["peft_type", "IA3"], {"peft_type": "IA3"})
    refuse("whole modules", ["modules_to_save", "lm_head"], {"modules_to_save": ["lm_head"]})
    refuse("biases", ["bias", "all"], {"bias": "all"})
    refuse("half an adapter", ["only one of lora_A and lora_B"], tensors=lambda t: dict(list(t.items())[1:]))
    refuse("a module that is not there", ["model.layers.7", "no linear layer"],
           tensors=lambda t: {**t, "base_model.model.model.layers.7.mlp.up_proj.lora_A.weight": torch.zeros(3, 32)})
    refuse("another size", ["do not fit", "32"],
           tensors=lambda t: {key: torch.zeros(3, 31) if key.endswith("layers.0.mlp.up_proj.lora_A.weight") else x for key, x in t.items()})
    said = cohort("ckpt", "import", "llama_peft", "--out", "runs/none", code=2)
    check("adapters without a base", "--base" in said, said)
    said = cohort("ckpt", "merge", "runs/llama_base", "--out", "runs/none", code=2)
    check("nothing to merge", "no adapters" in said, said)
    said = cohort("ckpt", "export", "runs/llama_base", "--out", "none", "--format", "peft", code=2)
    check("nothing to export", "no adapters" in said, said)
    os.chdir("/")
sys.exit(1 if failures else 0)
