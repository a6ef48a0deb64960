"""The course under srun: a learner's code on two real nodes. As it is handed out, solved, and wrong: refused, proved equal, found to differ."""

import pathlib
import shutil
import sys

from slurm import ROOT, Slurm

slurm = Slurm(sys.argv[1:])
job, training = slurm.job, slurm.training
source = ROOT / "src/labs/03_collectives"
labs = pathlib.Path(slurm.folder) / "labs"
exercise = labs / source.name / "exercise.cpp"
exercise.parent.mkdir(parents=True)


def learner_has(file):
    """The file as the learner's. Libraries are named after the text, so that no node loads an old one."""
    shutil.copy(source / file, exercise)


def prove():
    return slurm.srun("--mpi=pmix", job.program, "prove", str(ROOT / "inputs/lab03_collectives.toml"), "--layout", "data=hooks", "--steps", "1",
                      "--set", f"run.directory={training.path('proof')}", "--set", "train.global_batch=16", "--set", "model.layers=3",
                      "--with", f"{exercise.parent}:ring_all_reduce")


learner_has("exercise.cpp")
job.expect("not written yet", prove(), 2, ["ring_all_reduce is not written yet"])
learner_has("solution.cpp")
code, stdout, stderr, _ = prove()
job.check("the solution on two nodes equals one rank", code == 0 and "equal" in stdout, f"{code}\n{stdout}{stderr}")
learner_has("wrong/ring_adds_twice.cpp")
code, stdout, stderr, _ = prove()
job.check("a wrong one differs", code == 11 and "DIFFERS" in stdout, f"{code}\n{stdout}{stderr}")

# Graded within a job: rank 0 does it, once.
code, stdout, stderr, _ = slurm.srun("--mpi=pmix", job.program, "lab", "check", "3.3", "--dir", str(labs))
job.check("check in a job", code == 11 and stdout.count("ring_all_reduce") == 1 and "twice" in stdout, f"{code}\n{stdout}{stderr}")

slurm.end()
