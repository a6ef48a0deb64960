"""A run under a tool of Kokkos: kernels by their labels, and the phases, micro-batches and layers as regions."""

import sys
import tempfile

from launched import Launched
from training import Training

tool = sys.argv.pop(2)
job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_kokkos_")
training = Training(job, folder.name)
names = training.path("names")
words = training.words("run", train__steps=2, schedule__warmup_steps=0, sample__tokens=0, device__kernels="portable")
# The second is the name of Kokkos before 4.
job.expect("a run with a tool", job.run(words, KOKKOS_TOOLS_LIBS=tool, KOKKOS_PROFILE_LIBRARY=tool, COHORT_KOKKOS_NAMES=names), 0, lines=0)
with open(names, encoding="utf-8") as file:
    noted = [line.split(maxsplit=1) for line in file.read().splitlines()]
kernels = {name for what, name in noted if what == "kernel"}
job.check("all kernels have labels of cohort", len(kernels) > 10 and all(name.startswith("cohort::") for name in kernels), kernels)
regions = [name for what, name in noted if what == "push"]
job.check("phases and layers are regions", {"data", "forward", "backward", "optimizer", "embedding", "blocks.0", "head"} <= set(regions), set(regions))
depth, least = 0, 0
for what, _ in noted:
    depth += {"push": 1, "pop": -1}.get(what, 0)
    least = min(least, depth)
job.check("each region ends, none twice", depth == 0 and least == 0, (depth, least))
job.finish()
