#!/usr/bin/env python3
"""The job files under jobs/kubernetes: valid by kubernetes_schema.json, numbers that fit each other, and a launcher that turns TERM into
a saved run. kubernetes_test.py SOURCE"""

import copy
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays clean
SOURCE = Path(sys.argv[1])
try:
    import jsonschema
    import yaml
except ImportError as error:
    required = os.environ.get("COHORT_REQUIRE_MODULES") == "1"
    print(f"{'FAILED' if required else 'skipped'}: {error}; tools/install-dependencies modules installs what is missing")
    sys.exit(1 if required else 77)

SCHEMA = json.loads((Path(__file__).parent / "kubernetes_schema.json").read_text())
UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def load(name):
    return yaml.safe_load((SOURCE / "jobs/kubernetes" / name).read_text())


def parts(job):
    """(pod of the launcher, pod of a worker, workers, GPU slots of a worker) of either kind of job."""
    spec = job["spec"]
    if job["kind"] == "MPIJob":
        launcher, worker = spec["mpiReplicaSpecs"]["Launcher"], spec["mpiReplicaSpecs"]["Worker"]
        slots = spec["slotsPerWorker"]
    else:
        launcher, worker = (next(task for task in spec["tasks"] if task["name"] == name) for name in ("launcher", "worker"))
        slots = int(re.search(r':(\d+)"', launcher["template"]["spec"]["containers"][0]["args"][0])[1])
    return launcher["template"]["spec"], worker["template"]["spec"], worker["replicas"], slots


def amount(text):
    match = re.fullmatch(r"(\d+)([KMGT]i|m)?", str(text))
    return int(match[1]) * UNITS.get(match[2], 1) / (1000 if match[2] == "m" else 1)


def faults(job):
    """What is wrong with a job: by the schema, and where its parts contradict each other."""
    schema = {**SCHEMA, "$ref": "#/$defs/mpijob" if job["kind"] == "MPIJob" else "#/$defs/volcano"}
    found = [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"
             for error in jsonschema.Draft202012Validator(schema).iter_errors(job)]
    if found:
        return found
    launcher, worker, workers, slots = parts(job)
    container = worker["containers"][0]
    script = launcher["containers"][0]["args"][0]
    ranks = int(re.search(r"mpirun -np (\d+)", script)[1])
    if ranks != workers * slots:
        found.append(f"mpirun starts {ranks} ranks on {workers} workers of {slots} slots")
    if container["resources"]["limits"].get("nvidia.com/gpu") != slots:
        found.append(f"{slots} ranks a worker, and not as many GPUs")
    if job["kind"] == "Job" and job["spec"]["minAvailable"] != workers + 1:
        found.append("minAvailable is not launcher and workers")
    for pod in (launcher, worker):
        for one in pod["containers"]:
            requests, limits = one["resources"]["requests"], one["resources"]["limits"]
            found += [f"request of {key} above its limit" for key in requests if amount(requests[key]) > amount(limits.get(key, 0))]
            if requests.get("nvidia.com/gpu") != limits.get("nvidia.com/gpu"):
                found.append("GPUs asked for and GPU limit differ")
            mounts = {mount["name"] for mount in one["volumeMounts"]}
            if mounts != {volume["name"] for volume in pod["volumes"]}:
                found.append(f"{one['name']}: volumes and mounts differ")
            if not any("persistentVolumeClaim" in volume for volume in pod["volumes"]):
                found.append(f"{one['name']}: no volume that outlives the pod for checkpoints")
    shm = {volume["name"]: volume["emptyDir"] for volume in worker["volumes"] if "emptyDir" in volume}
    if not any(mount["mountPath"] == "/dev/shm" and mount["name"] in shm for mount in container["volumeMounts"]):
        found.append("no memory volume on /dev/shm")
    if any(amount(one["sizeLimit"]) > amount(container["resources"]["limits"]["memory"]) / 2 for one in shm.values()):
        found.append("/dev/shm may take more than half of the memory")
    if "pkill -USR1" not in str(container.get("lifecycle")):
        found.append("a worker that is preempted tells nobody")
    if "--resume-if-any" not in script:
        found.append("a job that starts again would not go on from its checkpoint")
    return found


class Files(unittest.TestCase):
    def test_every_file_is_valid(self):
        names = sorted(path.name for path in (SOURCE / "jobs/kubernetes").iterdir())
        self.assertEqual(names, ["mpijob.yaml", "volcano.yaml"])
        for name in names:
            self.assertEqual(faults(load(name)), [], name)

    def test_what_belongs_to_the_image_is_there(self):
        dockerfile = (SOURCE / "modules/docker/Dockerfile").read_text()
        sshd = (SOURCE / "modules/docker/sshd_config").read_text()
        for name in ("mpijob.yaml", "volcano.yaml"):
            text = (SOURCE / "jobs/kubernetes" / name).read_text()
            self.assertIn("/etc/ssh/sshd_config_cohort", text)
            self.assertIn("/etc/ssh/sshd_config_cohort", dockerfile)
            self.assertRegex(dockerfile, r"apt-get install .*/cohort_\*\.deb")  # brings /usr/bin/cohort and /usr/share/cohort
            self.assertIn("/usr/bin/cohort train ", text)
            self.assertTrue((SOURCE / re.search(r"/usr/share/cohort/(\S+\.toml)", text)[1]).is_file())
            user = str(parts(load(name))[0]["securityContext"]["runAsUser"])
            self.assertIn(f"--uid {user} ", dockerfile)
            self.assertIn("/home/user/.ssh", text)
        self.assertIn("HostKey /home/user/.ssh/id_rsa", sshd)
        port = re.search(r"Port (\d+)", sshd)[1]
        self.assertIn(f"--ssh-port={port}", (SOURCE / "jobs/kubernetes/volcano.yaml").read_text())
        self.assertIn(f"Port {port}", (SOURCE / "modules/docker/ssh_config").read_text())


