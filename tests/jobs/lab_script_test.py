#!/usr/bin/env python3
"""Which program the job scripts of the labs start, and with which run files, in a clone and installed. Usage: lab_script_test.py SOURCE_TREE

srun and scontrol only pretend: srun writes down its arguments; scontrol tells where the script came from, as SLURM does, since the script
that runs is a copy in its spool folder."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1]).resolve()
LABS = sorted(path.name for path in (SOURCE / "jobs").glob("lab[0-9]*.sbatch"))


class Lab:
    """A folder with the tools that pretend, where a script is submitted; `home` is where its jobs and inputs are."""

    def __init__(self, folder, name, home, program=None):
        self.folder, self.name, self.home = folder, name, folder / home
        for part in ("jobs", "inputs"):
            shutil.copytree(SOURCE / part, self.home / part)
        self.work = self.folder / "work"
        self.work.mkdir()
        self.calls = self.folder / "calls"
        self.tool("bin/srun", f'echo "$*" >> {self.calls}')
        self.knows(self.home / "jobs" / name)
        if program:
            self.tool(program, "exit 0")

    def tool(self, path, body):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/usr/bin/env bash\n{body}\n")
        file.chmod(0o755)

    def knows(self, script):
        """What scontrol tells: words behind the script's name stand there as well."""
        self.tool("bin/scontrol", f'echo "   Command={script} --set train.steps=2"' if script else "exit 1")

    def run(self, cwd=None, path="", words=("--set", "train.steps=2"), **variables):
        spool = self.folder / "spool"
        spool.mkdir(exist_ok=True)
        copy = shutil.copy(self.home / "jobs" / self.name, spool / "slurm_script")
        environment = {"PATH": f"{self.folder / 'bin'}:{path}:/usr/bin:/bin", "SLURM_JOB_ID": "5", "SLURM_CPUS_PER_TASK": "1", "SLURM_NTASKS": "4",
                       "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "n[1-2]", "HOME": os.environ.get("HOME", "/"), **variables}
        self.calls.write_text("")
        done = subprocess.run(["bash", copy, *words], cwd=cwd or self.work, env=environment, capture_output=True, text=True, timeout=60)
        return done.returncode, self.calls.read_text().splitlines(), done.stdout + done.stderr


class LabScripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()

    def check(self, outcome, program, inputs):
        code, calls, said = outcome
        self.assertEqual(code, 0, said)
        trainings = [call.split() for call in calls if " train " in call]
        self.assertTrue(trainings, said)
        for words in trainings:
            at = words.index("train")
            self.assertEqual((words[at - 1], Path(words[at + 1]).parent), (str(program), inputs))
            self.assertTrue(Path(words[at + 1]).is_file(), words[at + 1])
        self.assertIn(f"program {program}", said)

    def each_lab(self, *arguments, **keywords):
        for number, name in enumerate(LABS):
            with self.subTest(name):
                yield Lab(self.folder / str(number), name, *arguments, **keywords)

    def test_every_lab_has_one(self):
        numbers = {path.name[:2] for path in (SOURCE / "src/labs").glob("[0-9][0-9]_*")}
        self.assertLessEqual({f"lab{number}.sbatch" for number in numbers}, set(LABS))

    def test_installed_takes_the_program_of_its_prefix_from_any_folder(self):
        for lab in self.each_lab("opt/share/cohort", "opt/bin/cohort"):
            lab.tool("other/cohort", "exit 0")  # another one on the PATH is not meant
            self.check(lab.run(path=lab.folder / "other"), lab.folder / "opt/bin/cohort", lab.home / "inputs")

    def test_in_a_clone_takes_what_was_built_there(self):
        for lab in self.each_lab("clone", "clone/build/cpu/cohort"):
            lab.tool("other/cohort", "exit 0")
            self.check(lab.run(cwd=lab.home, path=lab.folder / "other"), lab.home / "build/cpu/cohort", lab.home / "inputs")
            lab.knows(None)  # without an answer of SLURM: the folder that it was submitted from
            self.check(lab.run(cwd=lab.home), lab.home / "build/cpu/cohort", lab.home / "inputs")

    def test_an_unbuilt_clone_takes_the_program_on_the_path(self):
        for lab in self.each_lab("clone", "opt/bin/cohort"):
            self.check(lab.run(cwd=lab.home, path=lab.folder / "opt/bin"), lab.folder / "opt/bin/cohort", lab.home / "inputs")

    def test_an_edited_copy_takes_program_and_run_files_of_the_installation(self):
        for lab in self.each_lab("opt/share/cohort", "opt/bin/cohort"):
            lab.knows(lab.work / "mine.sbatch")
            self.check(lab.run(path=lab.folder / "opt/bin"), lab.folder / "opt/bin/cohort", lab.home / "inputs")

    def test_without_a_program_it_says_so_and_starts_nothing(self):
        for lab in self.each_lab("clone"):
            code, calls, said = lab.run(cwd=lab.home)
            self.assertEqual((code, calls), (4, []), said)
            for word in (lab.name.split(".")[0] + ": there is no program cohort", str(lab.home), "PATH", "module load cohort"):
                self.assertIn(word, said)


class CollectScript(unittest.TestCase):
    """jobs/lab_collect.sbatch, with a program that prints a line for its share."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.lab = Lab(Path(folder.name).resolve(), "lab_collect.sbatch", "clone", "clone/build/cpu/cohort")
        self.lab.tool("clone/build/cpu/cohort", """[[ $1-$2-$4 == lab-collect---share ]] || exit 9
[[ ${FAILS:-} != "$5" ]] || exit 7
echo 'learner,exercise'
[[ $5 == 2/* ]] && printf '"bob",%s\\n' 3.1 3.10 3.2 || printf '"ada",3.1\\n"eve",%s\\n' 3.1""")
        self.people = self.lab.work / "class"
        self.people.mkdir()

    def task(self, number, **variables):
        return self.lab.run(words=("class", "2"), SLURM_ARRAY_TASK_ID=str(number), **variables)

    def test_tasks_grade_a_share_each_and_the_last_step_joins(self):
        for number in (1, 2):
            code, calls, said = self.task(number)
            self.assertEqual((code, calls), (0, []), said)
        code, _, said = self.task(0)
        self.assertEqual(code, 0, said)
        self.assertEqual((self.people / "grades.csv").read_text().split(),
                         ["learner,exercise", '"ada",3.1', '"bob",3.1', '"bob",3.10', '"bob",3.2', '"eve",3.1'])

    def test_a_share_that_is_missing_is_named(self):
        self.task(1)
        self.task(2)
        code, _, said = self.task(2, FAILS="2/2")  # again, and this time it fails: its old table must not stand for it
        self.assertEqual(code, 7, said)
        code, _, said = self.task(0)
        self.assertEqual((code, "share 2 has no table" in said), (7, True), said)
        self.assertFalse((self.people / "grades.csv").exists())

    def test_without_folder_or_shares_it_says_so(self):
        for words in ((), ("class",), ("none", "2"), ("class", "x")):
            code, _, said = self.lab.run(words=words, SLURM_ARRAY_TASK_ID="1")
            self.assertEqual((code, "CLASS 8" in said), (2, True), said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
