#!/usr/bin/env python3
"""Cohort and transformers side by side on the CPU: generating text with the same GPT-2, taking turns on the same cores.

  tools/compare_generation.py [--rounds 3] [--prompt 128] [--tokens 64] [--threads 1] [--layers 12] [--json FILE]

Needs a Python with torch and transformers (make python) and a built Cohort (make). Cohort trains a GPT-2 124M for one step on a synthetic
text, so that there are weights, and exports them for transformers (`cohort ckpt export`). Each round then runs `cohort bench generate` and
transformers' generate() with its cache: fp32, batch 1, the same prompt of random tokens, always the likeliest token. The table gives medians
over the rounds and, in brackets, smallest and largest; that both generate the same tokens is checked."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUN_FILE = """\
[model]
kind = "gpt2"
layers = LAYERS
width = 768
heads = 12
context = CONTEXT
vocabulary = 50257

[data]
tokens = "tokens.h5"

[train]
steps = 1
micro_batch = 1
global_batch = 1

[optimizer]
learning_rate = 1e-4

[sample]
tokens = 0
"""


def environment(threads):
    return {**os.environ, **{name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}}


def run(options, command, folder):
    done = subprocess.run([str(part) for part in command], cwd=folder, env=environment(options.threads), text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def make_weights(options, folder):
    """The run `folder`/run, and its export `folder`/hf."""
    sizes = RUN_FILE.replace("LAYERS", str(options.layers)).replace("CONTEXT", str(options.prompt + options.tokens))
    (folder / "run.toml").write_text(sizes)
    for words in (["data", "synth", "stories", "--out", "text.txt", "--bytes", "200KiB"],
                  ["data", "prepare", "--input", "text.txt", "--out", "tokens.h5", "--tokenizer", "byte"],
                  ["train", "run.toml", "--set", "run.directory=run"],
                  ["ckpt", "export", "run", "--out", "hf"]):
        print("  cohort " + " ".join(words), file=sys.stderr)
        run(options, [options.cohort, *words], folder)


def run_cohort(options, folder):
    return json.loads(run(options, [options.cohort, "bench", "generate", "--checkpoint", "run", "--prompt", options.prompt, "--tokens",
                                    options.tokens, "--set", f"device.threads={options.threads}", "--json"], folder))


def run_transformers(options, folder, prompt):
    request = {"model": str(folder / "hf"), "prompt": prompt, "tokens": options.tokens, "threads": options.threads}
    return json.loads(run(options, [sys.executable, os.path.abspath(__file__), "--worker", json.dumps(request)], folder).splitlines()[-1])


def worker(request):
    """One timed run of transformers, as a line of JSON. A token's time is that of a long text less that of a single token."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(request["threads"])
    model = transformers.AutoModelForCausalLM.from_pretrained(request["model"]).eval()
    prompt = torch.tensor([request["prompt"]])

    def generate(tokens):
        start = time.perf_counter()
        with torch.inference_mode():
            ids = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False,
                                 use_cache=True, pad_token_id=0, eos_token_id=None)
        return time.perf_counter() - start, ids[0, prompt.shape[1]:].tolist()

    generate(2)
    prompt_seconds = statistics.median(generate(1)[0] for _ in range(3))
    seconds, ids = generate(request["tokens"])
    print(json.dumps({"prompt_tokens_per_second": len(request["prompt"]) / prompt_seconds,
                      "tokens_per_second": (request["tokens"] - 1) / (seconds - prompt_seconds), "tokens": ids,
                      "versions": f"transformers {transformers.__version__}, torch {torch.__version__}"}))


def spread(values, digits=1):
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f} .. {max(values):.{digits}f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohort", type=Path, default=ROOT / "build/cpu/cohort", help="the binary (default: build/cpu/cohort)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side (default: 3)")
    parser.add_argument("--prompt", type=int, default=128, help="tokens of the prompt (default: 128)")
    parser.add_argument("--tokens", type=int, default=64, help="tokens to generate (default: 64)")
    parser.add_argument("--threads", type=int, default=1, help="of each side (default: 1)")
    parser.add_argument("--layers", type=int, default=12, help="of the model; 12 are GPT-2 124M (default: 12)")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)  # how the script starts transformers' process
    options = parser.parse_args()
    if options.worker:
        return worker(json.loads(options.worker))
    options.cohort = options.cohort.resolve()
    if not options.cohort.exists():
        raise SystemExit(f"{options.cohort} does not exist: build Cohort with `make`, or name the binary with --cohort")
    if options.rounds < 1 or options.tokens < 2:
        raise SystemExit("--rounds must be 1 or more, --tokens 2 or more")
    with tempfile.TemporaryDirectory(prefix="cohort_generation_") as name:
        folder = Path(name)
        make_weights(options, folder)
        runs = {"transformers": [], "cohort": []}
        for round_number in range(options.rounds):
            runs["cohort"].append(run_cohort(options, folder))
            runs["transformers"].append(run_transformers(options, folder, runs["cohort"][0]["prompt"]))
            print(f"  round {round_number + 1} of {options.rounds}", file=sys.stderr)
    first = runs["cohort"][0]
    same = all(side["tokens"] == first["tokens"] for side in runs["cohort"] + runs["transformers"])
    print(f"{runs['transformers'][0]['versions']}; {first['parameters'] / 1e6:.0f}M parameters, fp32, {options.threads} thread(s), load average "
          f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"  {'':13}{'prompt tokens/s':>28}{'new tokens/s':>24}")
    for side, title in (("transformers", "transformers"), ("cohort", "Cohort")):
        figures = [spread([entry[key] for entry in runs[side]]) for key in ("prompt_tokens_per_second", "tokens_per_second")]
        print(f"  {title:13}{figures[0]:>28}{figures[1]:>24}")
    ratios = [[c[key] / t[key] for c, t in zip(runs["cohort"], runs["transformers"])] for key in ("prompt_tokens_per_second", "tokens_per_second")]
    print(f"  {'ratio':13}{spread(ratios[0], 2):>28}{spread(ratios[1], 2):>24}")
    print(f"  Cohort's share of the memory-bandwidth bound: {spread([100 * c['share_of_bound'] for c in runs['cohort']], 0)} %")
    print("  the same tokens" if same else "  NOT the same tokens")
    if options.json:
        options.json.write_text(json.dumps({"runs": runs, "same_tokens": same}, indent=2) + "\n")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
