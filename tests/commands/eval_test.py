"""`cohort eval`, and the tokenizer in checkpoints: what is measured does not depend on ranks, layouts and micro-batches; several checkpoints
side by side; multiple choice; no token file is needed to decode; and data that was changed under its name."""

import json
import os
import shutil
import sys
import tempfile
import zlib

from launched import Launched
from training import Training

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_eval_")
training = Training(job, folder.name)
path = training.path
SHORT = {"train__steps": 12, "schedule__warmup_steps": 2, "schedule__decay_steps": 12, "checkpoint__every": 4, "sample__tokens": 0}
RUN = path("run")
job.expect("a run", job.run(training.words("run", checkpoint__form="per_rank", **SHORT), 2), 0, lines=0)


def evaluated(what, *words, ranks=0):
    outcome = job.run(["eval", *words, "--json"], ranks)
    job.expect(what, outcome, 0, lines=0)
    return json.loads(outcome[1]) if outcome[0] == 0 else {}


# 1. The same figures for every number of ranks and every layout, and for other micro-batches, up to the rounding of fp32.
alone = evaluated("eval, one rank", RUN)
job.check("... with all figures", set(alone) == {"step", "validation_loss", "validation_bits_per_byte", "perplexity", "targets", "samples",
                                                 "of"}, str(alone))
job.check("... of all samples, a byte a token", alone["targets"] == 32 * alone["samples"] and
          abs(alone["validation_bits_per_byte"] - alone["validation_loss"] / 0.6931471805599453) < 1e-9, str(alone))
layouts = [(ranks, None) for ranks in (1, 2, 3, 4)] + [(2, "tp=2"), (2, "cp=2"), (4, "tp=2,sequence=true"),
                                                      (2, "tp=2,sequence=true,tensor_overlap=true"), (2, "dp=2,data=zero3"), (3, "dp=3")]
for ranks, layout in layouts:
    figures = evaluated(f"eval, {ranks} ranks, {layout}", RUN, *(["--layout", layout] if layout else []), ranks=ranks)
    near = abs(figures.get("validation_loss", 0.0) - alone["validation_loss"]) < 1e-6 * alone["validation_loss"]
    job.check("... the same", near and all(figures[key] == alone[key] for key in ("step", "targets", "samples")), f"{figures}\n{alone}")
for micro_batch in (1, 5):
    name = f"micro{micro_batch}"
    keys = {**SHORT, "train__steps": 1, "schedule__warmup_steps": 0, "schedule__decay_steps": 1, "train__global_batch": 0,
            "train__micro_batch": micro_batch, "train__validation_samples": 0, "optimizer__learning_rate": 1e-12}
    job.expect(name, job.run(training.words(name, run__initial_checkpoint=RUN, **keys)), 0, lines=0)
    loss = evaluated(f"eval of {name}", path(name))["validation_loss"]
    job.check("... the same", abs(loss - alone["validation_loss"]) < 1e-6 * loss, f"{loss} {alone}")
deep = {**SHORT, "model__layers": 4, "train__steps": 4, "schedule__decay_steps": 4}
job.expect("a deeper run", job.run(training.words("deep", **deep)), 0, lines=0)
whole = evaluated("eval of it", path("deep"))
for ranks, layout in ((2, "pp=2"), (4, "pp=2,tp=2"), (4, "pp=4")):
    figures = evaluated(f"eval, {layout}", path("deep"), "--layout", layout, ranks=ranks)
    job.check("... the same", abs(figures.get("validation_loss", 0.0) - whole["validation_loss"]) < 1e-6 * whole["validation_loss"],
              f"{figures}\n{whole}")
job.expect("a layout of fewer ranks", job.run(["eval", RUN, "--layout", "dp=1"], 2), 2, ["one of 1 ranks, but the job has 2"], lines=1)
job.expect("a layout that does not fit", job.run(["eval", RUN, "--layout", "tp=3"], 3), 3, ["tp"], lines=1)

