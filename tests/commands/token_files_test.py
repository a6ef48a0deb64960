"""Token files as runs meet them: damaged on one node, cut and replaced under a training, slow to read, under another name, and of
another tokenizer. What cannot be right ends the run with the rank, the file and the bytes; what is right goes on.

    token_files_test.py COHORT SLOW_READS -- MPIRUN FLAG ..."""

import os
import shutil
import stat
import sys
import tempfile

from launched import Launched
from training import Running, Training

job = Launched([sys.argv[1], *sys.argv[3:]])
slow_reads = sys.argv[2]
folder = tempfile.TemporaryDirectory(prefix="cohort_token_files_")
training = Training(job, folder.name)
LONG = {"train__steps": 4000, "schedule__decay_steps": 4000, "train__validate_every": 0, "sample__tokens": 0, "model__width": 16}
SHORT = {"train__steps": 8, "sample__tokens": 0}


def expect_data_error(what, run, parts):
    code, output, seconds = run.finish(120)
    missing = [part for part in parts if part not in output]
    job.check(what, code == 5 and not missing and seconds < 60, f"{code} after {seconds:.0f} s, without {missing}\n{output}")


# 1. Under a running training. Every rank reads a copy of its own; rank 1's is cut, or overwritten.
wrapper = training.write("in_own_folder", f"#!/bin/sh\ncd {folder.name}/node$OMPI_COMM_WORLD_RANK && exec {job.program} \"$@\"\n")
os.chmod(wrapper, stat.S_IRWXU)
nodes = Launched([wrapper, "--", *job.mpirun])
for rank in range(2):
    os.mkdir(training.path(f"node{rank}"))
on_nodes = Training.__new__(Training)
on_nodes.__dict__.update(training.__dict__, job=nodes)
own = [training.path(f"node{rank}/own.h5") for rank in range(2)]


def start(name):
    for path in own:
        shutil.copy(training.tokens, path)
    run = Running(on_nodes, name, 2, data__tokens="own.h5", **LONG)
    job.check(f"{name}: got under way", run.wait_for_step(20))
    return run


size = os.path.getsize(training.tokens)
run = start("cut")
os.truncate(own[1], size // 2)
expect_data_error("a token file that is cut while a run has it open", run,
                  ["rank 1 of 2", "own.h5: /train: tokens", f"the file ends at byte {size // 2}"])

other = training.prepare("other", seed=9)
run = start("overwritten")
with open(other, "rb") as new, open(own[1], "r+b") as old:
    old.write(new.read(size))
expect_data_error("a token file that is overwritten while a run has it open", run, ["rank 1 of 2", "own.h5: /train: tokens", "bytes"])

run = start("replaced")
for path in own:
    shutil.copy(other, path + ".new")
    os.rename(path + ".new", path)
step = len(training.metrics("replaced"))
job.check("a run goes on with the file that it opened when another takes its name", run.wait_for_step(step + 50))
run.kill_all()
run.finish()

# 2. Slow to read: a check that takes longer than the watch waits shows that it gets on, and watch.timeout holds as soon as it is read.
large = training.prepare("large", seed=4, size="2MiB")  # 4 MiB, 32 blocks: 5 s
slow = {"LD_PRELOAD": slow_reads, "COHORT_WATCH_TIMEOUT": "2"}
job.expect("a check that takes long is not taken for a rank that is stuck",
           job.run(training.words("slow", data__tokens=large, watch__timeout=2, **SHORT), 2, timeout=120, SLOW_READS="0.02", **slow),
           0, lines=0, seconds=90)
job.expect("watch.timeout = 0 holds when the data is opened",
           job.run(training.words("waits", watch__timeout=0, **SHORT), 2, timeout=120, SLOW_READS="0.8", **slow), 0, lines=0, seconds=90)

# 3. Another name, another tokenizer.
job.expect("a run", job.run(training.words("kept", **SHORT)), 0, lines=0)
moved = shutil.copy(training.tokens, training.path("moved.h5"))
more = {**SHORT, "train__steps": 12, "schedule__decay_steps": 8}
job.expect("the same data under another name", job.run(training.words("kept", "--resume", data__tokens=moved, **more)), 0, lines=0)
with open(training.path("stories.txt"), encoding="utf-8") as file:
    stories = file.read()


def prepare(name, text, *more_words):
    path = training.write(name + ".txt", text)
    tokens = training.path(name + ".h5")
    words = ["data", "prepare", "--input", path, "--out", tokens, *(more_words or ("--tokenizer", "char"))]
    return tokens, job.run(words)


# Of as many characters, in the same order: the same ids. And of fewer.
shifted, made = prepare("shifted", "".join(chr(ord(c) + 1) for c in stories))
job.expect("the ids of the run's data, of other characters", made, 0, lines=0)
smaller, made = prepare("smaller", "abcdefgh" * 500)
job.expect("a smaller alphabet", made, 0, lines=0)
more["train__steps"] = 16
job.expect("resume with another tokenizer", job.run(training.words("kept", "--resume", data__tokens=shifted, **more)), 3,
           ["tokenizer: char, vocabulary=", "in the checkpoint", "--allow-changes"], lines=1)
for tokens in (shifted, smaller):
    for what, words in (("eval", ["eval", training.path("kept"), "--tokens", tokens]),
                        ("generate", ["generate", training.path("kept"), "--prompt", "abc", "--tokens-file", tokens]),
                        ("train", training.words("tuned", run__initial_checkpoint=training.path("kept"), data__tokens=tokens, **SHORT))):
        job.expect(f"{what} with another tokenizer", job.run(words), 5, [tokens, "is not that of the model", "--tokenizer"], lines=1)
job.check("a refused run leaves no folder", not os.path.exists(training.path("tuned")))

words = ("--tokenizer", training.tokens)
again, made = prepare("again", stories[:3000], *words)
job.expect("another text with the run's tokenizer", made, 0, lines=0)
for command in (["eval", training.path("kept"), "--tokens", again],
                ["generate", training.path("kept"), "--prompt", "the ", "--tokens", "5", "--tokens-file", again]):
    job.expect(f"{command[0]} with it", job.run(command), 0, lines=0)
_, made = prepare("greek", "ωmega " * 100, *words)
job.expect("a text that the run's tokenizer does not know", made, 5, ["greek.txt", "not in the vocabulary"], lines=1)
_, made = prepare("none", stories, "--tokenizer", training.path("missing.h5"))
job.expect("a tokenizer that is not there", made, 2, ["missing.h5", "byte and char and sentencepiece; or a path"], lines=1)

# 4. Zero is a number, not a default.
for option, value, said in (("--stories", "0", "--stories is 0"), ("--stories", "-1", "--stories is -1"), ("--stories", "", "--stories"),
                            ("--bytes", "0", "--bytes is 0"), ("--bytes", "", "'' is not a size")):
    job.expect(f"synth stories {option} '{value}'", job.run(["data", "synth", "stories", "--out", training.path("zero.txt"), option, value]),
               2, [said], lines=1)
job.expect("prepare --validation 0", job.run(["data", "prepare", "--input", training.path("stories.txt"), "--out", training.path("zero.h5"),
                                             "--validation", "0"]), 2, ["validation is 0"], lines=1)
job.check("nothing was written", not any(os.path.exists(training.path(name)) for name in ("zero.txt", "zero.h5")))

job.failures += nodes.failures
folder.cleanup()
job.finish()
