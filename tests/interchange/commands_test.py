"""`cohort ckpt export` and `import` as people start them, and training from imported weights.

commands_test.py COHORT -- MPIRUN FLAG ..."""

import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "commands"))
from launched import Launched
from training import Training

def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


MLP = """\
[model]
kind = "mlp"
layers = 2
width = 8
[data]
kind = "two_moons"
samples = 64
[train]
steps = 1
"""


def test_export(job, training):
    run, path = training.path("run"), training.path
    out = job.run(["ckpt", "export", run, "--out", path("hf")])
    job.expect("export", out, 0, lines=0)
    parts = ("model.safetensors", "config.json", "gpt2", "no tokenizer that transformers reads", "fp32")
    job.check("export says what was written, and that transformers gets no tokenizer of characters", all(part in out[1] for part in parts), out[1])
    job.check("these files and no other", sorted(os.listdir(path("hf"))) == ["cohort_tokenizer.json", "config.json", "model.safetensors"])
    again = ["ckpt", "export", run, "--out", path("hf")]
    job.expect("a folder that is not empty", job.run(again), 2, ["not an empty folder"], 1)
    job.expect("shards over an earlier export",
               job.run([*again, "--overwrite", "--shard-size", "20KB", "--dtype", "bf16"]), 0)
    names = sorted(os.listdir(path("hf")))
    job.check("nothing is left of the earlier one",
              "model.safetensors" not in names and "model.safetensors.index.json" in names, names)
    with open(path("hf/config.json"), encoding="utf-8") as file:
        job.check("the type in config.json", json.load(file)["torch_dtype"] == "bfloat16")
    job.expect("no such checkpoint", job.run(["ckpt", "export", path("nowhere"), "--out", path("x")]), 6, ["nowhere"], 1)
    export = ["ckpt", "export", run, "--out", path("x")]
    job.expect("a size that is none", job.run([*export, "--shard-size", "big"]), 2, ["'big'"], 1)
    job.expect("a type that is none", job.run([*export, "--dtype", "int8"]), 2, ["int8"], 1)
    job.check("refusals write nothing", not os.path.exists(path("x")))
    job.expect("into the run itself", job.run(["ckpt", "export", run, "--out", run, "--overwrite"]), 2, ["a run's folder"], 1)
    job.check("... whose run file stays", os.path.exists(path("run/run.toml")))
    two = job.run(["ckpt", "export", run, "--out", path("two"), "--format", "safetensors"], ranks=2)
    job.expect("under mpirun one rank works and speaks", two, 0, lines=0)
    job.check("... and the other is silent", two[1].count("model.safetensors") == 1, two[1])


def test_mlp(job, training):
    path = training.path
    training.write("mlp.toml", MLP)
    job.expect("train an mlp", job.run(["train", path("mlp.toml"), "--set", f"run.directory={path('mlp')}"]), 0)
    job.expect("an mlp is not a model of transformers", job.run(["ckpt", "export", path("mlp"), "--out", path("x")]), 3,
               ["mlp", "--format safetensors"], 1)
    job.check("... refused before anything is written", not os.path.exists(path("x")))
    job.expect("an mlp as plain safetensors",
               job.run(["ckpt", "export", path("mlp"), "--out", path("mlp.plain"), "--format", "safetensors"]), 0)
    job.expect("... and back", job.run(["ckpt", "import", path("mlp.plain"), "--out", path("mlp.back")]), 0)
    same = [job.run(["eval", path(name), "--json"])[1].split('"validation_loss":')[1] for name in ("mlp", "mlp.back")]
    job.check("... with the same loss", same[0] == same[1], same)


