"""What is there and was not written by the run, or by the command, stays: in folders given by mistake, in run folders with files of
others in them, behind links and mount points, and where commands are told to write."""

import os
import shutil
import subprocess
import sys
import tempfile

from launched import Launched, environment_without_launcher
from training import Training

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_folder_")
training = Training(job, folder.name)
SHORT = {"train__steps": 4, "schedule__warmup_steps": 1, "checkpoint__every": 2, "train__validate_every": 0, "sample__tokens": 0}


def write(name, text="mine\n"):
    os.makedirs(os.path.dirname(training.path(name)), exist_ok=True)
    return training.write(name, text)


def contents(name):
    """All that is in a folder: folders, the targets of links, the texts of files."""
    found = {}
    for place, folders, files in os.walk(training.path(name)):
        for entry in folders + files:
            path = os.path.join(place, entry)
            if os.path.islink(path):
                found[path] = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    found[path] = file.read()
            else:
                found[path] = None
    return found


def refuse(what, name, code, parts, *more, ranks=0, **keys):
    before = contents(name)
    job.expect(what, job.run(training.words(name, *more, **{**SHORT, **keys}), ranks), code, parts, lines=1)
    job.check(f"{what}: nothing is changed", contents(name) == before, str(contents(name).keys() ^ before.keys()))


def expect_run(what, name, *more, ranks=0, **keys):
    outcome = job.run(training.words(name, *more, **{**SHORT, **keys}), ranks)
    job.expect(what, outcome, 0, lines=0)
    return outcome[1]


def expect_kept(what, *names):
    lost = [name for name in names if not os.path.exists(training.path(name))]
    changed = [name for name in names if name not in lost and open(training.path(name), encoding="utf-8").read() != "mine\n"]
    job.check(what, not lost and not changed, f"lost {lost}, changed {changed}")


# 1. A folder given by mistake.
write("proj/checkpoints/best/x")
write("proj/logs/notes.txt")
for ranks in (0, 2):
    for more in ((), ("--resume-if-any",), ("--overwrite",), ("--resume",)):
        refuse(f"a project's folder, {ranks} ranks {' '.join(more)}", "proj", 2, [training.path("proj/checkpoints"), "run.directory"], *more,
               ranks=ranks)
for number, name in enumerate(("checkpoints/best/x", "checkpoints/step_00000002/notes.txt", "logs/notes.txt", "metrics.jsonl", "run.toml",
                               "flight/rank_00000.json", "faults/exit.rank0.step1.start", "save")):
    write(f"mistake{number}/{name}")
    for more in ((), ("--overwrite",), ("--resume-if-any",)):
        refuse(f"a folder with {name} {' '.join(more)}", f"mistake{number}", 2, [training.path(f"mistake{number}/{name.split('/')[0]}")], *more)
write("locked/lock")
refuse("a file called lock", "locked", 7, [training.path("locked/lock"), "not written by Cohort"])

# 2. One that has other things in it is as good as any.
write("project/src/main.c")
write("project/step_00000002/x")
os.mkdir(training.path("project/logs"))
expect_run("a folder with other things in it", "project")
expect_run("... again", "project", "--overwrite")
expect_kept("... which stay", "project/src/main.c", "project/step_00000002/x")
job.check("... and now it is a run's", os.path.exists(training.path("project/cohort-run")))

# 3. Files of others in the folder of a run.
OTHERS = ("notes.txt", "logs/notes.txt", "logs/rank_0/notes.txt", "logs/rank_7.txt", "checkpoints/best/x", "checkpoints/notes.txt",
          "flight/notes.txt", "faults/notes.txt", "slurm/5-task0.log")
expect_run("a run on two ranks", "own", ranks=2)
for name in OTHERS:
    write("own/" + name)
expect_run("goes on", "own", "--resume", train__steps=6)
for ranks in (0, 2):
    refuse(f"a model that no memory holds, {ranks} ranks", "own", 10, ["does not fit into the memory of"], "--overwrite", ranks=ranks, model__width=262144)
