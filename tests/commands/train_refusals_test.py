"""Bad input to `cohort train`, on one rank and on four: one message that names place, value and remedy, a documented exit code on all
ranks, within seconds, and nothing lost."""

import os
import shutil
import stat
import sys
import tempfile

from launched import Launched
from training import RUN_FILE, Training

SECONDS = 20  # from mpirun to the end, on a busy machine

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_train_")
training = Training(job, folder.name)


def refuse(what, words, code, parts, all_ranks=(0, 4)):
    for ranks in all_ranks:
        job.expect(f"{what}, {ranks} ranks", job.run(words, ranks), code, parts, lines=1, seconds=SECONDS)


def changed(name, old, new):
    """A run file with one line changed, and the place of that line in messages."""
    text = RUN_FILE.replace("TOKENS", training.tokens)
    assert text.count(old) == 1, old
    path = training.write(name + ".toml", text.replace(old, new))
    return path, f"{path}:{text[:text.index(old)].count(chr(10)) + 1}: "


# 1. The run file.
for name, old, new, parts in (
    ("unknown key", "width = 32", "widht = 32", ["model.widht", "did you mean model.width?"]),
    ("unknown section", "[optimizer]", "[optimiser]", ["[optimiser]", "did you mean [optimizer]?"]),
    ("wrong type", "steps = 60", 'steps = "many"', ["train.steps", 'the string "many"']),
    ("out of range", "dropout = 0.1", "dropout = 1.5", ["model.dropout", "1.5"]),
    ("heads that do not divide the width", "width = 32", "width = 33", ["model.width = 33", "model.heads = 2", "32 or 34"]),
    ("a batch that ranks do not divide", "global_batch = 8", "global_batch = 7", ["train.global_batch = 7", "that fit"]),
    ("warm-up longer than the run", "warmup_steps = 5", "warmup_steps = 60", ["schedule.warmup_steps = 60", "train.steps = 60"]),
    ("a key without effect", "dropout = 0.1", "rope_theta = 5.0", ["model.rope_theta", "llama", "remove"]),
    ("not TOML", "steps = 60", "steps = = 60", ["not valid TOML"]),
):
    path, place = changed(name.replace(" ", "-"), old, new)
    refuse(name, training.words("refused", run_file=path), 3, [place, *parts])
refuse("an empty run file", training.words("refused", run_file=training.write("nothing.toml", "")), 3, ["nothing.toml", "empty"])
refuse("no such run file", training.words("refused", run_file=training.path("missing.toml")), 7, ["missing.toml", "No such file"])
refuse("a folder as run file", training.words("refused", run_file=folder.name), 7, [folder.name, "directory"])
refuse("no run file", ["train"], 2, ["no run file given", "cohort train --help"])

refuse("a model that no memory holds", training.words("refused", model__width=262144), 10,
       ["the run does not fit into the memory of", "is available", "train.micro_batch"])

# 2. The command line.
refuse("--set without a value", training.words("refused", "--set", "train.steps"), 2, ["'train.steps' has no value", "--set train.steps=VALUE"])
refuse("--set of an unknown key", training.words("refused", train__stesp=3), 3, ["train.stesp", "did you mean train.steps?"])
refuse("--set of a wrong value", training.words("refused", train__steps="3x"), 3, ["train.steps=3x", "not valid TOML"])
refuse("--resume and --overwrite", training.words("refused", "--resume", "--overwrite"), 2, ["--overwrite"])
for strategy in ("monolith", "manual"):
    refuse(f"{strategy} on several ranks", training.words("refused", parallel__data=strategy), 3, [strategy, "one rank"], [4])
refuse("tf32 on a CPU", training.words("refused", precision__policy="tf32"), 3, ["--set precision.policy=tf32", "bf16 or fp16"])
refuse("fp8 on a CPU", training.words("refused", precision__policy="fp8"), 3, ["--set precision.policy=fp8", "compute capability 8.9", "bf16"])
refuse("a loss scale without fp16", training.words("refused", precision__policy="bf16", precision__loss_scale=2), 3, ["fp16", "remove"])
refuse("a layout that the ranks do not fill", training.words("refused", parallel__dp=3, train__global_batch=0), 3, ["dp 3"])

# 3. The data.
with open(training.path("void.h5"), "wb"):
    pass
training.write("text.h5", "Once upon a time there was no token file.")
with open(training.tokens, "rb") as file:
    tokens = file.read()
