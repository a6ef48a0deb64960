"""What a newcomer does first: the program without a word, without data, on a machine without GPUs, with a key and a value apart."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from launched import Launched
from training import Training

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_first_contact_")
training = Training(job, folder.name)

# 1. Without a word: the help, once for all ranks, and no failure.
outcome = job.run([])
job.check("without a word: help", outcome[0] == 0 and "train" in outcome[1] and outcome[2] == "", outcome[1] + outcome[2])
outcome = job.run([], 2)
job.check("on two ranks: once", outcome[0] == 0 and outcome[1].count("Usage: cohort") == 1, outcome[1] + outcome[2])
job.expect("train without a run file", job.run(["train"]), 2, ["no run file given", "cohort train inputs/demo.toml"], lines=1)

# 2. Without data: the message says what writes it.
job.expect("no stories", job.run(training.words("none", data__tokens=training.path("data/stories.h5"))), 7,
           ["no such token file", "`make stories` writes it"], lines=1)
job.expect("no text of one's own", job.run(training.words("none", data__tokens=training.path("own.h5")), 2), 7,
           [f"`cohort data prepare --input TEXT --out {training.path('own.h5')}`"], lines=1)

# 3. A key and its value are one word.
job.expect("--set KEY VALUE", job.run([*training.words("none"), "--set", "model.heads", "8"]), 2, ["--set model.heads=VALUE"], lines=1)

# 4. GPUs are picked if every rank can have one, and it is said what was picked. This build may have CUDA, this machine none.
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
SHORT = {"train__steps": 2, "schedule__warmup_steps": 1, "device__kind": "auto"}
for ranks in (1, 2):
    name = f"auto-{ranks}"
    job.expect(f"auto, {ranks} ranks", job.run(training.words(name, **SHORT), ranks, **NO_GPU), 0,
               ['device.kind = "auto": the CPU, since no rank sees a GPU'], lines=1)
    saved = job.run(["ckpt", "show", training.path(name), "--run-file"])
    job.check(f"auto, {ranks} ranks: the run says what it became", 'kind = "cpu"' in saved[1] and '"auto"' not in saved[1], saved[1])
job.expect("layouts against one rank", job.run(["prove", training.run_file, "--set", "device.kind=auto", "--layout", "dp=2", "--steps", "2"], 2,
                                               **NO_GPU), 0, ['device.kind = "auto": the CPU'], lines=1)
outcome = job.run(["plan", training.run_file, "--set", "device.kind=auto", "--json"], **NO_GPU)
job.check("a plan", outcome[0] == 0 and json.loads(outcome[1]), outcome[2])

# 5. A run file for GPUs can be checked where there are none.
outcome = job.run([*training.words("gpu", device__kind="cuda"), "--dry-run", "--ranks", "4"], **NO_GPU)
job.expect("a run for GPUs, checked", outcome, 0, lines=0)
job.check("and it says what is missing", "needs GPUs" in outcome[1], outcome[1])
job.check("nothing was written", not os.path.exists(training.path("gpu")))
job.expect("but not trained", job.run(training.words("gpu", device__kind="cuda"), **NO_GPU), 3 if "has no CUDA" in outcome[1] else 4)

# 6. `make` tells of its targets, and what comes after the demo are commands that exist.
ROOT = pathlib.Path(__file__).parents[2]
text = subprocess.run(["make", "-n", "-C", ROOT, "demo", "INSTALL=no"], capture_output=True, text=True).stdout
lines = [line for line in text.splitlines() if "build/cpu/cohort" in line and line.lstrip().startswith("'")]
job.check("the demo tells what comes next", len(lines) >= 3, text)
for line in lines:
    words = line.strip().strip("'\\ ").split("   ")[0].split()
    words = words[words.index("build/cpu/cohort") + 1:]
    command = words[:2] if words[0] == "ckpt" else words[:1]
    said = job.run([*command, "--help"])[1]
    unknown = [word for word in words if word.startswith("--") and word not in said]
    job.check(f"cohort {' '.join(words)}: known here", said and not unknown, f"{unknown}\n{said}")

job.finish()
