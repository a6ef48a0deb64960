"""A run of `cohort train` step by step in PyTorch, transformers and torch.optim: replay_test.py COHORT

What is compared, and within which bounds, is tools/replay_pytorch.py's. Faults planted in the replay must be found by the same
comparison."""

import dataclasses
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import replay_pytorch as rp

COHORT = sys.argv[1]
failures = 0

# Accumulation and clipping in all of them; the norms are above clip_norm. 50,257 rows: that of GPT-2, of which the text uses a few.
RUNS = {
    "gpt2": rp.Case(),
    "gpt2 with 50,257 rows": rp.Case(vocabulary=50257, width=32, context=16, micro_batch=1, accumulation=3),
    "llama with 50,257 untied rows": rp.Case(kind="llama", vocabulary=50257, tied=False, width=32, context=16, micro_batch=1),
    "llama with warm-up": rp.Case(kind="llama", warmup=5, accumulation=4, clip_norm=1.0, weights_after=(10,)),
}
# What people get wrong, against the first run. Of those that leave the first step as it is the later ones must tell.
FAULTS = {
    "beta1": dict(beta1=0.95),
    "beta2": dict(beta2=0.999),
    "no clipping": dict(clip_norm=0.0),
    "no weight decay": dict(weight_decay=0.0),
    "epsilon": dict(epsilon=1e-6),
    "another schedule": dict(final_fraction=0.0),
}


def check(what, condition, detail):
    global failures
    print(("ok      " if condition else "FAILED  ") + f"{what}: {detail}", flush=True)
    failures += 0 if condition else 1


def describe(found):
    weights = ", ".join(f"after {n} steps {share:.2f}" for n, share in found.weights.items())
    return f"losses {found.loss:.1e}, norms {found.norm:.1e}, weights as shares of their allowance {weights}"


with tempfile.TemporaryDirectory(prefix="cohort_replay_") as folder:
    runs = {}
    for name, case in RUNS.items():
        place = Path(folder) / name.replace(" ", "_").replace(",", "")
        place.mkdir()
        runs[name] = rp.Run(COHORT, place, case)
        found = rp.replay(runs[name])
        check(name, not found.failures("fp32"), "; ".join([describe(found), *found.failures("fp32")]))
    run = runs["gpt2"]
    check("the gpt2 run clips", min(line["gradient_norm"] for line in run.metrics()) > run.case.clip_norm, "every step")
    for name, wrong in FAULTS.items():
        found = rp.replay(run, dataclasses.replace(run.case, **wrong))
        check(f"fault '{name}' is found", found.failures("fp32"), "; ".join([describe(found), *found.failures("fp32")]))
sys.exit(1 if failures else 0)