# 2. Several, as a table and as JSON.
steps = evaluated("--steps all", RUN, "--steps", "all")
job.check("... each step", [item["step"] for item in steps] == [4, 8, 12], str(steps))
job.check("... the last is that of the run", steps[-1]["validation_loss"] == alone["validation_loss"], str(steps))
some = evaluated("--steps 12,4", RUN, "--steps", "12,4", ranks=2)
job.check("... in this order", [item["step"] for item in some] == [12, 4], str(some))
both = evaluated("--steps 4 of two runs", RUN, path("deep"), "--steps", "4")
job.check("... each by its name", [item["checkpoint"] for item in both] == [RUN, path("deep")], str(both))
outcome = job.run(["eval", RUN, path("deep"), "--step", "4"])
job.expect("a table", outcome, 0, lines=0)
lines = outcome[1].splitlines()
job.check("... of two", len(lines) == 3 and "bits per byte" in lines[0] and lines[1].startswith(RUN) and "perplexity" in lines[0], outcome[1])
job.expect("--steps of a checkpoint", job.run(["eval", RUN + "/checkpoints/step_00000004", "--steps", "all"]), 2, ["give the folder of its run"], 1)
job.expect("--steps that is none", job.run(["eval", RUN, "--steps", "4,x"]), 2, ["must be all, or steps"], 1)
job.expect("--steps that are not there", job.run(["eval", RUN, "--steps", "5"]), 6, ["4", "8", "12"], 1)
job.expect("--steps and --step", job.run(["eval", RUN, "--steps", "all", "--step", "4"]), 2, ["--step"], 1)

# 3. Without the token file: the tokenizer is in the checkpoint, in both forms, through whatever writes it again.
away = shutil.move(training.tokens, path("away.h5"))
GENERATE = ["--prompt", "Once there was", "--tokens", "30"]
text = job.run(["generate", RUN, *GENERATE])
job.expect("generate without a token file", text, 0, lines=0)
job.run(["ckpt", "consolidate", RUN, "--out", path("whole")])
job.run(["ckpt", "reshard", path("whole"), "--layout", "tp=2", "--out", path("shards")])
job.run(["ckpt", "export", RUN, "--out", path("plain"), "--format", "safetensors"])
job.run(["ckpt", "import", path("plain"), "--out", path("back")])
job.run(["ckpt", "export", RUN, "--out", path("hf")])
job.run(["ckpt", "import", path("hf"), "--out", path("from-hf")])
shown = job.run(["ckpt", "show", RUN, "--tokenizer"])[1]
job.check("ckpt show prints the tokenizer", json.loads(shown).get("kind") == "char", shown)
for name in ("whole", "shards", "back", "from-hf"):
    again = job.run(["generate", path(name), *GENERATE])
    job.expect(f"generate from {name}", again, 0, lines=0)
    job.check("... the same text", again[1] == text[1], again[1])
    job.check("... the same tokenizer", job.run(["ckpt", "show", path(name), "--tokenizer"])[1] == shown)
outcome = job.run(["ckpt", "diff", RUN, path("whole")])
job.check("ckpt diff finds no difference", outcome[0] == 0 and "tokenizer" not in outcome[1], outcome[1])

# As of a checkpoint from before: then the token file is asked for.
shutil.copytree(RUN, path("old"))
manifest = path("old/checkpoints/step_00000012/manifest.json")
with open(manifest, encoding="utf-8") as file:
    content = json.load(file)
content["texts"] = [item for item in content["texts"] if item["name"] != "/tokenizer"]
content["manifest_crc32"] = "00000000"
sealed = json.dumps(content, indent=1)
with open(manifest, "w", encoding="utf-8") as file:
    head, _, tail = sealed.rpartition('"00000000"')
    file.write(f'{head}"{zlib.crc32(sealed.encode()):08x}"{tail}')
