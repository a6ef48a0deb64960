"""A learner's ops, schedule and weight decay of lab 1 in real runs: not written, right, wrong, and where they cannot be used.
lab01_transformer_test.py PROGRAM ROOT -- MPIRUN FLAG ..."""

import shutil

from learner import check, expect, finish, metrics, root, run, scratch

lab = root / "src/labs/01_transformer"
exercise = scratch / "labs/01_transformer/exercise.cpp"

RUN = root / "inputs/lab01_llama.toml"
# Two micro-batches a rank on one rank, one on two; key/value heads are shared, too.
SHORT = ["--set", "train.steps=6", "--set", "train.global_batch=8", "--set", "train.micro_batch=4", "--set", "model.context=32", "--set",
         "model.kv_heads=2", "--set", "schedule.warmup_steps=2", "--set", "train.validation_samples=8"]
MINE = ["--with", "labs/01_transformer"]
USED = ("rms_norm", "apply_rotary", "swiglu", "causal_attention", "next_token_loss", "parameter_groups", "cosine_schedule", "rms_norm_backward")


def train(name, *words, ranks=1):
    return run("train", RUN, *SHORT, "--set", f"run.name={name}", *words, ranks=ranks)


def near(name, other, key, tolerance):
    mine, theirs = metrics(name, key), metrics(other, key)
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
    check("... has the losses", near(name, "theirs", "loss", 1e-5), (metrics(name, "loss"), metrics("theirs", "loss")))
    check("... the gradient norms", near(name, "theirs", "gradient_norm", 1e-4), (metrics(name, "gradient_norm"), metrics("theirs", "gradient_norm")))
    check("... and the rates", near(name, "theirs", "learning_rate", 1e-12), metrics(name, "learning_rate"))
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
    check(f"... has another {key}", not near(source, theirs, key, 1e-4), metrics(source, key))

shutil.copy(lab / "solution.cpp", exercise)
expect("another schedule", train("linear", "--set", "schedule.kind=linear", *MINE), 2, "schedule.kind", "choose cosine")
expect("context parallelism", train("ring", "--set", "parallel.cp=2", *MINE, ranks=2), 2, "parallel.cp")
expect("16 bits", train("narrow", "--set", "precision.policy=bf16", *MINE), 2, "precision.policy")
expect("portable kernels", train("portable", "--set", "device.kernels=portable", *MINE), 2, "device.kernels")
expect("a function that no run uses", train("none", "--with", "labs/01_transformer:train_step"), 2, ", ".join(USED[:3]))

finish()
