"""`cohort ckpt reshard` and `cohort ckpt consolidate` as people use them: between runs of other layouts, without a launcher; what they
refuse, and that a refusal leaves everything as it was."""

import json
import os
import sys
import tempfile

from launched import Launched
from training import Training

STEP = "checkpoints/step_00000004"

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_reshard_")
training = Training(job, folder.name)
path = training.path


def manifest(name):
    with open(path(f"{name}/{STEP}/manifest.json"), encoding="utf-8") as file:
        return json.load(file)


def files(name):
    """Name and content of each file of a checkpoint."""
    found = {}
    for entry in os.listdir(path(f"{name}/{STEP}")):
        with open(path(f"{name}/{STEP}/{entry}"), "rb") as file:
            found[entry] = file.read()
    return found


def tool(what, *words, code=0, parts=()):
    outcome = job.run(["ckpt", *words])
    job.expect(what, outcome, code, parts, lines=0 if code == 0 else 1)
    return outcome[1]


def train(what, name, *more, ranks=2, **keys):
    keys = {"schedule__warmup_steps": 2, **keys}
    job.expect(what, job.run(training.words(name, *more, **keys), ranks), 0, lines=0)


# 1. Two ranks train; their checkpoint becomes one of four shards, and another run goes on from it.
train("two ranks train", "run", train__steps=4, schedule__decay_steps=8, checkpoint__form="per_rank",
      parallel__data="zero1")
original = files("run")
said = tool("reshard for four ranks", "reshard", path("run"), "--layout", "dp=4,data=zero3", "--out", path("four"))
job.check("it says what it wrote", "4 ranks" in said and STEP in said, said)
job.check("a file for each of four ranks",
          [file["name"] for file in manifest("four")["files"]] == ["model.h5"] + [f"rank_{rank:05}.h5" for rank in range(4)])
job.check("the original is as it was", files("run") == original)
shown = {name: json.loads(tool(f"show {name}", "show", path(name), "--json")) for name in ("run", "four")}
for of in shown.values():
    del of["file"], of["bytes"], of["tensors"]  # sums over other parts round otherwise
job.check("state and run file are the same", shown["run"] == shown["four"], str(shown))
tool("tensors are the same", "diff", path("run"), path("four"))

train("one rank goes on from the original", "run", "--resume", ranks=1, train__steps=8, checkpoint__form="consolidated")
train("and one from the new files", "four", "--resume", ranks=1, train__steps=8, checkpoint__form="consolidated")
after = [json.load(open(path(f"{name}/checkpoints/step_00000008/manifest.json"), encoding="utf-8"))["tensors"] for name in ("run", "four")]
job.check("to the same bits", after[0] == after[1] and len(after[0]) > 10)

# 2. Back to one file: where it is, and elsewhere.
tool("consolidate elsewhere", "consolidate", path("four/" + STEP), "--out", path("whole"))
tool("consolidate in place", "consolidate", path("four/" + STEP))
job.check("both are the same files", files("four") == files("whole") and sorted(files("whole")) == ["manifest.json", "model.h5"])
job.check("nothing is left beside it", sorted(os.listdir(path("four/checkpoints"))) == ["step_00000004", "step_00000008"])
tool("weights alone in 16 bits", "consolidate", path("whole"), "--out", path("small"), "--weights-only", "--dtype", "bf16")
job.check("a sixth of the size, and the overhead of HDF5",
          len(files("small")["model.h5"]) < 0.35 * len(files("whole")["model.h5"]))
job.check("weights alone, all rounded", {(t["name"].split("/")[1], t["dtype"]) for t in manifest("small")["tensors"]} == {("model", "bf16")})
tool("reshard in place", "reshard", path("whole"), "--layout", "dp=2,data=zero1", "--in-place")
job.check("are the files that the ranks wrote", files("whole") == original)

# 3. What is refused.
before = files("whole")
for what, words, code, parts in (
    ("an output that exists", ["consolidate", path("run"), "--out", path("whole")], 2, ["--overwrite", path("whole")]),
    ("no place for the output", ["reshard", path("run"), "--layout", "dp=2"], 2, ["--out", "--in-place"]),
    ("a layout that the heads do not fit", ["reshard", path("run"), "--layout", "tp=3", "--out", path("no")], 3, ["heads"]),
    ("a layout that the batch does not fit", ["reshard", path("run"), "--layout", "dp=3", "--out", path("no")], 3, ["8"]),
    ("an unknown strategy", ["reshard", path("run"), "--layout", "data=zero9", "--out", path("no")], 3, ["zero9"]),
    ("no such run", ["consolidate", path("nowhere"), "--out", path("no")], 6, ["nowhere"]),
):
    tool("refused: " + what, *words, code=code, parts=parts)
os.rename(path("small/" + STEP), path("moved"))
tool("refused: in place where there is no run", "consolidate", path("moved"), code=2, parts=["--out"])
job.check("a refusal leaves all as it was", files("whole") == before and not os.path.exists(path("no")))
tool("an output that exists and may go", "consolidate", path("four/" + STEP), "--out", path("whole"), "--overwrite")
job.check("is replaced", files("whole") == files("four"))

# 4. Into the folder of a run that saves meanwhile: what it writes stays; what a killed attempt of one's own left goes.
checkpoints = path("whole/checkpoints")
saving, own, former = (os.path.join(checkpoints, name) for name in (".step_00000009.tmp", ".step_00000004.tmp", ".step_00000004.old"))
for name, words in (("elsewhere", ["reshard", path("run/" + STEP), "--layout", "dp=4,data=zero3", "--out", path("whole"), "--overwrite"]),
                    ("in place", ["consolidate", path("whole/" + STEP)])):
    for leftover in (saving, own, former):
        os.makedirs(leftover, exist_ok=True)
        with open(os.path.join(leftover, "rank_00077.h5"), "w", encoding="utf-8") as file:
            file.write("some elements")
    tool(f"beside a save in progress, {name}", *words)
    job.check("the save in progress is as it was", os.path.exists(os.path.join(saving, "rank_00077.h5")), str(os.listdir(checkpoints)))
    job.check("one's own leftovers are gone", not os.path.exists(own) and not os.path.exists(former) and "rank_00077.h5" not in files("whole"))

job.finish()