class PlantedFaults(unittest.TestCase):
    """Each mistake, planted in a good file, is found."""

    def planted(self, name, change, message):
        job = copy.deepcopy(load(name))
        change(job)
        self.assertRegex("\n".join(faults(job)), message)

    def test_mpijob(self):
        def worker(job):
            return job["spec"]["mpiReplicaSpecs"]["Worker"]

        def pod(job):
            return worker(job)["template"]["spec"]

        def script(job, old, new):
            container = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
            container["args"][0] = container["args"][0].replace(old, new)

        for change, message in [
            (lambda job: job.update(apiVersion="kubeflow.org/v1"), "v2beta1"),
            (lambda job: job["spec"].update(slotPerWorker=4), "slotPerWorker"),
            (lambda job: job["spec"].pop("sshAuthMountPath"), "sshAuthMountPath"),
            (lambda job: job["spec"]["mpiReplicaSpecs"]["Launcher"].update(replicas=2), "1 was expected"),
            (lambda job: job["spec"]["mpiReplicaSpecs"]["Launcher"].update(restartPolicy="Always"), "Always"),
            (lambda job: job["spec"]["runPolicy"].pop("backoffLimit"), "backoffLimit"),
            (lambda job: worker(job).update(replicas=3), "8 ranks on 3 workers"),
            (lambda job: pod(job).update(terminationGracePeriodSeconds=5), "60"),
            (lambda job: pod(job)["containers"][0]["resources"]["limits"].update({"nvidia.com/gpu": 8}), "not as many GPUs"),
            (lambda job: pod(job)["containers"][0]["resources"]["limits"].update(memory="64Gi"), "memory above its limit"),
            (lambda job: pod(job)["containers"][0].pop("lifecycle"), "tells nobody"),
            (lambda job: pod(job)["volumes"][1].update(emptyDir={}), "medium"),
            (lambda job: pod(job)["containers"][0]["volumeMounts"].pop(), "volumes and mounts differ"),
            (lambda job: script(job, " --resume-if-any", ""), "go on from its checkpoint"),
        ]:
            self.planted("mpijob.yaml", change, message)

    def test_volcano(self):
        for change, message in [
            (lambda job: job["spec"].update(minAvailable=2), "minAvailable"),
            (lambda job: job["spec"]["policies"][0].update(event="PodEviction"), "PodEviction"),
            (lambda job: job["spec"]["plugins"].pop("svc"), "svc"),
            (lambda job: job["spec"]["tasks"][1].update(replicas=4), "8 ranks on 4 workers"),
        ]:
            self.planted("volcano.yaml", change, message)


MPIRUN = """#!/usr/bin/env bash
trap 'echo USR1 >> "$LOG"; exit 9' USR1
trap 'echo TERM >> "$LOG"; exit 143' TERM
echo "$*" > "$LOG"
for i in {1..300}; do sleep 0.1; done
"""


class Launcher(unittest.TestCase):
    """The launcher's script, with stand-ins for ssh and mpirun."""

    def launch(self, name, action):
        script = parts(load(name))[0]["containers"][0]["args"][0]
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / "hostfile").write_text("cohort-worker-0.cohort slots=4\ncohort-worker-1.cohort slots=4\n")
            for tool, body in {"mpirun": MPIRUN, "ssh": f'#!/bin/sh\necho "$3" >> {folder}/reached\n'}.items():
                (folder / tool).write_text(body)
                (folder / tool).chmod(0o755)
            environment = {"PATH": f"{folder}:{os.environ['PATH']}", "LOG": str(folder / "log"), "MPI_HOST": "a.cohort,b.cohort"}
            process = subprocess.Popen(["bash", "-c", script.replace("/etc/mpi/hostfile", str(folder / "hostfile"))], env=environment)
            try:
                for _ in range(200):
                    if (folder / "log").exists():
                        break
                    time.sleep(0.05)
                time.sleep(1)  # mpirun sets its traps before it writes its log, the script its own after it has started mpirun
                action(process)
                code = process.wait(timeout=20)
            finally:
                process.kill()
            return code, (folder / "log").read_text().splitlines(), (folder / "reached").read_text().split()

    def test_term_reaches_the_ranks_as_usr1_and_the_exit_code_is_theirs(self):
        for name in ("mpijob.yaml", "volcano.yaml"):
            code, log, reached = self.launch(name, lambda process: process.send_signal(signal.SIGTERM))
            self.assertEqual((code, log[1:]), (9, ["USR1"]), name)
            self.assertEqual(len(reached), 2, reached)  # it asked both workers first
            self.assertIn("--resume-if-any", log[0])
            if name == "volcano.yaml":
                self.assertIn("--host a.cohort:4,b.cohort:4 ", log[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
