"""Values that no command may take for numbers, and numbers that no command may take for results: NaN on the command line, in run files and
in models; ranges and assignments in messages; rows of a model that have no text."""

import json
import struct
import sys
import tempfile

from launched import Launched
from training import Training

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_values_")
training = Training(job, folder.name)

SHORT = {"train__steps": 4, "schedule__warmup_steps": 2, "train__validate_every": 2}
job.expect("a run to work with", job.run(training.words("run", **SHORT), 2), 0, lines=0)
RUN = training.path("run")


def refuse(what, words, code, *parts):
    outcome = job.run(words)
    job.expect(what, outcome, code, parts, lines=1)
    job.check(f"{what}: no number of 309 digits", "0000000000" not in outcome[2], outcome[2])
    job.check(f"{what}: nothing on stdout", outcome[1] == "", outcome[1])


# 1. The command line. Nothing is started with NaN, an infinity or what is out of range, and the range is told in words.
for value in ("nan", "-nan", "inf", "-inf", "-1", "1e999"):
    refuse(f"--temperature {value}", ["generate", RUN, "--prompt", "a", "--temperature", value], 2, "--temperature", "0 and at most 1000")
    refuse(f"plan --memory-gib {value}", ["plan", training.run_file, "--suggest", "--memory-gib", value], 2, "a number above 0")
    refuse(f"bench step --bucket-mib {value}", ["bench", "step", "--bucket-mib", value], 2, "a number above 0")
for value in ("nan", "inf", "-1"):
    refuse(f"ckpt diff --tolerance {value}", ["ckpt", "diff", RUN, RUN, "--tolerance", value], 2, "--tolerance")
    refuse(f"plan --transfer-ms {value}",
           ["plan", "--schedule", "1f1b", "--stages", "2", "--micro-batches", "4", "--transfer-ms", value], 3, "--transfer-ms")
    refuse(f"data prepare --validation {value}",
           ["data", "prepare", "--input", training.path("stories.txt"), "--out", training.path("x.h5"), "--validation", value], 2, "validation")
    refuse(f"--set optimizer.learning_rate={value}", training.words("refused", optimizer__learning_rate=value), 3, "out of range")
    refuse(f"--fault slow:seconds={value}", training.words("refused", "--fault", f"slow:seconds={value}"), 3, "out of range")
refuse("--top-k -1", ["generate", RUN, "--prompt", "a", "--top-k", "-1"], 2, "--top-k", "an integer of at least 0, but is -1")
refuse("--tokens 0", ["generate", RUN, "--prompt", "a", "--tokens", "0"], 2, "--tokens", "an integer from 1 to 1000000, but is 0")
refuse("eval --samples 1.5", ["eval", RUN, "--samples", "1.5"], 2, "--samples", "an integer of at least 0, but is 1.5")
refuse("eval --batches", ["eval", RUN, "--batches", "8"], 2, "did you mean --samples?")
for words in (["--set", "model.heads", "8"], ["--set", "model.heads"]):
    for command in ("train", "plan", "prove"):
        refuse(f"{command} {' '.join(words)}", [command, training.run_file, *words], 2, "'model.heads' has no value", "--set model.heads=VALUE")

# 2. Keys: 1e1 is an integer; a key of the file can be given its default again.
outcome = job.run(training.words("resolved", "--dry-run", "--unset", "train.global_batch", "--unset", "optimizer.learning_rate",
                                 train__steps="1e1"))
job.expect("--unset, and 1e1 steps", outcome, 0, lines=0)
for line in ("steps = 10 ", "global_batch = 2 ", "learning_rate = 0.001 "):
    job.check(f"... gives {line}", f"\n{line}" in outcome[1], outcome[1])
refuse("--unset of an unknown key", training.words("refused", "--unset", "train.stesp"), 3, "--unset train.stesp", "did you mean train.steps?")

# 3. Text of a model with more rows than the tokenizer has tokens; whoever makes such a one is told.
outcome = job.run(training.words("rows", **SHORT, model__vocabulary=3000, sample__temperature=1000), 2)
job.expect("a sample of a model with 3,000 rows", outcome, 0, ["warning: model.vocabulary = 3000", "model.vocabulary = 0", "the loss may jump"],
           lines=1)