job.expect("generate from an old checkpoint", job.run(["generate", path("old"), *GENERATE]), 7, [training.tokens, "no tokenizer", "token file"], 1)
outcome = job.run(["generate", path("old"), *GENERATE, "--tokens-file", away])
job.expect("... with the token file", outcome, 0, lines=0)
job.check("... the same text", outcome[1] == text[1], outcome[1])
outcome = job.run(["ckpt", "diff", RUN, path("old")])
job.check("ckpt diff says that it has none, and that this does not matter", outcome[0] == 0 and "none" in outcome[1], outcome[1])
job.expect("eval of a token file that is not there", job.run(["eval", RUN]), 7, ["no such token file"], 1)

# 4. Multiple choice, also without the token file, and the same in every layout.
QUESTIONS = [{"ctx": "Once there was a kind child named Mia. Mia lived in a small house", "endings": ["near the sea.", "dog"], "label": 0},
             {"context": "She picked red poppies and tied them with a", "endings": ["tttt", "ribbon.", "a. a. a."], "label": "1"},
             {"ctx": "That night, she", "endings": ["slept very well.", "ttttt"], "label": 1}]
questions = training.write("questions.jsonl", "".join(json.dumps(question) + "\n" for question in QUESTIONS))
alone = evaluated("choices, one rank", RUN, "--choices", questions)
job.check("... figures", set(alone) == {"step", "choices_accuracy", "choices_accuracy_normalised", "questions", "of"} and alone["questions"] == 3,
          str(alone))
for ranks, layout in ((1, None), (2, None), (3, None), (4, None), (2, "tp=2"), (2, "cp=2"), (4, "dp=4,data=zero3")):
    figures = evaluated(f"choices, {ranks} ranks, {layout}", RUN, "--choices", questions, *(["--layout", layout] if layout else []), ranks=ranks)
    job.check("... the same", figures == alone, f"{figures}\n{alone}")
whole = evaluated("choices of the deeper run", path("deep"), "--choices", questions)
job.check("... in a pipeline", evaluated("pp=2,dp=2", path("deep"), "--choices", questions, "--layout", "pp=2,dp=2", ranks=4) == whole, str(whole))
job.check("--samples takes the first ones", evaluated("one", RUN, "--choices", questions, "--samples", "1").get("questions") == 1)
outcome = job.run(["eval", RUN, "--steps", "all", "--choices", questions], 2)
job.expect("choices of several steps", outcome, 0, lines=0)
job.check("... as a table", len(outcome[1].splitlines()) == 4 and "by length" in outcome[1], outcome[1])
bad = training.write("bad.jsonl", json.dumps(QUESTIONS[0]) + "\n" + json.dumps({**QUESTIONS[1], "label": 7}) + "\n")
for ranks in (0, 2):
    job.expect(f"a bad line, {ranks} ranks", job.run(["eval", RUN, "--choices", bad], ranks), 5, ["bad.jsonl:2: \"label\" is 7"], 1)
job.expect("no questions", job.run(["eval", RUN, "--choices", training.write("none.jsonl", "\n")]), 5, ["none.jsonl: no questions"], 1)
job.expect("no file", job.run(["eval", RUN, "--choices", path("nowhere.jsonl")], 2), 7, ["nowhere.jsonl"], 1)

