"""Fine-tuning as people do it: finetuning_test.py COHORT -- MPIRUN FLAG ...

Conversations with little that counts on 1 and 2 ranks, adapters, their proof and plan, and conversations with the model."""

import json
import math
import os
import subprocess
import sys
import tempfile

from launched import Launched, environment_without_launcher

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_finetuning_")
os.chdir(folder.name)

RUN_FILE = """\
[model]
kind = "{kind}"
layers = 2
width = 32
heads = 4
context = {context}
[data]
tokens = "{tokens}"
[train]
steps = {steps}
micro_batch = 2
global_batch = 4
[optimizer]
learning_rate = 1e-2
weight_decay = 0.0
[schedule]
kind = "constant"
[sample]
tokens = 0
"""


def run_file(name, kind="llama", context=64, tokens="chat.h5", steps=30):
    with open(name, "w") as file:
        file.write(RUN_FILE.format(kind=kind, context=context, tokens=tokens, steps=steps))


def train(file, name, *words, ranks=0, code=0):
    outcome = job.run(["train", file, "--set", f"run.name={name}", *words], ranks)
    job.expect(f"train {name} {' '.join(words)}", outcome, code)
    return outcome


def metrics(name, key):
    with open(f"runs/{name}/metrics.jsonl") as file:
        return [record[key] for record in map(json.loads, file) if key in record]


def chat(lines, *words, ranks=0):
    command = [*job.mpirun, "-np", str(ranks)] if ranks else []
    done = subprocess.run([*command, job.program, "chat", *words], input="".join(line + "\n" for line in lines), capture_output=True,
                          text=True, errors="replace", timeout=120, env=environment_without_launcher())
    return done.returncode, done.stdout, done.stderr, 0


# 1. Little that counts: most micro-batches, some ranks and some steps have no target.
with open("rare.jsonl", "w") as file:
    for i in range(60):
        file.write(json.dumps({"prompt": "tell me something about the number " * 4 + str(i), "completion": "no"}) + "\n")
job.expect("prepare", job.run(["data", "prepare", "--input", "rare.jsonl", "--out", "rare.h5", "--conversations", "plain"]), 0)
run_file("rare.toml", kind="gpt2", context=16, tokens="rare.h5", steps=12)
train("rare.toml", "rare1")
train("rare.toml", "rare2", ranks=2)
counted, targets = metrics("rare1", "loss"), metrics("rare1", "tokens")
job.check("steps without a target are there, and have no loss", 0 in targets and any(targets) and len(counted) == len(targets) and
          all((loss is None) == (count == 0) for loss, count in zip(counted, targets)), f"{counted}\n{targets}")
for key in ("loss", "gradient_norm", "validation_loss"):
    one, two = metrics("rare1", key), metrics("rare2", key)
    job.check(f"{key}: no NaN, and the same on two ranks", len(one) == len(two) > 0 and all(
        a is b is None or math.isfinite(a) and abs(a - b) <= 1e-4 * abs(a) + 1e-7 for a, b in zip(one, two)), f"{one}\n{two}")
run_file("short.toml", kind="gpt2", context=8, tokens="rare.h5", steps=1)
outcome = train("short.toml", "short")
job.check("conversations longer than the context are counted", "54 of 55 conversations are longer than model.context = 8" in outcome[2], outcome[2])

# 2. Answers. A chat with each template.
with open("chat.jsonl", "w") as file:
    for i in range(400):
        file.write(json.dumps({"messages": [{"role": "user", "content": "ping" if i % 3 else "who?"},
                                            {"role": "assistant", "content": "pong" if i % 3 else "me, me"}]}) + "\n")
special = ["--tokenizer", "bpe", "--vocabulary", "290", "--special-token", "<|im_start|>", "--special-token", "<|im_end|>"]
for template, words in (("plain", []), ("chatml", special)):
    job.expect("prepare", job.run(["data", "prepare", "--input", "chat.jsonl", "--out", "chat.h5", "--overwrite", "--conversations", template, *words]), 0)
    run_file("chat.toml", steps=150)
    train("chat.toml", template, ranks=2)
    for ranks, layout in ((0, []), (2, ["--layout", "tp=2"]), (2, ["--layout", "pp=2"])):
        outcome = chat(["ping", "", "who?"], f"runs/{template}", "--temperature", "0", "--max-tokens", "20", *layout, ranks=ranks)
        job.check(f"{template}: it answers, {layout}", outcome[0] == 0 and outcome[1] == "pong\nme, me\n", str(outcome))
