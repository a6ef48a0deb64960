"""A learner's ops, schedule and weight decay of lab 1 in real runs: not written, right, wrong, and where they cannot be used.
lab01_transformer_test.py PROGRAM ROOT -- MPIRUN FLAG ..."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

program, root = sys.argv[1], pathlib.Path(sys.argv[2])
mpirun = sys.argv[4:]
lab = root / "src/labs/01_transformer"
scratch = pathlib.Path(tempfile.mkdtemp(prefix="cohort_lab01_"))
exercise = scratch / "labs/01_transformer/exercise.cpp"
failures = 0

RUN = root / "inputs/lab01_llama.toml"
# Two micro-batches a rank on one rank, one on two; key/value heads are shared, too.
SHORT = ["--set", "train.steps=6", "--set", "train.global_batch=8", "--set", "train.micro_batch=4", "--set", "model.context=32", "--set",
         "model.kv_heads=2", "--set", "schedule.warmup_steps=2", "--set", "train.validation_samples=8"]
MINE = ["--with", "labs/01_transformer"]
USED = ("rms_norm", "apply_rotary", "swiglu", "causal_attention", "next_token_loss", "parameter_groups", "cosine_schedule", "rms_norm_backward")


def check(what, condition, detail=""):
    global failures
    print(("ok      " if condition else "FAILED  ") + what, flush=True)
    if not condition:
        failures += 1
        print(detail)


def run(*words, ranks=0):
    command = [*mpirun, "-np", str(ranks)] if ranks else []
    done = subprocess.run([*command, program, *map(str, words)], capture_output=True, text=True, errors="replace", cwd=scratch)
    return done.returncode, done.stdout + done.stderr


def expect(what, outcome, code, *words):
    check(what, outcome[0] == code and all(word in outcome[1] for word in words), outcome)


def train(name, *words, ranks=1):
    return run("train", RUN, *SHORT, "--set", f"run.name={name}", *words, ranks=ranks)


def figures(name, key):
    with open(scratch / "runs" / name / "metrics.jsonl", encoding="utf-8") as file:
        return [json.loads(line)[key] for line in file if f'"{key}"' in line]


def near(name, other, key, tolerance):
    mine, theirs = figures(name, key), figures(other, key)
    return len(mine) == len(theirs) > 0 and all(abs(a - b) <= tolerance * abs(b) for a, b in zip(mine, theirs))


(scratch / "data").mkdir()
for words in (["data", "synth", "stories", "--out", "data/stories.txt", "--bytes", "100KiB"],
              ["data", "prepare", "--input", "data/stories.txt", "--out", "data/stories.h5", "--tokenizer", "bpe", "--vocabulary", "320"]):
    expect(" ".join(words[:3]), run(*words), 0)
expect("start", run("lab", "start", "1"), 0, "1.12")
for name in USED:
    expect(f"{name} is not written", train(f"empty-{name}", "--with", f"labs/01_transformer:{name}"), 2, f"{name} is not written yet")

shutil.copy(lab / "solution.cpp", exercise)
expect("trained with the program's", train("theirs"), 0)
for ranks in (1, 2):
    name = f"mine-{ranks}"
    expect(f"trained with the learner's on {ranks}", train(name, *MINE, ranks=ranks), 0)
    # fp32 sums in another order, whose differences six steps amplify
    check("... has the losses", near(name, "theirs", "loss", 1e-5), (figures(name, "loss"), figures("theirs", "loss")))
    check("... the gradient norms", near(name, "theirs", "gradient_norm", 1e-4), (figures(name, "gradient_norm"), figures("theirs", "gradient_norm")))
    check("... and the rates", near(name, "theirs", "learning_rate", 1e-12), figures(name, "learning_rate"))
expect("proved", run("prove", RUN, *SHORT, "--steps", "2", "--layout", "data=hooks", "--layout", "data=zero2", "--layout", "tp=2", *MINE, ranks=2), 0, "equal")

# What a run shows of a wrong one.
for source, key in (("attention_sees_all", "loss"), ("swiglu_is_glu", "loss"), ("loss_of_sum", "loss"),
                    ("backward_rstd_is_constant", "gradient_norm"), ("cosine_counts_from_zero", "learning_rate"), ("groups_all_decay", "loss")):
    shutil.copy(lab / f"wrong/{source}.cpp", exercise)
    function = exercise.read_text().split(":")[0].removeprefix("// ")
    # decayed norms change little in six steps: more decay shows it
    decay = ["--set", "optimizer.weight_decay=5"] if function == "parameter_groups" else []
    theirs = "theirs"
    if decay:
        theirs = "theirs-decayed"
        expect("trained with more decay", train(theirs, *decay), 0)
    expect(f"trained with {source}", train(source, *decay, "--with", f"labs/01_transformer:{function}"), 0, function)
    check(f"... has another {key}", not near(source, theirs, key, 1e-4), figures(source, key))

shutil.copy(lab / "solution.cpp", exercise)
expect("another schedule", train("linear", "--set", "schedule.kind=linear", *MINE), 2, "schedule.kind", "choose cosine")
expect("context parallelism", train("ring", "--set", "parallel.cp=2", *MINE, ranks=2), 2, "parallel.cp")
expect("16 bits", train("narrow", "--set", "precision.policy=bf16", *MINE), 2, "precision.policy")
expect("portable kernels", train("portable", "--set", "device.kernels=portable", *MINE), 2, "device.kernels")
expect("a function that no run uses", train("none", "--with", "labs/01_transformer:train_step"), 2, ", ".join(USED[:3]))

shutil.rmtree(scratch)
sys.exit(1 if failures else 0)
