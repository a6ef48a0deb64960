"""A mixture of sources with stages: the same samples for any ranks, layout and micro-batch, what `cohort data samples` says of them and how
many are of each source; a run resumed where a stage begins; losses of each source; and what is refused."""

import json
import os
import re
import shutil
import sys
import tempfile

from launched import Launched
from training import DRIFT, RUN_FILE, Training

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_mixture_")
training = Training(job, folder.name)
path = training.path
WEB, CODE = training.prepare("web", seed=5, size="24KiB", tokenizer="byte"), training.prepare("code", seed=6, size="12KiB", tokenizer="byte")
STEPS, CHANGE, BATCH = 16, 7, 12
WEIGHTS = {"web": 0.7, "code": 0.3}, {"web": 0.25, "code": 0.75}
MIXTURE = training.write("mixture.toml", RUN_FILE.replace('tokens = "TOKENS"\n', "") + f"""
[[data.sources]]
name = "web"
tokens = "{WEB}"

[[data.sources]]
name = "code"
tokens = "{CODE}"

[[data.stages]]
from_step = 1
weights = {{ web = 0.7, code = 0.3 }}

[[data.stages]]
from_step = {CHANGE}
weights = {{ web = 1, code = 3 }}
""")
KEYS = {"train__steps": STEPS, "train__global_batch": BATCH, "train__micro_batch": 2, "train__validate_every": 8,
        "train__validation_samples": 0, "schedule__warmup_steps": 2, "schedule__decay_steps": STEPS, "sample__tokens": 0}


def words(name, *more, run_file=MIXTURE, **keys):
    return training.words(name, *more, run_file=run_file, **{**KEYS, **keys})


def samples(*more):
    outcome = job.run(["data", "samples", *more, "--json"])
    job.expect(" ".join(map(str, more[1:])), outcome, 0, lines=0)
    return json.loads(outcome[1])["samples"] if outcome[0] == 0 else []


def logged(name, rank, step):
    found = re.search(rf"step {step} loss .* samples ([\w/ ,]+)", training.log(name, rank))
    return re.findall(r"\w+/\d+", found[1]) if found else []


# 1. The same samples, and so the same losses, for every number of ranks, layout and micro-batch.
LAYOUTS = (("one", 1, {}), ("two", 2, {"train__micro_batch": 3}), ("three", 3, {}), ("four", 4, {"train__micro_batch": 1}),
           ("tensor", 2, {"parallel__tp": 2, "train__micro_batch": 6}))
for name, ranks, keys in LAYOUTS:
    job.expect(f"train {name}", job.run(words(name, **keys), ranks), 0, lines=0)
    pairs = [(a["loss"], b["loss"]) for a, b in zip(training.metrics(name), training.metrics("one"))]
    job.check(f"{name}: the losses of one rank", len(pairs) == STEPS and all(abs(a - b) < DRIFT * b for a, b in pairs), str(pairs))
    for step in (1, CHANGE - 1, CHANGE, STEPS):
        rows = samples(path(name), "--step", str(step))
        names = [f"{row['source']}/{row['sample']}" for row in rows]
        job.check(f"{name}: the samples of step {step}", sorted(names) == sorted(logged("one", 0, step)) and len(set(names)) == BATCH, str(names))
        for rank in range(ranks):
            mine = [name_ for name_, row in zip(names, rows) if row["dp_rank"] == (0 if "parallel__tp" in keys else rank)]
            job.check(f"... of rank {rank}", mine == logged(name, rank, step), f"{mine} {logged(name, rank, step)}")

# 2. Within one sample of the weights at each moment of each stage; of a source each sample once per epoch; and with its text.
order = [row for step in range(1, STEPS + 1) for row in samples(path("one"), "--step", str(step))]
for stage, (first, end) in enumerate(((1, CHANGE), (CHANGE, STEPS + 1))):
    rows = order[(first - 1) * BATCH:(end - 1) * BATCH]
    for n in range(BATCH, len(rows) + 1, BATCH):
        taken = sum(row["source"] == "web" for row in rows[:n])
        job.check(f"stage {stage + 1}, {n} samples: {taken} of web", abs(taken - WEIGHTS[stage]["web"] * n) < 1)
