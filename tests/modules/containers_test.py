#!/usr/bin/env python3
"""The container recipes, as far as they can be judged without building them: containers_test.py SOURCE"""

import re
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1])
DOCKERFILE = (SOURCE / "modules/docker/Dockerfile").read_text()
DEFINITION = (SOURCE / "modules/apptainer/cohort.def").read_text()
KNOWN = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "CMD"}
SECTIONS = {"files", "post", "environment", "runscript", "test", "labels", "help"}


def instructions(text):
    """(instruction, arguments) of a Dockerfile; lines that end in a backslash are joined, comments left out."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [tuple(line.split(None, 1)) for line in "\n".join(lines).replace("\\\n", " ").splitlines()]


def docker_faults(text):
    found, stages, user, used = [], {}, None, set()
    for word, rest in instructions(text):
        if word not in KNOWN:
            found.append(f"unknown instruction {word}")
        if word == "FROM":
            image, _, stage = rest.partition(" AS ")
            stages[stage or "last"] = image
            user = None
            if "/" in image:
                found.append(f"{image} names a registry")
        if word == "USER":
            user = rest
        for stage in re.findall(r"--from=(\S+)", rest):
            used.add(stage)
            if stage not in stages:
                found.append(f"copies from the unknown stage {stage}")
        if word == "COPY" and "--from" not in rest:
            for name in rest.split()[:-1]:
                if not (SOURCE / name).exists():
                    found.append(f"copies {name}, which is not there")
        if word == "RUN":
            if subprocess.run(["bash", "-n", "-c", rest], capture_output=True).returncode:
                found.append(f"no shell command: {rest}")
            if "apt-get update" in rest and "rm -rf /var/lib/apt/lists" not in rest:
                found.append("leaves lists of packages behind")
    if user in (None, "root", "0"):
        found.append("runs as root")
    if used != set(stages) - {"last"}:
        found.append("a stage that nothing is taken from")
    return found


def apptainer_stages(text):
    """Each stage as a dictionary: its header lines and its sections."""
    stages = []
    for line in text.splitlines():
        if line.lstrip().startswith("#") or not line.strip():
            continue
        if line.startswith("Bootstrap:"):
            stages.append({})
        if line.startswith("%"):
            section, *arguments = line[1:].split()
            stages[-1][section] = [" ".join(arguments)]
        elif line.startswith(" "):
            stages[-1][section].append(line.strip())
        else:
            key, value = line.split(": ", 1)
            stages[-1][key] = value
    return stages


class Docker(unittest.TestCase):
    def test_dockerfile_is_sound(self):
        self.assertEqual(docker_faults(DOCKERFILE), [])
        self.assertIn("ARG BASE=debian:12", DOCKERFILE)

    def test_each_planted_fault_is_found(self):
        for old, new, message in [
            ("USER user\n", "", "runs as root"),
            ("FROM ${BASE} AS build", "FROM registry.example/debian:12 AS build", "names a registry"),
            ("--from=build /package", "--from=builder /package", "unknown stage builder"),
            ("RUN useradd", "RUNS useradd", "unknown instruction RUNS"),
            ("docker/sshd_config /etc", "docker/sshd.conf /etc", "not there"),
            (" && rm -rf /var/lib/apt/lists/*", " && ls", "leaves lists of packages behind"),
            ("RUN cmake", "RUN (cmake", "no shell command"),
        ]:
            self.assertIn(old, DOCKERFILE)
            self.assertIn(message, "; ".join(docker_faults(DOCKERFILE.replace(old, new))))

    def test_what_is_left_out_is_not_needed(self):
        ignored = (SOURCE / "modules/docker/Dockerfile.dockerignore").read_text().split("\n")
        for name in ("src", "tools", "inputs", "jobs", "modules", "CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE"):
            self.assertNotIn(name, ignored)


class Apptainer(unittest.TestCase):
    def test_definition_is_sound(self):
        build, run = apptainer_stages(DEFINITION)
        for stage, name in ((build, "build"), (run, "run")):
            self.assertEqual((stage["Bootstrap"], stage["From"], stage["Stage"]), ("docker", "debian:12", name))
            self.assertLessEqual(set(stage) - {"Bootstrap", "From", "Stage"}, SECTIONS)
            for section in {"post", "environment", "runscript", "test"} & set(stage):
                script = "\n".join(stage[section][1:])
                self.assertEqual(subprocess.run(["sh", "-n", "-c", script], capture_output=True, text=True).stderr, "", section)
        self.assertEqual(run["files"][0], "from build")
        self.assertIn("set -eu", build["post"])
        self.assertIn("set -eu", run["post"])

    def test_it_copies_what_the_build_needs(self):
        copied = {line.split()[0] for line in apptainer_stages(DEFINITION)[0]["files"][1:]}
        for name in copied:
            self.assertTrue((SOURCE / name).exists(), name)
        text = (SOURCE / "CMakeLists.txt").read_text() + (SOURCE / "tools/cmake/CohortInstall.cmake").read_text()
        for name in ("CMakePresets.json", "src", "tools", *re.findall(r"(?<![\w/])(\w+\.md|LICENSE|inputs|jobs|modules)\b", text)):
            self.assertIn(name, copied)

    def test_both_recipes_build_alike(self):
        for command in ("-DCOHORT_ENABLE_TESTS=OFF", "--target cohort", "-B /package", "apt-get install -y --no-install-recommends"):
            self.assertIn(command, DOCKERFILE)
            self.assertIn(command, DEFINITION)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