expect_run("starts over on one rank", "own", "--overwrite")
expect_kept("what is not the run's stays", *("own/" + name for name in OTHERS))
job.check("what is the run's starts anew", training.checkpoints("own") == [2, 4] and len(training.metrics("own")) == 4)
job.check("... and the log of the other rank is gone", not os.path.exists(training.path("own/logs/rank_1")))
write("own/checkpoints/step_00000002/notes.txt")
refuse("a file of others in a checkpoint", "own", 2, ["step_00000002/notes.txt", "not written by Cohort"], "--overwrite")
outcome = job.run(["ckpt", "prune", training.path("own"), "--keep", "1"])
job.check("... is not pruned, either", outcome[0] == 0 and training.checkpoints("own") == [2, 4] and "notes.txt" in outcome[1], outcome[1])

# 4. The folder of a run of an earlier version, without the mark.
expect_run("a run", "former")
os.remove(training.path("former/cohort-run"))
refuse("is one without its mark, too", "former", 2, ["--resume", "--overwrite"])
expect_run("starts over", "former", "--overwrite")
os.remove(training.path("former/cohort-run"))
os.remove(training.path("former/run.toml"))
refuse("with nothing to show for it, it is none", "former", 2, ["cohort-run"], "--overwrite")
job.check("... until a person says so", not training.write("former/cohort-run", "") == "")
expect_run("... then it is", "former", "--overwrite")

# 5. A step whose manifest has not arrived yet.
for name in ("coming", "alone"):
    expect_run(f"a run, {name}", name)
    os.remove(training.path(name + "/checkpoints/step_00000004/manifest.json"))
shutil.rmtree(training.path("alone/checkpoints/step_00000002"))
for more in (("--overwrite",), ("--resume-if-any",), ("--resume",)):
    for name in ("coming", "alone"):
        refuse(f"an incomplete step, {name} {more[0]}", name, 6, ["step_00000004", "manifest.json", "copied"], *more, ranks=2, train__steps=6)
refuse("an incomplete step alone", "alone", 6, ["step_00000004", "manifest.json"])

# 6. Links stay links: of the checkpoints, the logs and the metrics.
os.makedirs(training.path("scratch/logs"))
os.makedirs(training.path("linked"))
write("scratch/notes.txt")
for link, target in (("checkpoints", "scratch"), ("logs", "scratch/logs"), ("metrics.jsonl", "scratch/metrics.jsonl")):
    os.symlink(training.path(target), training.path("linked/" + link))
os.remove(training.path("linked/checkpoints"))  # a link to a folder with a file of others would be a mistake
os.makedirs(training.path("scratch/steps"))
os.symlink(training.path("scratch/steps"), training.path("linked/checkpoints"))
os.remove(training.path("linked/metrics.jsonl"))
expect_run("checkpoints on scratch", "linked")
shutil.move(training.path("linked/metrics.jsonl"), training.path("scratch/metrics.jsonl"))
os.symlink(training.path("scratch/metrics.jsonl"), training.path("linked/metrics.jsonl"))
write("scratch/steps/notes.txt")
for what, more in (("start over", ["--overwrite"]), ("go on", ["--resume"])):
    expect_run(f"links {what}", "linked", *more, train__steps=4 if "--overwrite" in more else 6)
    job.check(f"links {what} and stay", all(os.path.islink(training.path("linked/" + name)) for name in ("checkpoints", "logs", "metrics.jsonl")))
job.check("what is behind them is the run's", sorted(os.listdir(training.path("scratch/steps"))) ==
          ["notes.txt", "step_00000002", "step_00000004", "step_00000006"], str(os.listdir(training.path("scratch/steps"))))
job.check("and so are the metrics", [line["step"] for line in training.metrics("linked")] == list(range(1, 7)))

# 7. A mount point, where one may be made.
os.makedirs(training.path("mounted/checkpoints"))
words = " ".join(f"'{word}'" for word in [job.program, *training.words("mounted", **SHORT)])
script = f"mount -t tmpfs tmpfs '{training.path('mounted/checkpoints')}' || exit 77; {words} && {words} --overwrite"
done = subprocess.run(["unshare", "--mount", "sh", "-c", script], env=environment_without_launcher(), capture_output=True, text=True,
                      check=False) if shutil.which("unshare") else None