for name, damaged in (("cut.h5", tokens[:len(tokens) // 2]),
                      ("flipped.h5", tokens[:len(tokens) // 2] + bytes([tokens[len(tokens) // 2] ^ 1]) + tokens[len(tokens) // 2 + 1:])):
    with open(training.path(name), "wb") as file:
        file.write(damaged)
for what, name, code, parts in (
    ("no such token file", "missing.h5", 7, ["missing.h5", "no such token file"]),
    ("an empty token file", "void.h5", 5, ["void.h5"]),
    ("a text as token file", "text.h5", 5, ["text.h5"]),
    ("a folder as token file", ".", 7, [folder.name, "directory"]),
    ("a token file that is cut", "cut.h5", 5, ["cut.h5"]),
    ("a token file with a flipped bit", "flipped.h5", 5, ["flipped.h5"]),
):
    refuse(what, training.words("refused", data__tokens=training.path(name)), code, parts)
refuse("data shorter than a context", training.words("refused", model__context=100000), 5,
       ["stories.h5", "context of 100000", "set model.context to"])
refuse("fewer samples than one batch", training.words("refused", train__micro_batch=2048, train__global_batch=0), 3,
       ["stories.h5", "samples are fewer", "train.global_batch"])
refuse("a vocabulary too small", training.words("refused", model__vocabulary=5), 3, ["model.vocabulary = 5", "stories.h5"])
refuse("a prompt of unknown characters", training.words("refused", sample__prompt="Ωmega"), 5, ["sample.prompt"])
job.check("refused runs leave no run folder", not os.path.exists(training.path("refused")))

# 4. Runs and checkpoints.
refuse("--resume without a checkpoint", training.words("refused", "--resume"), 6, ["no complete checkpoint", "run.directory"])
SHORT = {"train__steps": 8, "sample__tokens": 0}
job.expect("a short run", job.run(training.words("kept", **SHORT), 2), 0, lines=0)
refuse("a run that is there", training.words("kept", **SHORT), 2, ["kept", "--resume", "--overwrite"])
refuse("a checkpoint of another model", training.words("kept", "--resume", model__layers=2), 6, ["another model", "layers=1"])
refuse("a changed schedule", training.words("kept", "--resume", schedule__decay_steps=60), 3,
       ["schedule.decay_steps: 8", "60 now", "--allow-changes"])
refuse("nothing left to do", training.words("kept", "--resume", **SHORT), 3, ["8 steps", "raise train.steps"])
model = training.path("kept/checkpoints/step_00000008/model.h5")
with open(model, "r+b") as file:
    size = os.path.getsize(model)
    file.seek(size // 2)
    byte = file.read(1)
    file.seek(size // 2)
    file.write(bytes([byte[0] ^ 16]))
refuse("a damaged checkpoint", training.words("kept", "--resume", schedule__decay_steps=8), 6, ["model.h5"])
refuse("--overwrite of a run by one that cannot run", training.words("kept", "--overwrite", train__micro_batch=2048, train__global_batch=0),
       3, ["samples are fewer"])
job.check("refused runs delete nothing", training.checkpoints("kept") == [8] and len(training.metrics("kept")) == 8)
training.write("file", "in the way of a run folder")
refuse("a file where the run folder should be", training.words("file"), 7, [training.path("file")])

# 5. One rank alone sees other files than the rest, as on a node with a broken mount: every rank works in a folder of its own, and the
# run file and the token file are named relative to it.
wrapper = training.write("in_own_folder", f"#!/bin/sh\ncd {folder.name}/node$OMPI_COMM_WORLD_RANK && exec {job.program} \"$@\"\n")
os.chmod(wrapper, stat.S_IRWXU)
nodes = Launched([wrapper, "--", *job.mpirun])
for rank in range(4):
    os.mkdir(training.path(f"node{rank}"))
    shutil.copy(training.run_file, training.path(f"node{rank}/own.toml"))
    shutil.copy(training.tokens, training.path(f"node{rank}/own.h5"))
OWN = training.words("nodes", run_file="own.toml", data__tokens="own.h5", **SHORT)
nodes.expect("every rank in a folder of its own", nodes.run(OWN, 4), 0, lines=0, seconds=60)
OWN.append("--overwrite")


def refuse_rank_2(what, file, replacement, code, parts):
    """Rank 2 alone gets `replacement` (bytes; None: nothing) in the place of `file`."""
    path = training.path(f"node2/{file}")
    with open(path, "rb") as whole:
        before = whole.read()
    os.remove(path)
    if replacement is not None:
        with open(path, "wb") as changed_file:
            changed_file.write(replacement)
    nodes.expect(f"{what} on rank 2 alone", nodes.run(OWN, 4), code, parts, lines=1, seconds=SECONDS)
    with open(path, "wb") as restored:
        restored.write(before)


with open(training.prepare("other", seed=9, tokenizer=training.tokens), "rb") as file:
    other = file.read()
with open(training.prepare("bytes", seed=3, tokenizer="byte"), "rb") as file:
    by_byte = file.read()
with open(training.run_file, "rb") as file:
    longer = file.read().replace(b"layers = 1", b"layers = 2")
refuse_rank_2("no token file", "own.h5", None, 7, ["rank 2 on ", "own.h5", "no such token file"])
refuse_rank_2("a cut token file", "own.h5", tokens[:100], 5, ["rank 2 on ", "own.h5"])
refuse_rank_2("no run file", "own.toml", None, 7, ["rank 2 on ", "own.toml", "No such file"])
refuse_rank_2("a wrong run file", "own.toml", b"[model]\nwidht = 3\n", 3, ["rank 2 on ", "own.toml:2", "model.width"])
refuse_rank_2("another run file", "own.toml", longer, 3, ["own.toml", "differs between ranks: rank 2 on ", "'model.layers = 2' where rank 0 on ", "'model.layers = 1'"])
refuse_rank_2("another token file", "own.h5", other, 5, ["own.h5", "differs between ranks: rank 2 on ", "'/train of ", "where rank 0 on "])
refuse_rank_2("a token file of another vocabulary", "own.h5", by_byte, 5,
              ["own.h5", "differs between ranks: rank 2 on ", "'a tokenizer of byte, ", "where rank 0 on ", "'a tokenizer of char, "])
with open(training.path("flipped.h5"), "rb") as file:
    refuse_rank_2("a flipped bit", "own.h5", file.read(), 5, ["rank 2 on ", "own.h5: /train: tokens 0 to ", "checksum mismatch"])
job.failures += nodes.failures

folder.cleanup()
job.finish()