# 5. Other data under the same name is not resumed from, unless that is asked for; then checkpoints tell of it.
shutil.move(away, training.tokens)
more = {**SHORT, "train__steps": 16}
kept = shutil.copy(training.tokens, path("kept.h5"))
other = training.write("other.txt", open(path("stories.txt"), encoding="utf-8").read()[::-1])
job.expect("other data", job.run(["data", "prepare", "--input", other, "--out", path("other.h5"), "--tokenizer", kept]), 0, lines=0)
shutil.copy(path("other.h5"), training.tokens)
outcome = job.run(training.words("run", "--resume", checkpoint__form="per_rank", **more), 2)
job.expect("other data under the same name", outcome, 3, ["data: stories.h5 train=", "in the checkpoint", "--allow-changes"], 1)
job.check("... nothing was trained", training.checkpoints("run") == [4, 8, 12], str(training.checkpoints("run")))
outcome = job.run(training.words("run", "--resume", "--allow-changes", checkpoint__form="per_rank", **more), 2)
job.check("... and it is accepted if that is asked for", outcome[0] == 0 and "accepted change: data: " in outcome[1], outcome[1] + outcome[2])
job.check("... as the checkpoints tell", "from step 13: data: stories.h5" in job.run(["ckpt", "show", RUN])[1])
fewer = training.write("fewer.txt", "abcdefgh" * 500)
job.run(["data", "prepare", "--input", fewer, "--out", path("fewer.h5"), "--tokenizer", "char"])
shutil.copy(path("fewer.h5"), training.tokens)
outcome = job.run(training.words("run", "--resume", checkpoint__form="per_rank", **{**more, "train__steps": 20}), 2)
job.expect("other data with another vocabulary", outcome, 3, ["of other data", "data: stories.h5 train=", "tokenizer: char, vocabulary="], 1)
# The tokens alone, not what the file says of them: the block checksums find it.
with open(kept, "rb") as file:
    content = bytearray(file.read())
content[len(content) // 2] ^= 1
with open(training.tokens, "wb") as file:
    file.write(content)
outcome = job.run(training.words("deep", "--resume", **{**deep, "train__steps": 6}))
job.expect("tokens changed behind their checksums", outcome, 5, [training.tokens], 1)

# 6. A classifier has an accuracy, the same on all ranks.
MLP = "[model]\nkind = \"mlp\"\nlayers = 2\nwidth = 16\n[data]\nkind = \"two_moons\"\nsamples = 256\n[train]\nsteps = 200\nmicro_batch = 16\n"
moons = training.write("moons.toml", MLP + "[optimizer]\nlearning_rate = 0.02\n")
job.expect("an mlp", job.run(training.words("moons", run_file=moons)), 0, lines=0)
alone = evaluated("its accuracy", path("moons"))
job.check("... is high", 0.85 < alone["validation_accuracy"] <= 1.0 and "validation_bits_per_byte" not in alone, str(alone))
for ranks in (2, 3, 4):
    job.check(f"... the same on {ranks}", evaluated(f"{ranks} ranks", path("moons"), ranks=ranks)["validation_accuracy"] ==
              alone["validation_accuracy"])
job.check("... and in the metrics", training.metrics("moons")[-1].get("validation_accuracy") == alone["validation_accuracy"],
          str(training.metrics("moons")[-1]))
job.expect("choices of an mlp", job.run(["eval", path("moons"), "--choices", questions]), 2, ["mlp", "reads no text"], 1)

# 7. Before the first step; with questions at each validation.
extra = {"train__validate_at_start": "true", "train__validation_choices": questions, "train__validate_every": 6, "train__validation_questions": 2}
shutil.copy(kept, training.tokens)
outcome = job.run(training.words("start", **SHORT, **extra), 2)
job.expect("a validation before the first step", outcome, 0, lines=0)
metrics = training.metrics("start")
job.check("... is that of step 0", [line["step"] for line in metrics] == list(range(13)) and "loss" not in metrics[0], str(metrics[:1]))
job.check("... with figures at each validation", [line["step"] for line in metrics if "choices_accuracy" in line] == [0, 6, 12], str(metrics))
job.check("... which the console shows", "step 0: validation loss" in outcome[1] and "choices" in outcome[1], outcome[1])
job.expect("a bad line in training", job.run(training.words("refused", **SHORT, train__validation_choices=bad), 2), 5, ["bad.jsonl:2"], 1)

folder.cleanup()
job.finish()