for temperature, top_k in (("0", "0"), ("1000", "0"), ("1000", "2999"), ("0.8", "1")):
    outcome = job.run(["generate", training.path("rows"), "--prompt", "Once", "--tokens", "200", "--temperature", temperature, "--top-k", top_k])
    job.expect(f"generate from it, temperature {temperature}, top-k {top_k}", outcome, 0, lines=0)
    job.check("... 200 characters", len(outcome[1]) == len("Once") + 200 + 1, outcome[1])

# 4. A model with NaN: no loss, no text, no training, nothing saved; rank and layer are named. On a pipeline's parts, too.
job.expect("export", job.run(["ckpt", "export", RUN, "--out", training.path("plain"), "--format", "safetensors"]), 0, lines=0)
with open(training.path("plain/model.safetensors"), "r+b") as file:
    (length,) = struct.unpack("<Q", file.read(8))
    name, entry = next((n, e) for n, e in json.loads(file.read(length)).items() if "blocks" in n and n.endswith("weight"))
    file.seek(8 + length + entry["data_offsets"][0])
    file.write(struct.pack("<f", float("nan")))
job.expect("import", job.run(["ckpt", "import", training.path("plain"), "--out", training.path("nan")]), 0, lines=0)
for ranks in (0, 2):
    for more in ([], ["--json"]):
        outcome = job.run(["eval", training.path("nan"), *more], ranks)
        job.expect(f"eval of NaN, {ranks} ranks {more}", outcome, 8, ["validation loss is", "that of blocks.0 on rank 0"], lines=1)
        job.check("... nothing on stdout", outcome[1] == "", outcome[1])
questions = training.write("q.jsonl", json.dumps({"ctx": "a", "endings": ["b", "c"], "label": 1}) + "\n")
for ranks in (0, 2):
    outcome = job.run(["eval", training.path("nan"), "--choices", questions, "--json"], ranks)
    job.expect(f"multiple choice of NaN, {ranks} ranks", outcome, 8, ["q.jsonl:1: the log-likelihood of ending 0 is not a number"], lines=1)
    job.check("... nothing on stdout", outcome[1] == "", outcome[1])
refuse("text of NaN", ["generate", training.path("nan"), "--prompt", "a", "--temperature", "0"], 8, "token 1", "blocks.0")
outcome = job.run(["generate", training.path("nan"), "--prompt", "a", "--layout", "tp=2"], 2)
job.expect("text of NaN, on two ranks", outcome, 8, ["token 1", "that of blocks.0 on rank 0"], lines=1)
job.check("... nothing on stdout", outcome[1] == "", outcome[1])
starts = job.run(training.words("from-nan", run__initial_checkpoint=training.path("nan"), **SHORT), 2)
job.expect("training from NaN", starts, 8, ["step 1", "that of blocks.0 on rank 0"], lines=1)
job.check("... saves nothing", training.checkpoints("from-nan") == [], str(training.checkpoints("from-nan")))

starts = job.run(training.words("nan-at-start", run__initial_checkpoint=training.path("nan"), train__validate_at_start="true", **SHORT), 2)
job.expect("... and a validation before its first step", starts, 8, ["step 0: the validation loss is", "that of blocks.0 on rank 0"], lines=1)

# 5. A classifier has a loss, but no perplexity.
MLP = "[model]\nkind = \"mlp\"\nlayers = 2\nwidth = 8\n[data]\nkind = \"two_moons\"\nsamples = 64\n[train]\nsteps = 2\nmicro_batch = 8\n"
moons = training.write("moons.toml", MLP)
job.expect("an mlp", job.run(training.words("moons", run_file=moons)), 0, lines=0)
outcome = job.run(["eval", training.path("moons")])
job.expect("its evaluation", outcome, 0, lines=0)
job.check("... without a perplexity", "validation loss" in outcome[1] and "perplexity" not in outcome[1], outcome[1])
job.check("... a transformer has one", "perplexity" in job.run(["eval", RUN])[1])

folder.cleanup()
job.finish()