def test_import_refusals(job, training):
    path = training.path
    shutil.rmtree(path("hf"))
    job.expect("export again", job.run(["ckpt", "export", path("run"), "--out", path("hf")]), 0)
    with open(path("hf/config.json"), encoding="utf-8") as file:
        config = json.load(file)

    def refused(what, change, parts, code=6):
        with open(path("hf/config.json"), "w", encoding="utf-8") as file:
            json.dump({**config, **change}, file)
        job.expect(what, job.run(["ckpt", "import", path("hf"), "--out", path("refused")]), code, parts, 1)
        job.check("... and nothing was written", not os.path.exists(path("refused")))

    refused("another activation", {"activation_function": "relu"}, ['"activation_function": "relu"'])
    refused("another model", {"model_type": "opt"}, ["opt"])
    refused("more layers than there are", {"n_layer": 2}, ["missing: transformer.h.1"])
    refused("a head of its own that is not there", {"tie_word_embeddings": False}, ["missing: lm_head.weight"])
    refused("another width", {"n_positions": 16}, ["transformer.wpe.weight is [32, 32] instead of [16, 32]"])
    with open(path("hf/config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    job.expect("a run folder in use", job.run(["ckpt", "import", path("hf"), "--out", path("run")]), 2, ["--overwrite"], 1)
    job.expect("no folder to import", job.run(["ckpt", "import", path("nowhere"), "--out", path("x")]), 6,
               ["nowhere", "config.json"], 1)
    shutil.copytree(path("hf"), path("shards"))
    os.rename(path("shards/model.safetensors"), path("shards/model-00001-of-00001.safetensors"))
    shutil.copy(path("shards/model-00001-of-00001.safetensors"), path("shards/model.safetensors"))
    with open(path("shards/model-00001-of-00001.safetensors"), "rb") as file:
        tensors = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    with open(path("shards/model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"weight_map": {name: "model-00001-of-00001.safetensors" for name in tensors if name != "__metadata__"}}, file)
    with open(path("shards/model.safetensors"), "r+b") as file:
        file.truncate(5000)  # whoever reads it fails
    done = job.run(["ckpt", "import", path("shards"), "--out", path("of_shards")])
    job.expect("the index decides", done, 0, lines=0)
    job.check("... and the other file is named", "note: model.safetensors is not read" in done[1], done[1])
    with open(path("hf/model.safetensors"), "r+b") as file:
        file.truncate(5000)
    job.expect("a truncated file", job.run(["ckpt", "import", path("hf"), "--out", path("x")]), 6,
               ["model.safetensors"], 1)


def test_tuning(job, training):
    """Training from imported weights starts where they are: its loss after a step of no size is theirs."""
    path = training.path
    job.expect("export", job.run(["ckpt", "export", path("run"), "--out", path("good")]), 0)
    done = job.run(["ckpt", "import", path("good"), "--out", path("imported"), "--run-file", path("tune.toml"),
                    "--tokens", training.tokens])
    job.expect("import", done, 0, lines=0)
    job.check("import says what to do next",
              all(part in done[1] for part in ("cohort eval", "cohort train", "step_00000000")), done[1])
    ours = json.loads(job.run(["eval", path("run"), "--json"])[1])["validation_loss"]
    imported = json.loads(job.run(["eval", path("imported"), "--json"])[1])["validation_loss"]
    # The run file of the import has another micro-batch: the same losses in another order of sums.
    job.check("the same loss", abs(ours - imported) < 1e-8, (ours, imported))
    still = {"train__steps": 1, "train__micro_batch": 2, "optimizer__learning_rate": 1e-12, "sample__tokens": 0}

    def tuned(name, ranks, **keys):
        done = job.run(training.words(name, run_file=path("tune.toml"), **still, **keys), ranks=ranks)
        job.expect(f"tuning: {name}", done, 0, lines=0)
        loss = (training.metrics(name) or [{"validation_loss": -1.0}])[-1]["validation_loss"]
        return done[1], loss

    for name, ranks, keys in (("one rank", 0, {}), ("two ranks, sharded", 2, {"parallel__data": "zero3"}),
                              ("two ranks, tensor-parallel", 2, {"parallel__tp": 2})):
        said, loss = tuned(name, ranks, **keys)
        job.check("... starts from the weights", abs(loss - ours) < 1e-5, (loss, ours))
        job.check("... and says so", "weights     from " + path("imported") in said, said)
    _, loss = tuned("from random weights", 0, run__initial_checkpoint="")
    job.check("... is another loss", abs(loss - ours) > 0.05, (loss, ours))
    words = training.words("other", run_file=path("tune.toml"), model__width=64)
    job.expect("weights of another model", job.run(words), 6, ["another model"], 1)
    words = training.words("other", run_file=path("tune.toml"), run__initial_checkpoint=path("nowhere"))
    job.expect("weights that are not there", job.run(words), 6, ["nowhere"], 1)
    job.expect("weights that --overwrite would delete",
               job.run(["train", path("tune.toml"), "--overwrite", "--set", f"run.directory={path('imported')}"]), 2,
               ["run.initial_checkpoint"], 1)
    job.check("... stay", training.checkpoints("imported") == [0])
    words = training.words("one rank", "--overwrite", run_file=path("tune.toml"), run__initial_checkpoint=path("nowhere"))
    job.expect("an earlier run is not deleted for weights that are not there", job.run(words), 6, ["nowhere"], 1)
    job.check("... stays", training.checkpoints("one rank") == [1])
    job.expect("an imported run cannot be resumed",
               job.run(["train", path("tune.toml"), "--resume", "--set", f"run.directory={path('imported')}"]), 6,
               ["cannot resume"], 1)
    job.expect("a second import over the first",
               job.run(["ckpt", "import", path("good"), "--out", path("imported"), "--overwrite"]), 0)


def test_export_of_each_checkpoint(job, training):
    """checkpoint.export: what `ckpt export` writes, beside each checkpoint that is kept, and gone with it."""
    path = training.path
    keys = {"train__steps": 6, "train__validate_every": 0, "checkpoint__every": 2, "checkpoint__keep": 2, "sample__tokens": 0,
            "schedule__warmup_steps": 1, "checkpoint__export": "hf"}

    def exported():
        return sorted(os.listdir(path("each/export")))

    def same_as_command(step):
        out = path(f"by_command_{step}")
        job.expect("export", job.run(["ckpt", "export", path("each"), "--step", str(step), "--out", out]), 0)
        return all(open(os.path.join(out, name), "rb").read() == open(path(f"each/export/step_{step:08d}/{name}"), "rb").read()
                   for name in ("cohort_tokenizer.json", "config.json", "model.safetensors"))

    job.expect("train with exports", job.run(training.words("each", **keys), ranks=2), 0, lines=0)
    job.check("an export for each checkpoint that is kept", exported() == ["step_00000004", "step_00000006"], exported())
    job.check("... as `ckpt export` writes it", same_as_command(4) and same_as_command(6))
    os.makedirs(path("each/export/step_00000005"))
    with open(path("each/export/step_00000005/model.safetensors"), "w", encoding="utf-8") as file:
        file.write("mine")
    os.makedirs(path("each/export/step_00000008.partial"))  # what a killed one left
    more = {**keys, "train__steps": 8, "checkpoint__async": "true", "checkpoint__form": "per_rank"}
    job.expect("resume with exports", job.run(training.words("each", "--resume", **more), ranks=2), 0, lines=0)
    job.check("the former ones are gone with their checkpoints, and what others wrote stays",
              exported() == ["step_00000005", "step_00000006", "step_00000008"], exported())
    job.check("... of files per rank the same", same_as_command(8))
    done = job.run(training.words("each", "--overwrite", **{**keys, "train__steps": 2, "checkpoint__export": "safetensors"}), ranks=2)
    job.expect("a fresh run in the same folder", done, 0, lines=0)
    job.check("... removes the exports of the one before", exported() == ["step_00000002", "step_00000005"], exported())
    job.check("... but warns of what others wrote", "step_00000005 stays: " in done[1],
              done[1])
    job.check("... in the other form", sorted(os.listdir(path("each/export/step_00000002"))) ==
              ["cohort_tokenizer.json", "model.safetensors", "run.toml"])
    mlp = job.run(["train", path("mlp.toml"), "--set", f"run.directory={path('mlp2')}", "--set", "checkpoint.export=hf"])
    job.expect("a model that transformers has not", mlp, 3, ["mlp", "safetensors"], 1)
    job.check("... is refused before a checkpoint is written", not os.path.exists(path("mlp2/checkpoints")))


def test_tokenizers(job, training):
    """A BPE tokenizer goes out as transformers reads it, and comes back from either file."""
    path = training.path
    job.expect("a BPE vocabulary", job.run(["tokenizer", "train", "--input", path("stories.txt"), "--out", path("bpe.json"),
                                            "--vocabulary", "320"]), 0)
    job.expect("its tokens", job.run(["data", "prepare", "--input", path("stories.txt"), "--out", path("bpe.h5"), "--tokenizer",
                                      path("bpe.json")]), 0)
    job.expect("train on them", job.run(training.words("bpe", data__tokens=path("bpe.h5"), train__steps=30, sample__tokens=0)), 0)
    outcome = job.run(["ckpt", "export", path("bpe"), "--out", path("bpe-hf")])
    job.expect("export", outcome, 0, lines=0)
    job.check("... with a tokenizer for transformers", "tokenizer.json" in outcome[1] and "no tokenizer" not in outcome[1], outcome[1])

    def tokenizer(name):
        return job.run(["ckpt", "show", path(name), "--tokenizer"])[1]

    ours = tokenizer("bpe")
    job.expect("import", job.run(["ckpt", "import", path("bpe-hf"), "--out", path("bpe-both")]), 0, lines=0)
    job.check("... with the tokenizer", tokenizer("bpe-both") == ours and len(ours) > 1000)
    os.remove(path("bpe-hf/cohort_tokenizer.json"))
    job.expect("import from tokenizer.json", job.run(["ckpt", "import", path("bpe-hf"), "--out", path("bpe-hf-alone")]), 0, lines=0)
    job.check("... with the tokenizer", tokenizer("bpe-hf-alone") == ours, tokenizer("bpe-hf-alone")[:200])
    texts = {job.run(["generate", path(name), "--prompt", "Once", "--tokens", "12", "--temperature", "0"])[1] for name in ("bpe", "bpe-both", "bpe-hf-alone")}
    job.check("all generate the same text, without a token file", len(texts) == 1 and len(min(texts)) > 12, str(texts))
    os.rename(path("bpe-hf/tokenizer.json"), path("tokenizer.json"))
    job.expect("GPT-2's pair of files", job.run(["tokenizer", "export", "--tokenizer", path("bpe.json"), "--format", "vocab",
                                                "--out", path("bpe-hf")]), 0)
    job.expect("import from them", job.run(["ckpt", "import", path("bpe-hf"), "--out", path("bpe-pair")]), 0, lines=0)
    job.check("... with the tokenizer", tokenizer("bpe-pair") == ours, tokenizer("bpe-pair")[:200])
    with open(path("bpe-hf/tokenizer.json"), "wb") as file:
        file.write(bytes_of(path("tokenizer.json"))[:100])
    outcome = job.run(["ckpt", "import", path("bpe-hf"), "--out", path("bpe-without")])
    job.expect("import with a damaged tokenizer", outcome, 0, lines=0)
    job.check("... has the weights alone, and says so", "note: the tokenizer was not imported" in outcome[1], outcome[1])
    job.expect("... and generates with a token file alone", job.run(["generate", path("bpe-without"), "--prompt", "Once"]), 7,
               ["no tokenizer", "token file"], 1)


def main():
    job = Launched(sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        training = Training(job, folder)
        job.expect("train", job.run(training.words("run", train__steps=30)), 0)
        test_export(job, training)
        test_mlp(job, training)
        test_import_refusals(job, training)
        test_export_of_each_checkpoint(job, training)
        test_tuning(job, training)
        test_tokenizers(job, training)
    job.finish()


main()
