"""Ranks that break on purpose (`cohort train --fault`): each kind of fault ends the job within seconds, with the code and the reason that
people need, and leaves a whole checkpoint; started again with the same command, as a chain of jobs is, the run gets past it and ends with
the bits of a run that nobody disturbed.

    fault_test.py COHORT VERIFY_RUN -- MPIRUN FLAG ..."""

import os
import sys
import tempfile

from fault_chain import LAST, LOST, RUN, FaultChain
from launched import Launched
from training import Training

SECONDS = 20  # from mpirun to the end, on a busy machine

verify_run = sys.argv[2]
job = Launched([sys.argv[1], *sys.argv[3:]])
folder = tempfile.TemporaryDirectory(prefix="cohort_fault_")
training = Training(job, folder.name)

# What stderr says of a rank that is gone, each a choice of texts. Two see that a process has ended, mpirun and Cohort's monitor, and
# either may be the first: the exit code is that of the rank or LOST.
EXITED, SIGNALLED = ("Process name: [[", "ended without a message"), ("mpirun noticed that process rank ", "ended without a message")
# Kind and place; ranks; exit codes; what stderr says. The step is that of the fault, however many steps lie between two beats.
MATRIX = [
    ("exit:rank=1,step=1,code=3", (2, 3), (3, LOST), [EXITED, (",1],1]", "rank 1 of "), ("Exit code:    3", "at step 1: ")]),
    ("exit:rank=2,step=4,phase=save,code=41", (3,), (41, LOST), [EXITED, (",1],2]", "rank 2 of ")]),
    ("abort:rank=1,step=5,phase=backward", (3,), (134, LOST), [SIGNALLED, ("process rank 1 ", "rank 1 of "), ("signal 6", "at step 5: backward")]),
    ("kill:rank=0,step=7,phase=communication", (2,), (137, LOST), [("process rank 0 ", "rank 0 (process", "rank 0 of ")]),
    ("segv:rank=1,step=9,phase=optimizer", (3,), (139, LOST), [SIGNALLED, ("process rank 1 ", "rank 1 of "), ("signal 11", "at step 9: optimizer")]),
    ("throw:rank=1,step=12,phase=forward", (2,), (1,), ["rank 1 of ", " on ", "in step 12: ", "fault.kind"]),
    ("nan:rank=1,step=14", (3,), (8,), ["step 14: loss nan", "embedding on rank 1", "--resume"]),
    ("disk:rank=1,step=15", (2,), (7,), ["rank 1 of 2 on ", "in step 15: ", "train.log", "is the disk full?"]),
    ("disk:rank=0,step=16,phase=save", (3,), (7,), ["step_00000016", "File too large"]),
    ("stop:rank=1,step=18", (2,), (LOST,), ["rank 1 of 2 on ", "stopped by a signal", "at step 18: "]),
    ("hang:rank=1,step=18,phase=backward", (3,), (LOST,), ["rank 1 of 3 on ", "is stuck at step 18: backward"]),
]

for count in (2, 3):
    chain = FaultChain(training, verify_run, lambda words, ranks=count: job.run(words, ranks), SECONDS)
    chain.run(f"ranks{count}", [(fault, codes, parts) for fault, ranks, codes, parts in MATRIX if count in ranks])

# A step that is lost to NaN need not be the end: the others skip it with the rank that had it.
skipped = job.run(training.words("skipped", "--fault", "nan:rank=0,step=3", train__on_nonfinite="skip", **RUN), 2)
job.expect("train.on_nonfinite = skip survives NaN", skipped, 0, lines=0)
job.check("one step was skipped", [line["step"] for line in training.metrics("skipped") if line.get("skipped")] == [3])

# Without a launcher, in a run file; and asked for again after it has been.
broken = training.write("broken.toml", open(training.run_file, encoding="utf-8").read() + "\n[fault]\nkind = \"exit\"\ncode = 5\n")
job.check("a single process, by the run file", job.run(training.words("alone", run_file=broken, **RUN))[0] == 5)
job.check("once = false: again", job.run(training.words("alone", "--set", "fault.once=false", run_file=broken, **RUN))[0] == 5)
job.expect("once is the default", job.run(training.words("alone", run_file=broken, **RUN)), 0, lines=0)

# Refused before anything starts.
for what, words, ranks, parts in (
    ("a rank that is not there", ["--fault", "exit:rank=2,step=5"], 2, ["--fault exit:rank=2,step=5", "fault.rank = 2", "0 to 1"]),
    ("a step beyond the run", ["--fault", f"exit:step={LAST + 1}"], 0, [f"fault.step = {LAST + 1}", f"train.steps = {LAST}"]),
    ("an unknown kind", ["--fault", "exti"], 0, ["did you mean \"exit\"?"]),
    ("a GPU to lose on a CPU", ["--fault", "device"], 0, ["device.kind is \"cpu\""]),
):
    job.expect(what, job.run(training.words("refused", *words, **RUN), ranks), 3, parts, lines=1)
job.check("refused runs leave no run folder", not os.path.exists(training.path("refused")))

folder.cleanup()
job.finish()
