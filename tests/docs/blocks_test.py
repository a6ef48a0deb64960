"""Runs every block of commands of README, CONTRIBUTING and docs, and every example in the help of every command, as people would: each page
(and each command's help) in a folder of its own that looks like the tree after `make demo`, its blocks one after the other, with what
earlier ones exported. What is not run says why: pages.py has the marks, NOT_HERE the help's reasons.

To be quick, run files are small here (SMALL), and what repeats something does so once (SHORTER). A page is named as docs/data.md; the helps
of a command and of the commands below it as "cohort data", that of the program as "cohort". Usage:

  blocks_test.py prepare PROGRAM TREE PAGE ... -- MPIRUN FLAG ...   makes the tree that the pages run in copies of; they must be all there are
  blocks_test.py run PROGRAM TREE PAGE ... -- MPIRUN FLAG ...       runs the blocks of these pages"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pages import COMMANDS, Block, blocks_of, command_lines, examples_of, help_texts, never_run, pages_of

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300  # that one block may take on a busy machine
OF_A_LAUNCHER = ("SLURM", "OMPI_COMM", "OMPI_UNIVERSE", "PMI_", "PMIX_", "MPI_LOCAL")  # variables of a launcher, which are taken away

# Keys of the run files that read text -> their values here. A batch that four ranks can divide, layers for four stages.
SMALL = {"width": 32, "context": 32, "micro_batch": 2, "global_batch": 8, "validation_samples": 32}
DEMO_STEPS = {"steps": 200}  # of demo.toml, whose first checkpoint is that of step 200; runs/demo is made with all 600. Of the others:
FEW_STEPS = {"steps": 40, "warmup_steps": 4, "validate_every": 20, "every": 20}
AS_THEY_ARE = ("gpt2_124m.toml", "llama_8b.toml")  # planned alone
QUICK = re.compile(r"lab\d\d_")  # run files of the course: quick as they are, and handouts claim what comes of them
# Commands that repeat what they do -> what they are given here, options of the same name but --set taken out.
SHORTER = {"cohort bench step": "--steps 1 --warm-up 1 --layers 1 --context 64 --micro-batch 2", "cohort bench checkpoint": "--size 4MiB --repeats 1",
           "cohort bench layouts": "--steps 1 --warm-up 1 --layers 2 --width 64 --context 64 --micro-batch 2", "cohort bench calibration": "--repeats 1",
           "cohort bench generate": "--prompt 16 --tokens 4 --set model.layers=1 --set model.vocabulary=1024", "cohort comm": "--max 64KiB --repeats 2", "cohort prove": "--steps 1"}

# Parts of examples in help texts -> why they do not run here. Everything else must end with 0, or as in CODES.
NOT_HERE = {"srun ": "a SLURM allocation; tests/slurm starts such commands",
            "--submit": "a SLURM with partitions; tests/slurm submits jobs",
            "cuda": "a GPU",
            "cohort bench kernels": "a GPU",
            "--with labs": "a solved exercise; tests/labs has such commands",
            "--follow": "somebody who ends it with Ctrl-C; tests/commands/logs_test.py does"}
# Help whose examples are run in the order of the text in a tree as it is cloned: they make the data that they read.
AS_CLONED = ("cohort train",)
CODES = {"cohort preflight": "0 4",  # this machine may have its faults
         "cohort job": "0 4",  # what is written is asked of sbatch, which may be here without a cluster
         "cohort ckpt diff": "0 11"}  # that they differ is an answer


def small_run_file(name, text):
    if name in AS_THEY_ARE or QUICK.match(name):
        return text
    values = SMALL | (DEMO_STEPS if name == "demo.toml" else FEW_STEPS)
    return re.sub(r"^(\w+) = ([-\w.]+)", lambda m: f"{m[1]} = {values[m[1]]}" if m[1] in values else m[0], text, flags=re.MULTILINE)


def shortened(text):
    for command, options in SHORTER.items():
        names = set(re.findall(r"--[\w-]+", options)) - {"--set"}

        def shorter(match, options=options, names=names):
            rest = match[2]
            for name in names:
                rest = re.sub(rf"\s{name} \S+", "", rest)
            return f"{match[1]} {options}{rest}"
        text = re.sub(rf"({command})([^\n#]*)", shorter, text)
    # What is to be stopped on its way is under way by then on a busy machine, too.
    return re.sub(r"(\btimeout (?:--\S+ )*)(\d+)", lambda match: f"{match[1]}{2 * int(match[2])}", text)


class Folder:
    """A folder in which blocks run one after the other."""

    def __init__(self, program, mpirun, path):
        self.program, self.mpirun, self.path = os.path.abspath(program), mpirun, path
        self.exported = path / "bin" / "exported"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(OF_A_LAUNCHER)}
        self.environment["PATH"] = f"{path}/bin:{path}/build/cpu:{os.environ['PATH']}"
        if not (path / "bin").exists():
            (path / "bin").mkdir()
            (path / "build/cpu").mkdir(parents=True)
            (path / "build/cpu/cohort").symlink_to(self.program)
            # This file comes before the real one on the PATH.
            self.script("mpirun", " ".join([shutil.which(self.mpirun[0]), *self.mpirun[1:]]))
            python = ROOT / "build/python/bin/python3"  # which has torch, transformers and h5py
            self.script("python3", str(python if python.exists() else shutil.which("python3")))

    def script(self, name, command):
        file = self.path / "bin" / name
        file.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        file.chmod(0o755)

    def shell(self, text):
        done = subprocess.run(["bash", "-c", text], cwd=self.path, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=SECONDS)
        return done.returncode, done.stdout

    def missing_modules(self, block):
        """Of Python's modules that a block needs."""
        return [name for name in block.marks.get("needs python", "").split() if self.shell(f"python3 -c 'import {name}'")[0]]

    def run(self, block):
        """What went wrong, or ""."""
        if block.language == "toml":
            (self.path / "piece.toml").write_text('[data]\ntokens = "data/stories.h5"\n\n' + block.text)
            return self.expect("cohort train piece.toml --dry-run --ranks 4")
        if programs := never_run(block.text):
            return f"{', '.join(programs)}: not for a test to run; pages.py has the marks"
        # What is there already is not written again, which these commands could not know.
        for name in re.findall(r"cohort (?:data|ckpt export) .*--out (\S+)", block.text):
            shutil.rmtree(self.path / name, ignore_errors=True)
            for file in (self.path / name, self.path / f"{name}.json"):
                file.unlink(missing_ok=True)
        for lab in block.marks.get("solved", "").split():
            solved = next((ROOT / "src/labs").glob(f"{int(lab):02}_*"))
            (self.path / "labs" / solved.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(solved / "solution.cpp", self.path / "labs" / solved.name / "exercise.cpp")
        if "exit code" not in block.marks:
            return self.expect(block.text, prints=block.marks.get("prints", ""))
        *before, last = command_lines(block.text)
        return self.expect("\n".join(before)) or self.expect(last, block.marks["exit code"].split(), block.marks.get("prints", ""))

    def expect(self, text, codes=("0",), prints=""):
        """Runs commands up to the first that fails, with what earlier ones exported; what went wrong, or ""."""
        code, output = self.shell(f"[ ! -e {self.exported} ] || . {self.exported}\n"
                                  f"trap 'code=$?; export -p > {self.exported}; exit $code' EXIT\n"
                                  "trap 'echo \"... so ended: $BASH_COMMAND\"' ERR\n"
                                  f"set -eo pipefail\n{shortened(text)}")
        if str(code) not in codes:
            return f"exit code {code}, not {' or '.join(codes)}\n{output}"
        return "" if re.search(prints, output) else f"it does not print what the page claims, /{prints}/:\n{output}"


def prepare(program, mpirun, path):
    """The tree as it is after `make demo`, and what the examples of help texts speak of."""
    folder = Folder(program, mpirun, path)
    for name in ("inputs", "jobs", "tools"):
        shutil.copytree(ROOT / name, path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (path / "inputs").glob("*.toml"):
        file.write_text(small_run_file(file.name, file.read_text()))
    shutil.copy(ROOT / "README.md", path)
    (path / "prompts.txt").write_text("One day\nOnce there was\n")
    (path / "ds_config.json").write_text('{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}\n')
    other = "--set train.steps=40 --set checkpoint.every=20 --set schedule.warmup_steps=4"
    for line in ("mkdir data", "cohort data synth stories --out data/stories.txt --bytes 300KiB",
                 "cohort data synth stories --out data/other.txt --bytes 100KiB --seed 2",
                 "cohort tokenizer train --input data/stories.txt --vocabulary 384 --out data/tokenizer.json",
                 *(f"cohort data prepare --input data/{name}.txt --out data/{name}.h5 --tokenizer data/tokenizer.json"
                   for name in ("stories", "other")),
                 "mpirun -np 4 cohort train inputs/demo.toml --set train.steps=600 --set checkpoint.keep=0",
                 *(f"cohort train inputs/demo.toml {other} --set run.name={name}" for name in ("a", "b")),
                 "cohort ckpt export runs/demo --out hf/demo", "cohort ckpt export runs/demo --out plain --format safetensors"):
        code, output = folder.shell(line)
        if code:
            sys.exit(f"FAILED  {line}: exit code {code}\n{output}")


def examples_as_blocks(commands_page):
    """The examples of help texts as pages: "cohort plan" -> its blocks. Those that several helps have are run once."""
    seen = set()
    for name, text in help_texts(commands_page).items():
        if (examples := tuple(examples_of(text))) in seen:
            continue
        seen.add(examples)
        code = next((codes for command, codes in CODES.items() if name.startswith(command)), None)
        blocks = []
        for line in examples:
            reason = next((why for part, why in NOT_HERE.items() if part in line), None)
            marks = {"not run": reason} if reason else {"exit code": code} if code else {}
            blocks.append(Block(f"{name} --help", 1, "bash", line + "\n", marks))
        if blocks:
            yield name, blocks


def run_page(program, mpirun, base, name, blocks):
    """Runs each block and prints what came of it: (how many ran, how many failed)."""
    with tempfile.TemporaryDirectory(prefix="cohort_page_") as scratch:
        path = Path(scratch) / "tree"
        shutil.copytree(base, path, symlinks=True, ignore=lambda folder, _: ("bin", "build") if Path(folder) == base else ())
        if name in AS_CLONED:
            shutil.rmtree(path / "data")
            shutil.rmtree(path / "runs")
        folder = Folder(program, mpirun, path)
        ran = failed = 0
        for block in blocks:
            first = next((line.strip() for line in block.text.split("\n") if line.strip()), "")
            what = f"{block.where}: {first}"
            missing = folder.missing_modules(block)
            if missing and os.environ.get("COHORT_REQUIRE_PYTHON") != "1":
                block.marks["not run"] = f"Python's {' and '.join(missing)}: make python"
            if "not run" in block.marks:
                print(f"--      {what}: {block.marks['not run']}", flush=True)
                continue
            start = time.monotonic()
            try:
                wrong = folder.run(block)
            except subprocess.TimeoutExpired:
                wrong = f"not done after {SECONDS} s"
            print(f"{'FAILED' if wrong else 'ok':8}{what}  ({time.monotonic() - start:.1f} s)", flush=True)
            if wrong:
                print("        " + wrong)
            ran += 1
            failed += bool(wrong)
        return ran, failed


def pages_with_blocks():
    """Page, or "cohort plan" for a help -> its blocks that can run."""
    texts = {page: (ROOT / page).read_text() for page in pages_of(ROOT)}
    pages = {page: [block for block in blocks_of(page, text)[0] if block.language in ("bash", "toml")] for page, text in texts.items()}
    pages |= dict(examples_as_blocks(texts[COMMANDS]))
    return {name: blocks for name, blocks in pages.items() if blocks}


def within(page, chosen):
    """Whether a page or help is one of the chosen, or the help of a command below one of them."""
    return page in chosen or page.startswith("cohort ") and " ".join(page.split()[:2]) in chosen


def main(action, program, tree, *rest):
    at = rest.index("--")
    chosen, mpirun, tree = rest[:at], list(rest[at + 1:]), Path(tree)
    pages = pages_with_blocks()
    if action == "prepare":
        if untested := [page for page in pages if not within(page, chosen)]:
            sys.exit(f"FAILED  no test runs the blocks of {', '.join(untested)}: tests/docs/CMakeLists.txt")
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir(parents=True)
        prepare(program, mpirun, tree)
        return
    done = [run_page(program, mpirun, tree, name, blocks) for name, blocks in pages.items() if within(name, chosen)]
    ran, failed = (sum(counts) for counts in zip(*done)) if done else (0, 0)
    print(f"{ran} blocks and examples ran, {failed} failed")
    sys.exit(1 if failed or not done else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