for source in WEIGHTS[0]:
    drawn = [(row["epoch"], row["sample"]) for row in order if row["source"] == source]
    job.check(f"{source}: no sample twice in an epoch", len(set(drawn)) == len(drawn), str(drawn))
text = {name: open(path(name + ".txt"), encoding="utf-8").read() for name in WEIGHTS[0]}
job.check("the text is that of the source", all(row["text"] == text[row["source"]][row["tokens"][0]:row["tokens"][1]] for row in order))
table = job.run(["data", "samples", path("one"), "--step", "3"])[1]
job.check("as a table", "source" in table.splitlines()[0] and len(table.splitlines()) == 1 + BATCH and "code" in table, table)
epochs = training.metrics("one")[-1]["epoch_of"]
counts = {name: sum(row["source"] == name for row in order) for name in epochs}
shares = {name: counts[name] / epochs[name] for name in epochs}  # the samples of each source
job.check("epochs of each source", abs(shares["web"] / shares["code"] - 2) < 0.1, f"{epochs} {counts}")

# 3. Resumed where the second stage begins, and next to it: bit for bit.
for stop in (CHANGE - 2, CHANGE - 1, CHANGE):
    name = f"resumed{stop}"
    job.expect(f"stopped at step {stop}", job.run(words(name, train__steps=stop, train__micro_batch=3), 2), 0, lines=0)
    job.expect("... goes on", job.run(words(name, "--resume", train__micro_batch=3), 2), 0, lines=0)
    job.check("... to the same bits", training.sums(name, STEPS) == training.sums("two", STEPS))

# 4. What is measured: each source, and all together by their tokens, for any ranks.
last = training.metrics("one")[-1]
of, bits = last["validation_loss_of"], last["validation_bits_per_byte_of"]
job.check("losses of both sources", list(of) == ["web", "code"] and min(of.values()) < last["validation_loss"] < max(of.values()), str(last))
total = {}
for name, file in (("web", WEB), ("code", CODE)):
    outcome = job.run(["eval", path("one"), "--tokens", file, "--json"])
    job.expect(f"eval of {name} alone", outcome, 0, lines=0)
    total[name] = json.loads(outcome[1])
    job.check("... is the loss of the source", abs(total[name]["validation_loss"] - of[name]) < 1e-6 * of[name], f"{total[name]} {of}")
    job.check("... and so are its bits per byte", abs(total[name]["validation_bits_per_byte"] - bits[name]) < 1e-6 * bits[name], f"{total[name]} {bits}")
mean = sum(t["validation_loss"] * t["targets"] for t in total.values()) / sum(t["targets"] for t in total.values())
for ranks in (1, 3):
    outcome = job.run(["eval", path("one"), "--json"], ranks)
    job.expect(f"eval on {ranks} ranks", outcome, 0, lines=0)
    figures = json.loads(outcome[1])
    job.check("... is the mean over all tokens", abs(figures["validation_loss"] - mean) < 1e-6 * mean, f"{figures} {mean}")
    job.check("... and says each", all(abs(figures["validation_loss_of"][name] - of[name]) < 1e-6 * of[name] for name in of), str(figures))
    job.check("... with perplexity and bits per byte", all(
        abs(figures["perplexity_of"][name] - total[name]["perplexity"]) < 1e-5 * total[name]["perplexity"] and
        abs(figures["validation_bits_per_byte_of"][name] - bits[name]) < 1e-6 * bits[name] for name in of), f"{figures} {total}")
    job.check("... of both", figures["targets"] == sum(t["targets"] for t in total.values()), f"{figures} {total}")
limited = json.loads(job.run(["eval", path("one"), "--samples", "2", "--json"])[1])
job.check("so many samples of each source", limited["samples"] == 4 and len(limited["validation_loss_of"]) == 2, str(limited))
said = job.run(["eval", path("one")])[1]
job.check("eval for people", re.search(r"\n  web: \d\.\d{6} nats \(perplexity [\d.]+, \d\.\d{4} bits per byte\)\n", said) and "\n  code: " in said and "the mixture of web, code" in said, said)