outcome = chat(["ping"] * 12, "runs/chatml", "--temperature", "0", "--system", "be nice")
job.check("a full context drops the oldest turns, and says so once",
          outcome[0] == 0 and outcome[1] == "pong\n" * 12 and outcome[2].count("oldest turns") == 1, str(outcome))
outcome = chat(["ping " * 60, "ping"], "runs/chatml", "--temperature", "0")
job.check("a message that is too long is refused, and the conversation goes on",
          outcome[0] == 0 and "shorten it" in outcome[2] and outcome[1] == "pong\n", str(outcome))
job.check("no input, no answer", chat([], "runs/chatml")[:2] == (0, ""))
job.check("the same seed gives the same answers", chat(["ping", "x"], "runs/chatml", "--temperature", "5", "--seed", "7")[1]
          == chat(["ping", "x"], "runs/chatml", "--temperature", "5", "--seed", "7")[1])

# 3. A model of texts has no template.
job.expect("prepare", job.run(["data", "prepare", "--input", "chat.jsonl", "--field", "messages", "--out", "none.h5"]), 5)
with open("text.txt", "w") as file:
    file.write("ping pong " * 200)
job.expect("prepare", job.run(["data", "prepare", "--input", "text.txt", "--out", "text.h5"]), 0)
run_file("text.toml", tokens="text.h5", steps=2)
train("text.toml", "text")
job.expect("a model of texts", chat(["ping"], "runs/text"), 2, ["was not trained on conversations", "--template"], lines=1)
job.check("... with a template by name", chat(["ping"], "runs/text", "--template", "plain", "--max-tokens", "3")[0] == 0)
job.expect("... that its tokenizer cannot have", chat(["ping"], "runs/text", "--template", "chatml"), 2, ["<|im_start|>", "plain"], lines=1)

# 4. Adapters.
lora = ["--set", "lora.rank=4", "--set", "run.initial_checkpoint=runs/chatml", "--set", "train.steps=4", "--set",
        "optimizer.learning_rate=1e-4"]
train("chat.toml", "lora", *lora, ranks=2)
job.check("... answer", chat(["ping"], "runs/lora", "--temperature", "0")[1] == "pong\n")
job.expect("reshard", job.run(["ckpt", "reshard", "runs/lora", "--layout", "dp=2,data=zero2", "--out", "runs/resharded"]), 0)
job.check("... answers", chat(["ping"], "runs/resharded", "--temperature", "0")[1] == "pong\n")
first = job.run(["train", "chat.toml", *lora, "--set", "run.name=whole", "--set", "lora.rank=0"])[1]
job.check("the first step is the base model's", metrics("lora", "loss")[0] == metrics("whole", "loss")[0] or
          abs(metrics("lora", "loss")[0] - metrics("whole", "loss")[0]) < 1e-6, first)
job.expect("prove", job.run(["prove", "chat.toml", "--steps", "2", *lora[:2], "--layout", "dp=4,data=zero2", "--layout",
                                   "dp=2,tp=2,sequence=true", "--layout", "cp=2,pp=2"], 4, timeout=240), 0, seconds=240)
memory = {rank: json.loads(job.run(["plan", "chat.toml", "--ranks", "2", "--json", *lora[:2], "--set", f"lora.rank={rank}"])[1])["memory"] for rank in (0, 4)}
job.check("plan: gradients and state of the adapters alone", all(memory[4][kind]["predicted"] * 5 < memory[0][kind]["predicted"] for kind in
          ("gradients", "optimizer")) if isinstance(memory[0].get("gradients"), dict) else False, str(memory))
job.expect("zero3", job.run(["train", "chat.toml", *lora, "--set", "parallel.data=zero3"], 2), 3, ["zero3", "choose zero2"])
job.expect("a pattern of nothing", job.run(["train", "chat.toml", *lora, "--set", "lora.targets=*.c_attn.weight"]), 3,
           ["*.c_attn.weight", "names look like blocks.0.attention.query.weight"], lines=1)
job.expect("a stage without adapters: all ranks say the same, once", job.run(["train", "chat.toml", *lora, "--set", "lora.targets=blocks.0.*.query.weight", "--set",
           "parallel.pp=2"], 2), 3, ["leaves pipeline stage 1 without adapters"], lines=1)
os.chdir("/")
folder.cleanup()
job.finish()
