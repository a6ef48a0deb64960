"""Lab 12 in real runs: a learner's kernels train as the program's do, layouts with them prove equal, and wrong ones change the losses.
lab12_kernels_test.py PROGRAM ROOT -- MPIRUN FLAG ..."""

import json
import shutil

from learner import check, expect, finish, root, run, scratch

lab = root / "src/labs/12_kernels"


RUN = root / "inputs/lab12_kernels.toml"
SHORT = ["--set", "train.steps=6", "--set", "model.context=32", "--set", "schedule.warmup_steps=2"]


def trained(name, *words):
    code, stdout, stderr = run("train", RUN, *SHORT, "--set", f"run.name={name}", *words)
    if code:
        return code, stdout, stderr
    with open(scratch / "runs" / name / "metrics.jsonl", encoding="utf-8") as file:
        return [json.loads(line)["loss"] for line in file if '"loss"' in line]


def same(mine, theirs):
    # Sums in another order: a rounding of fp32 for each product, which a few steps of training make some digits of.
    return len(mine) == len(theirs) and all(abs(a - b) <= 2e-5 * b for a, b in zip(mine, theirs))


(scratch / "data").mkdir()
expect("a text", run("data", "synth", "stories", "--out", "data/stories.txt", "--bytes", "40KiB"), 0)
expect("its tokens", run("data", "prepare", "--input", "data/stories.txt", "--out", "data/stories.h5"), 0)
expect("start", run("lab", "start", "12"), 0, "labs/12_kernels/exercise.cpp")
exercise = scratch / "labs/12_kernels/exercise.cpp"
outcome = trained("empty", "--with", "labs/12_kernels")
check("not written, in a run", outcome[0] == 2 and "is not written yet" in str(outcome), outcome)
theirs = trained("theirs")
check("trained with the program's kernels", len(theirs) == 6, theirs)

shutil.copy(lab / "solution.cpp", exercise)
for name in ("matmul_blocked", "bias_gelu_forward", "bias_gelu_backward", "moments_add", "adamw_fused"):
    mine = trained(name, "--with", f"labs/12_kernels:{name}")
    check(f"trained with the learner's {name}: the same losses", same(mine, theirs), (mine, theirs))
mine = trained("all", "--with", "labs/12_kernels")
check("with all of them", same(mine, theirs), (mine, theirs))
mine, theirs16 = (trained(name, "--set", "precision.policy=bf16", *words) for name, words in (("mine16", ["--with", "labs/12_kernels"]), ("theirs16", [])))
check("in bf16, which the kernels get as fp32", len(mine) == 6 and all(abs(a - b) <= 5e-3 * b for a, b in zip(mine, theirs16)), (mine, theirs16))
expect("layouts with them prove equal", run("prove", RUN, *SHORT, "--steps", "2", "--layout", "data=bucketed", "--layout", "tp=2,data=naive", "--with", "labs/12_kernels",
                                            ranks=2), 0, "equal")
for wrong in ("matmul_last_block_overwrites", "gelu_bias_of_row", "gelu_backward_one_term", "moments_before_twice", "adamw_decay_without_rate"):
    source = (lab / f"wrong/{wrong}.cpp").read_text()
    exercise.write_text(source)
    mine = trained(wrong, "--with", f"labs/12_kernels:{source.split()[1].rstrip(':')}")
    check(f"a wrong one has other losses: {wrong}", isinstance(mine, list) and not same(mine, theirs), (mine, theirs))
shutil.copy(lab / "solution.cpp", exercise)
expect("a function that no run uses", run("train", RUN, "--with", "labs/12_kernels:softmax_add"), 2, "matmul_blocked, bias_gelu_forward")
expect("a step timed with them", run("bench", "step", "--layers", "1", "--width", "32", "--heads", "2", "--context", "32", "--steps", "1", "--warm-up", "1",
                                     "--with", "labs/12_kernels"), 0, "tokens/s", "adamw_fused of")

finish()
