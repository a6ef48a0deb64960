"""An error ends the job within seconds with the reason of the rank that had it, and is neither lost nor repeated."""

import sys

from launched import Launched

job = Launched(sys.argv[1:])

# Repeated, because a message that is lost when mpirun tears a job down is lost sometimes only.
for _ in range(5):
    job.expect("the last rank fails", job.run(["last"], ranks=4), 5, ["rank 3 of 4 on ", "token 99"], lines=1)
    job.expect("all ranks share an error", job.run(["shared"], ranks=4), 6, ["cohort: no checkpoint for anyone"], lines=1)
job.expect("a bug on the last rank", job.run(["bug"], ranks=2), 1, ["rank 1 of 2 on ", "internal error: a bug"], lines=1)
job.expect("no memory on the last rank", job.run(["memory"], ranks=2), 10, ["rank 1 of 2 on ", "out of memory"], lines=1)
job.expect("every rank fails by itself", job.run(["all"], ranks=2), 7, [" of 2 on ", "disk full"])
job.expect("a single rank fails", job.run(["last"]), 5, ["cohort: the last rank found token 99"], lines=1)
outcome = job.run(["last"])
job.check("a single rank ends MPI in order", "MPI_ABORT" not in outcome[2], outcome[2])
job.expect("no rank fails", job.run(["none"], ranks=4), 0, lines=0)
job.finish()
