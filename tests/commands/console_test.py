"""Standard output that cannot be written, and names that the file system refuses: a documented exit code and one message; a run that
trains is not lost.

    console_test.py COHORT -- MPIRUN FLAG ..."""

import os
import subprocess
import sys
import tempfile

from launched import Launched, environment_without_launcher
from training import Training

FULL = "/dev/full"
LONG = "x" * 300

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_console_")
training = Training(job, folder.name)
path = training.path
short = {"train__steps": 12, "train__validate_every": 0, "sample__tokens": 0, "checkpoint__every": 4}
job.expect("train", job.run(training.words("run", **short)), 0, lines=0)


def run_with(words, stdout):
    done = subprocess.run([job.program, *words], env=environment_without_launcher(), stdout=stdout, stderr=subprocess.PIPE, text=True,
                          timeout=60, check=False)
    return done.returncode, "", done.stderr, 0.0


def run_full(words):
    with open(FULL, "wb") as full:
        return run_with(words, full)


if os.path.exists(FULL):
    run, step = path("run"), path("run/checkpoints/step_00000012")
    for words in (["--version"], ["--help"], ["train", "--help"], ["train", "--help-keys"], training.words("dry", "--dry-run"), ["info"],
                  ["info", "--json"], ["eval", run], ["eval", run, "--json"], ["generate", run, "--prompt", "a", "--tokens", "3"],
                  ["data", "inspect", training.tokens], ["data", "inspect", training.tokens, "--json"], ["ckpt", "ls", run],
                  ["ckpt", "ls", run, "--json"], ["ckpt", "show", run], ["ckpt", "show", run, "--run-file"], ["ckpt", "verify", run],
                  ["ckpt", "diff", run, step], ["ckpt", "prune", run, "--keep", "9", "--dry-run"], ["plan", training.run_file],
                  ["logs", run], ["topo"], ["doctor", run], ["ckpt", "export", run, "--out", path("hf")],
                  ["data", "prepare", "--input", path("stories.txt"), "--out", path("again.h5"), "--tokenizer", "char"]):
        name = " ".join(word for word in words if not word.startswith(folder.name))
        job.expect(f"{name}, on a full disk", run_full(words), 7, ["standard output", "No space left on device"], lines=1)
    # A code that says more than success stays.
    job.expect("checkpoints that differ", run_full(["ckpt", "diff", path("run/checkpoints/step_00000004"), step]), 11,
               ["standard output"], lines=1)
    # Enough text to fill the buffer many times: a run must not end of it.
    done = run_full(training.words("full", **{**short, "train__steps": 300, "log__every": 1, "checkpoint__every": 300}))
    job.expect("training", done, 7, ["standard output", "No space left on device"], lines=1)
    job.check("... goes on to its end", training.checkpoints("full") == [300], str(training.checkpoints("full")))
    job.check("... and all else is written", len(training.metrics("full")) == 300)

# A reader that goes away, as in `cohort train ... | head`.
reading, writing = os.pipe()
os.close(reading)
done = run_with(training.words("piped", **short), writing)
os.close(writing)
job.expect("training into a closed pipe", done, 7, ["standard output", "Broken pipe"], lines=1)
job.check("... goes on to its end", training.checkpoints("piped") == [4, 8, 12], str(training.checkpoints("piped")))

for what, words in (("train", training.words(LONG)), ("train --resume", training.words(LONG, "--resume")),
                    ("data synth", ["data", "synth", "stories", "--out", path(LONG), "--bytes", "4KiB"]),
                    ("data prepare", ["data", "prepare", "--input", path("stories.txt"), "--out", path(LONG), "--tokenizer", "char"]),
                    ("ckpt import", ["ckpt", "import", path(LONG), "--out", path("x")]),
                    ("ckpt export", ["ckpt", "export", path("run"), "--out", path(LONG)])):
    for ranks in ((0, 2) if what.startswith("train") else (0,)):
        job.expect(f"a name of 300 letters: {what}, {ranks} ranks", job.run(words, ranks), 7, [path(LONG), "File name too long"], lines=1)

folder.cleanup()
job.finish()