if done and done.returncode not in (1, 77):
    job.check("checkpoints in a mount point", done.returncode == 0, done.stderr)
else:
    print("skipped: no mount namespaces here")

# 8. Commands that write a file.
path = training.path
text, tokens = write("text.txt", "a text that is not synthetic, and long enough for a token file. " * 20), path("tokens.h5")
JOB = ["job", "--jobs", os.path.join(os.path.dirname(__file__), "../../jobs"), "--template", "single_node", "--site", "laptop", "--run",
       training.run_file, "--ranks", "2", "--check", "no"]
for what, words, option, file in (
    ("job", JOB, "--out", "job.sbatch"),
    ("data synth stories", ["data", "synth", "stories", "--stories", "3"], "--out", "synth.txt"),
    ("data prepare", ["data", "prepare", "--input", text], "--out", "prepared.h5"),
    ("plan", ["plan", "--schedule", "1f1b", "--stages", "2", "--micro-batches", "2"], "--svg", "plan.svg"),
    ("ckpt show", ["ckpt", "show", path("project")], "--svg", "weights.svg"),
):
    write(file)
    command = [*words, option, path(file)]
    job.expect(f"{what}: a file that is there", job.run(command), 2, [path(file), "--overwrite"], lines=1)
    expect_kept(f"{what}: stays", file)
    os.symlink(path(file), path(file + ".link"))
    job.expect(f"{what}: is replaced with --overwrite, through a link", job.run([*words, option, path(file + ".link"), "--overwrite"]), 0, lines=0)
    job.check(f"{what}: the link stays", os.path.islink(path(file + ".link")) and open(path(file), "rb").read() != b"mine\n")
    for written in (path(file), path(file + ".json")):
        if os.path.exists(written):
            os.remove(written)
    job.expect(f"{what}: a new file", job.run(command), 0, lines=0)
    os.mkfifo(path(file + ".pipe"))
    job.expect(f"{what}: no file", job.run([*words, option, path(file + ".pipe"), "--overwrite"]), 2, [path(file + ".pipe")], lines=1)
write("facts.txt.json")
job.expect("synth: the file beside", job.run(["data", "synth", "stories", "--stories", "3", "--out", path("facts.txt")]), 2,
           ["facts.txt.json"], lines=1)
expect_kept("synth: the file beside stays", "facts.txt.json")

# 9. Exports and imports replace what Cohort exported and imported.
write("hub/config.json")
write("hub/model.safetensors")
export = ["ckpt", "export", path("project"), "--out", path("hub")]
job.expect("an export over another tool's model", job.run([*export, "--overwrite"]), 2, ["hub/", "not exported by Cohort"], lines=1)
expect_kept("... which stays", "hub/config.json", "hub/model.safetensors")
write("descriptions/config.json")
job.expect("... over its configuration", job.run([*export[:-1], path("descriptions"), "--overwrite"]), 2, ["config.json"], lines=1)
shutil.rmtree(path("hub"))
job.expect("an export", job.run(export), 0, lines=0)
write("hub/README.md")
job.expect("... is replaced", job.run([*export, "--overwrite", "--shard-size", "20KB"]), 0, lines=0)
expect_kept("... and nothing else", "hub/README.md")
write("imported/checkpoints/best/x")
job.expect("an import", job.run(["ckpt", "import", path("hub"), "--out", path("imported"), "--overwrite"]), 0, lines=0)
job.expect("... again", job.run(["ckpt", "import", path("hub"), "--out", path("imported"), "--overwrite"]), 0, lines=0)
expect_kept("... leaves what is not Cohort's", "imported/checkpoints/best/x")
os.remove(path("imported/checkpoints/step_00000000/manifest.json"))
job.expect("... and what is incomplete", job.run(["ckpt", "import", path("hub"), "--out", path("imported"), "--overwrite"]), 6,
           ["step_00000000", "manifest.json"], lines=1)
job.check("... as it was", os.path.exists(path("imported/checkpoints/step_00000000/model.h5")))

folder.cleanup()
job.finish()
