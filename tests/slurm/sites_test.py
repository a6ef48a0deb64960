"""Every template for every site of jobs/sites passes `sbatch --test-only` of a SLURM like that site's, which refuses what is beyond it.

The SLURM is a controller alone. Its nodes are those of a cloud (State=CLOUD), which are off and not looked for until a job starts on them;
`sbatch --test-only` starts none and counts them as free. What the profile leaves open (generic: all of it) is made up here. Accounts and
QOS are looked after by an accounting data base on real sites; here a job_submit plugin does it, as some centres have one.
"""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

from slurm import ROOT, STATE, Slurm

sys.path.insert(0, str(ROOT / "tools/slurm"))
from nodes import free_port  # noqa: E402  (its module also adds to PATH where slurmctld is)

SITES = ROOT / "jobs/sites"
KEYS = ("PARTITION", "ACCOUNT", "QOS", "CONSTRAINT", "TIME", "NODES_MAX", "CPUS_PER_NODE", "GPUS_PER_NODE", "GPU_TYPE", "MEMORY_PER_NODE")
MADE_UP = {"PARTITION": "all", "NODES_MAX": "4", "CPUS_PER_NODE": "64", "GPUS_PER_NODE": "8"}
MEMORY = 256000  # MB of a node, which no profile says
# A profile is a piece of bash: bash reads it, its base first.
READ = 'read_profile() { BASE=""; . "$1.env"; if [[ $BASE ]]; then read_profile "$BASE"; . "$1.env"; fi; }; read_profile "$0"; ' \
       'for key; do echo "${!key}"; done'
CONF = """\
ClusterName=pretended
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
AuthInfo=socket={munge}
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
# a job that its partition will never start is refused and not queued
EnforcePartLimits=ALL
JobSubmitPlugins=lua
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
# CLOUD wants these; no node is ever switched on
ResumeProgram=/bin/true
SuspendProgram=/bin/true
SuspendTime=3600
NodeName=pretended[1-{NODES_MAX}] State=CLOUD CPUs={CPUS_PER_NODE} RealMemory={memory} {gres} {feature}
PartitionName={PARTITION} Nodes=ALL MaxTime={TIME} Default={default}
"""
JOB_SUBMIT = """\
function slurm_job_submit(job, partitions, user)
  if (job.account or "") == "{ACCOUNT}" and (job.qos or "") == "{QOS}" then return slurm.SUCCESS end
  return slurm.ERROR
end
function slurm_job_modify(job, record, partitions, user) return slurm.SUCCESS end
"""

slurm = Slurm(sys.argv[1:])


def profile_of(site):
    """What the profile says, key by key."""
    done = subprocess.run(["bash", "-c", READ, site, *KEYS], cwd=SITES, env={}, capture_output=True, text=True, check=True)
    return dict(zip(KEYS, done.stdout.splitlines(), strict=True))


@contextlib.contextmanager
def controller_like(site, profile):
    """Inside, the commands of `slurm` talk to a controller of such a site."""
    folder = Path(slurm.folder) / f"site-{site}"
    (folder / "state").mkdir(parents=True)
    known = profile | {key: value for key, value in MADE_UP.items() if not profile[key]}
    gpus = ":".join(word for word in ("gpu", known["GPU_TYPE"], known["GPUS_PER_NODE"]) if word)
    text = CONF.format(**known, host=socket.gethostname().split(".")[0], port=free_port("0.0.0.0", 18817), user=os.geteuid(),
                       munge=STATE / "munge.socket", folder=folder, memory=MEMORY,
                       gres="" if known["GPUS_PER_NODE"] == "0" else f"Gres={gpus}",
                       feature=f"Feature={known['CONSTRAINT']}" if known["CONSTRAINT"] else "",
                       default="NO" if profile["PARTITION"] else "YES")
    (folder / "slurm.conf").write_text(text)
    (folder / "job_submit.lua").write_text(JOB_SUBMIT.format(**known))
    cluster = slurm.environment["SLURM_CONF"]
    slurm.environment["SLURM_CONF"] = str(folder / "slurm.conf")
    log = folder / "slurmctld.log"
    # --pdeathsig: also when this test is killed, no controller stays behind
    with open(log, "wb") as out:
        process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "slurmctld", "-D"], env=slurm.environment, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=out)
    try:
        end = time.monotonic() + 60
        while not (answers := slurm.run("sinfo")[0] == 0) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        slurm.job.check(f"a SLURM like that of {site}", answers, log.read_text(errors="replace"))
        yield {key: int(known[key]) for key in ("NODES_MAX", "CPUS_PER_NODE", "GPUS_PER_NODE")}
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        slurm.environment["SLURM_CONF"] = cluster


def render(template, site, nodes, gpus):
    """The job script of a template; that of gpu takes the whole site."""
    name = f"{site}-{template}"
    if template == "gpu":
        ranks = nodes * gpus
        return slurm.render(template, name, "--ranks", str(ranks), "--nodes", str(nodes), site=site, COHORT="cohort",
                            **{"device.kind": "cuda", "train.micro_batch": 1, "train.global_batch": ranks})
    words = {"multi_node": ["--nodes", "2"], "array_sweep": ["--sweep", "optimizer.learning_rate=1e-3,2e-3"]}
    return slurm.render(template, name, "--ranks", "2", *words.get(template, []), site=site)


def beyond(profile, sizes):
    """Option of sbatch -> what this site does not have, for all that its largest job asks for."""
    values = {"nodes": sizes["NODES_MAX"] + 1, "cpus-per-task": sizes["CPUS_PER_NODE"] + 1, "time": "365-0"}
    if gpus := sizes["GPUS_PER_NODE"]:
        values["gpus-per-node"] = f"{profile['GPU_TYPE']}:{gpus + 1}".lstrip(":")
    if profile["MEMORY_PER_NODE"]:
        values["mem"] = MEMORY + 1
    return values | {key.lower(): "other" for key in ("PARTITION", "ACCOUNT", "QOS", "CONSTRAINT") if profile[key]}


def expect_refusal(site, script, option, value):
    """One request of a script that SLURM takes is changed, and it does not take it any more."""
    text = script.read_text() if script.exists() else ""  # the failed render was told
    changed, count = re.subn(rf"(?m)^(#SBATCH --{option}=).*", rf"\g<1>{value}", text)
    code, stdout, stderr, _ = slurm.run("sbatch", "--test-only", slurm.training.write("beyond.sbatch", changed))
    refused = code != 0 and "allocation failure" in stderr and "Unable to contact" not in stderr
    slurm.job.check(f"{site}: --{option}={value} is refused", count == 1 and refused, f"{count} lines asked for it; {stdout}{stderr}")


for site in sorted(path.stem for path in SITES.glob("*.env")):
    profile = profile_of(site)
    with controller_like(site, profile) as sizes:
        templates = sorted(path.stem for path in (ROOT / "jobs/templates").glob("*.sbatch"))
        if not sizes["GPUS_PER_NODE"]:
            templates.remove("gpu")
        scripts = {template: render(template, site, sizes["NODES_MAX"], sizes["GPUS_PER_NODE"]) for template in templates}
        for template, script in scripts.items():
            code, _, stderr, _ = slurm.run("sbatch", "--test-only", script)
            slurm.job.check(f"{site} takes {template}", code == 0, stderr)
        largest = Path(scripts.get("gpu", scripts["multi_node"]))
        for option, value in beyond(profile, sizes).items():
            expect_refusal(site, largest, option, value)
slurm.end()
