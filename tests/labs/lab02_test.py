"""Lab 2's exercises in real runs: a learner's naive data parallelism, hooks and buckets train and prove as the built-in ones do, and what is
wrong with them is found. lab02_test.py PROGRAM ROOT -- MPIRUN FLAG ..."""

from learner import check, expect, finish, has, metrics, root, run

RUN = root / "inputs/lab02_mlp.toml"
SHORT = ["--set", "train.steps=8", "--set", "schedule.warmup_steps=2", "--set", "train.validate_every=0", "--set", "train.global_batch=48",
         "--set", "train.micro_batch=8", "--set", "model.layers=4", "--set", "log.level=info"]
# Strategy -> the exercise that makes it.
LEARNERS = {"naive": "naive_data_parallel", "hooks": "gradient_hooks", "bucketed": "assign_buckets"}


def train(name, strategy, *more):
    return run("train", RUN, *SHORT, "--set", f"run.name={name}", "--set", f"parallel.data={strategy}", *more, ranks=3)


def mine(strategy):
    return ["--with", f"labs/02_data_parallel:{LEARNERS[strategy]}"]


has("02_data_parallel", "exercise.cpp")
for strategy, word in zip(LEARNERS, ("naive_data_parallel", "on_gradient_ready", "assign_buckets")):
    expect(f"{strategy}, not written", train("empty", strategy, *mine(strategy)), 2, f"{word} is not written yet")
has("02_data_parallel", "solution.cpp")
expect("trained with the program's", train("built_in", "naive"), 0)
for strategy, function in LEARNERS.items():
    # Buckets of 64 KiB: several, of these gradients. Two micro-batches a step: only the second is summed.
    size = "bucket_mib=0.0625"
    more = ["--set", f"parallel.{size}"] if strategy == "bucketed" else []
    expect(f"trained with the learner's {strategy}", train(strategy, strategy, *mine(strategy), *more), 0, f"{function} of labs/02_data_parallel")
    learners, theirs = metrics(strategy), metrics("built_in")
    # The order of three summands differs, and a gradient is weighed before its sum: roundings of fp32 in each step.
    check("... has the same losses", len(learners) == 8 and all(abs(a - b) <= 1e-5 * b for a, b in zip(learners, theirs)), (learners, theirs))
    layout = f"data={strategy},{size}" if strategy == "bucketed" else f"data={strategy}"
    expect(f"proved: {strategy}", run("prove", RUN, *SHORT, "--steps", "2", "--layout", layout, *mine(strategy), ranks=3), 0, "equal")
expect("proved on 4 ranks", run("prove", RUN, "--steps", "1", "--layout", "data=hooks", *mine("hooks"), ranks=4), 0, "equal")
expect("another strategy", train("other", "zero1", *mine("hooks")), 2, "zero1", "choose hooks")

WRONG = {"naive_divides_twice": ("naive", 11, "DIFFERS"), "naive_only_adds": ("naive", 11, "DIFFERS"), "hooks_divide": ("hooks", 11, "DIFFERS"),
         "hooks_nobody_waits": ("hooks", 2, "before the optimizer"), "buckets_best_fit": ("bucketed", 2, "assign_buckets puts gradient"),
         "hooks_in_every_micro_batch": ("hooks", 11, "DIFFERS")}
for source, (strategy, code, words) in WRONG.items():
    has("02_data_parallel", f"wrong/{source}.cpp")
    # Buckets of a KiB: the small gradients of biases find gaps in earlier ones.
    layout = f"data={strategy},bucket_mib=0.001" if strategy == "bucketed" else f"data={strategy}"
    expect(f"found: {source}", run("prove", RUN, *SHORT, "--steps", "2", "--layout", layout, *mine(strategy), ranks=3), code, words)

finish()