# 5. Every layout is one rank's training.
code, stdout, stderr, _ = job.run(["prove", MIXTURE, "--set", f"train.global_batch={BATCH}", "--set", "data.stages.2.from_step=2", "--steps",
                                   "3", "--layout", "data=zero2", "--layout", "tp=2", "--json"], 4, timeout=120)
job.check("prove", code == 0 and all(layout["equal"] for layout in json.loads(stdout)["layouts"]), stdout + stderr)

# 6. What is said before the start.
dry = ["train", MIXTURE, *(word for key, value in KEYS.items() for word in ("--set", f"{key.replace('__', '.')}={value}")), "--dry-run"]
code, stdout, stderr, _ = job.run(dry)
job.check("a dry run describes the mixture", code == 0 and re.search(r"source +web: .*web\.h5, \d+ samples, 0\.\d\d epochs", stdout) and
          "stage       from step 7: 75 % code, 25 % web" in stdout and not stderr, stdout + stderr)
job.expect("many epochs are a warning", job.run([*dry, "--set", "train.steps=200"]), 0, ["the run goes through 'code' 5", "Muennighoff"], lines=1)

# 7. A resumed run has the mixture that it had: stages, contents, names.
job.expect("other weights", job.run(words("resumed6", "--resume", train__steps=18, data__stages__2__weights__web=2)), 3,
           ["data.stages:", "--allow-changes"], lines=1)
STAGE = {"data__stages": '[{weights={web=0.7,code=0.3}},{from_step=7,weights={web=1,code=3}},{from_step=17,weights={code=1}}]'}
job.expect("a stage more", job.run(words("resumed6", "--resume", "--allow-changes", train__steps=18, **STAGE), 2), 0, lines=0)
job.check("... is taken", all(name.startswith("code/") for rank in (0, 1) for name in logged("resumed6", rank, 17)), training.log("resumed6", 0))
OTHER = training.prepare("other", seed=9, size="12KiB", tokenizer="byte")
job.expect("another content", job.run(words("resumed7", "--resume", train__steps=18, data__sources__2__tokens=OTHER)), 3,
           ["data: mixture web/train=", "--allow-changes"], lines=1)
shutil.copy(CODE, path("copy.h5"))
job.expect("the same under another name", job.run(words("resumed7", "--resume", train__steps=18, data__sources__2__tokens=path("copy.h5")), 2), 0, lines=0)
job.expect("a single file instead", job.run(training.words("resumed5", "--resume", **{**KEYS, "train__steps": 18}, data__tokens=WEB)), 3, ["data:"], lines=1)

# 8. Sources that do not go together.
char = training.prepare("char", seed=6, size="12KiB")
job.expect("another tokenizer", job.run(words("bad", data__sources__2__tokens=char), 2), 5, ["char.h5: its tokenizer (char", "web.h5", "--tokenizer"], lines=1)
job.expect("no such file", job.run(words("bad", data__sources__2__tokens="nowhere.h5"), 2), 7, ["nowhere.h5: no such token file"], lines=1)
job.expect("too little data", job.run(words("bad", train__global_batch=600), 2), 3, ["data.sources: 'code' has", "a step takes up to"], lines=1)
job.expect("one file beside them", job.run(words("bad", data__tokens=WEB)), 3, ["data.tokens names one token file"], lines=1)
job.expect("no stage", job.run([*words("bad"), "--unset", "data.stages"]), 3, ["without weights"], lines=1)
job.expect("an unknown source", job.run(words("bad", data__stages__1__weights__wev=1)), 3, ["'wev'", "did you mean web?"], lines=1)

# 9. No token file is needed to generate.
for file in (WEB, CODE):
    os.remove(file)
job.expect("generate", job.run(["generate", path("one"), "--prompt", "Once", "--tokens", "5"]), 0, lines=0)
folder.cleanup()
job.finish()
