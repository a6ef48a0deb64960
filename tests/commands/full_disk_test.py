"""`cohort train` when its checkpoints cannot be written: the file system is read-only, or full in the middle of a save. In each form, in
step and in the background, on 1 and 2 ranks: one message with file and reason, an exit code, no hang; the checkpoint before is whole,
and with room again the run goes on from it.

    full_disk_test.py COHORT VERIFY_RUN -- MPIRUN FLAG ...

It mounts file systems of its own, in a mount namespace that ends with it. Exit code 77 where that is not permitted."""

import os
import shutil
import subprocess
import sys
import tempfile

NAMESPACE = "COHORT_TEST_MOUNTS"  # in the environment: inside of the namespace
SKIPPED = 77

if NAMESPACE not in os.environ:
    # As root, or as root of a user namespace; both need a kernel and a container that let one.
    for unshare in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        mount = [*unshare, "mount", "-t", "tmpfs", "tmpfs", tempfile.gettempdir()]
        if shutil.which("unshare") and subprocess.run(mount, capture_output=True, check=False).returncode == 0:
            sys.exit(subprocess.run([*unshare, sys.executable, *sys.argv], env={**os.environ, NAMESPACE: "1"}, check=False).returncode)
    print("skipped: no mount namespaces here")
    sys.exit(SKIPPED)

from launched import Launched
from training import Training

SECONDS = 100  # from mpirun to the end, on a busy machine; one that hangs is ended after
TIMEOUT = 120
KEYS = {"model__width": 128, "train__validate_every": 0, "sample__tokens": 0, "checkpoint__every": 1, "schedule__warmup_steps": 0,
        "schedule__decay_steps": 4}

verify_run = sys.argv[2]
job = Launched([sys.argv[1], *sys.argv[3:]])
folder = tempfile.TemporaryDirectory(prefix="cohort_full_disk_")
training = Training(job, folder.name)


def mount(*words):
    subprocess.run(["mount", *words], check=True)


def unmount(path):
    subprocess.run(["umount", path], check=True)


def size_of(path):
    return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path))


def copy_of(form, name):
    """A run with one checkpoint, of step 2; the folder of its checkpoints, which is empty, and the checkpoint elsewhere."""
    shutil.copytree(training.path(form), training.path(name))
    checkpoints = training.path(name + "/checkpoints")
    shutil.move(checkpoints, training.path(name + "_kept"))
    os.mkdir(checkpoints)
    return checkpoints, training.path(name + "_kept")


def expect_failure(what, name, ranks, keys, reason):
    """The run goes on from step 2 and cannot save step 3."""
    before = training.sums(name, 2)
    outcome = job.run(training.words(name, "--resume", train__steps=4, **keys), ranks, TIMEOUT)
    job.expect(what, outcome, 7, [os.path.join(name, "checkpoints/.step_00000003.tmp"), reason], lines=1, seconds=SECONDS)
    done = subprocess.run([verify_run, training.path(name)], capture_output=True, text=True, timeout=60, check=False)
    left = os.listdir(training.path(name + "/checkpoints"))
    job.check(f"{what}: the checkpoint before is whole", done.stdout.split() == ["2"] and training.sums(name, 2) == before, done.stderr)
    job.check(f"{what}: nothing is left of the other", left == ["step_00000002"], str(left))


def expect_goes_on(what, name, ranks, keys):
    outcome = job.run(training.words(name, "--resume", train__steps=4, **keys), ranks, TIMEOUT)
    job.expect(f"{what}: with room it goes on", outcome, 0, lines=0, seconds=SECONDS)
    job.check(f"{what}: and saves", training.checkpoints(name) == [2, 3, 4], str(training.checkpoints(name)))


def full(what, form, ranks, keys, share, reason="No space left on device"):
    """The disk has room for the checkpoint that is there and for `share` of another."""
    name = what.replace(" ", "_").replace(",", "")
    checkpoints, kept = copy_of(form, name)
    size = size_of(os.path.join(kept, "step_00000002"))
    mount("-t", "tmpfs", "-o", f"size={int((1 + share) * size) // 4096 * 4096}", "tmpfs", checkpoints)
    shutil.copytree(kept, checkpoints, dirs_exist_ok=True)
    expect_failure(what, name, ranks, keys, reason)
    mount("-o", f"remount,size={4 * size}", checkpoints)
    expect_goes_on(what, name, ranks, keys)
    unmount(checkpoints)


def read_only(what, form, ranks, keys):
    name = what.replace(" ", "_").replace(",", "")
    checkpoints, kept = copy_of(form, name)
    shutil.copytree(kept, checkpoints, dirs_exist_ok=True)
    mount("--bind", checkpoints, checkpoints)
    mount("-o", "remount,bind,ro", checkpoints)
    expect_failure(what, name, ranks, keys, "Read-only file system")
    unmount(checkpoints)


for form in ("consolidated", "per_rank"):
    words = training.words(form, train__steps=2, checkpoint__form=form, **{**KEYS, "checkpoint__every": 0})
    job.expect(f"two steps, {form}", job.run(words, 2, TIMEOUT), 0, lines=0, seconds=SECONDS)
    for ranks in (0, 2):
        for in_background in ("false", "true"):
            keys = {**KEYS, "checkpoint__form": form, "checkpoint__async": in_background}
            words = f"{form}, {ranks} ranks" + (", async" if in_background == "true" else "")
            full(f"full, {words}", form, ranks, keys, 0.5)
            read_only(f"read-only, {words}", form, ranks, keys)
    # At once, and when next to nothing is missing.
    keys = {**KEYS, "checkpoint__form": form}
    full(f"full from the start, {form}", form, 2, keys, 0.01)
    full(f"full at the end, {form}", form, 2, keys, 0.98)
# Written by all ranks together, by MPI-IO, which tells no reason.
if ", parallel" in job.run(["info"])[1]:
    keys = {**KEYS, "checkpoint__write": "collective"}
    for share in (0.01, 0.5, 0.98):
        full(f"full, collective, {share} of a checkpoint fits", "consolidated", 2, keys, share, reason="model.h5")
    full("full when it is closed, collective", "consolidated", 2, keys, 0.998)  # all elements fit, but HDF5's own data do not
    read_only("read-only, collective", "consolidated", 2, keys)

folder.cleanup()
job.finish()
