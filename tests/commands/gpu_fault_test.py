"""Ranks that break on purpose while they train on GPUs, two of them: what the CPUs' fault_test.py shows, where the other rank waits inside of a
kernel of NCCL's, and with a GPU that is lost.

    gpu_fault_test.py COHORT VERIFY_RUN -- MPIRUN FLAG ..."""

import subprocess
import sys
import tempfile

from fault_chain import LOST, FaultChain
from launched import Launched
from training import Training

SECONDS = 45  # from mpirun to the end: CUDA and NCCL take some seconds to start
STUCK, STOPPED = "is stuck", "stopped by a signal"

if subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60).stdout.count("GPU ") < 2:
    print("skipped: two GPUs are needed, for NCCL")
    sys.exit(77)
verify_run = sys.argv[2]
job = Launched([sys.argv[1], *sys.argv[3:]])
folder = tempfile.TemporaryDirectory(prefix="cohort_gpu_fault_")
training = Training(job, folder.name)
MATRIX = [
    ("kill:rank=1,step=3,phase=communication", (137, LOST), [("process rank 1 ", "rank 1 of 2 on ")]),
    ("device:rank=1,step=6,phase=forward", (1,), ["rank 1 of 2 on ", "in step 6: ", "cudaError"]),
    ("hang:rank=1,step=9,phase=backward", (LOST,), ["rank 1 of 2 on ", STUCK]),
    ("hang:rank=0,step=12,phase=communication", (LOST,), ["rank 0 of 2 on ", STUCK]),
    ("stop:rank=1,step=15", (LOST,), ["rank 1 of 2 on ", STOPPED]),
    ("nan:rank=1,step=18", (8,), ["step 18: loss nan", "on rank 1"]),
]
# Within a pass the other rank's device waits for a message that no kernel of NCCL's would bring.
RING = [
    ("kill:rank=1,step=3,phase=backward", (137, LOST), [("process rank 1 ", "rank 1 of 2 on ")]),
    ("hang:rank=0,step=9,phase=backward", (LOST,), ["rank 0 of 2 on ", STUCK]),
    ("throw:rank=1,step=12,phase=forward", (1,), ["rank 1 of 2 on "]),
]
OVERLAP = {"parallel__tp": 2, "parallel__sequence": "true", "parallel__tensor_overlap": "true"}


def start(words):
    return job.run(words, 2)


FaultChain(training, verify_run, start, SECONDS, device__kind="cuda").run("gpus", MATRIX)
FaultChain(training, verify_run, start, SECONDS, device__kind="cuda", **OVERLAP).run("ring", RING)
folder.cleanup()
job.finish()
