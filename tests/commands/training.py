"""A small corpus, a run file, and ways to look at a run: for the tests that train with the built program."""

import json
import os
import signal
import subprocess
import time

from launched import children_of, environment_without_launcher, kill_job

# How far losses of some ten steps in fp32 may be apart, relative, when sums come in another order: they differ by a few 1e-7 at first,
# and Adam, which divides by the root of small second moments, makes up to 1e-5 of it.
DRIFT = 1e-4

RUN_FILE = """\
[model]
kind = "gpt2"
layers = 1
width = 32
heads = 2
context = 32
dropout = 0.1

[data]
tokens = "TOKENS"

[train]
steps = 60
micro_batch = 2
global_batch = 8
validate_every = 20
validation_samples = 6

[optimizer]
learning_rate = 1e-2

[schedule]
warmup_steps = 5

[log]
level = "debug"

[sample]
tokens = 40
"""


class Training:
    def __init__(self, job, folder):
        self.job, self.folder = job, folder
        self.tokens = self.prepare("stories", seed=3)
        self.run_file = self.write("run.toml", RUN_FILE.replace("TOKENS", self.tokens))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def prepare(self, name, seed, size="40KiB", tokenizer="char"):
        """Writes stories and their token file, with `cohort data`; returns the path of the token file."""
        text, tokens = self.path(name + ".txt"), self.path(name + ".h5")
        for words in (["data", "synth", "stories", "--out", text, "--bytes", size, "--seed", str(seed)],
                      ["data", "prepare", "--input", text, "--out", tokens, "--tokenizer", tokenizer]):
            self.job.expect(" ".join(words[:2]), self.job.run(words), 0, lines=0)
        return tokens

    def words(self, name, *more, run_file=None, **keys):
        """The command line of a run; keys: train__steps=5 stands for --set train.steps=5."""
        overrides = [f"run.directory={self.path(name)}"] + [f"{key.replace('__', '.')}={value}" for key, value in keys.items()]
        return ["train", run_file or self.run_file, *[word for item in overrides for word in ("--set", item)], *more]

    def metrics(self, name):
        try:
            with open(self.path(name + "/metrics.jsonl"), encoding="utf-8") as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def log(self, name, rank):
        with open(self.path(f"{name}/logs/rank_{rank}/train.log"), encoding="utf-8") as file:
            return file.read()

    def checkpoints(self, name):
        folder = self.path(name + "/checkpoints")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return sorted(int(entry[len("step_"):]) for entry in names if entry.startswith("step_"))

    def sums(self, name, step):
        """The checksums of each part of each tensor of a checkpoint: of one layout and form, equal sums are, for all we can tell, equal
        bits."""
        with open(self.path(f"{name}/checkpoints/step_{step:08d}/manifest.json"), encoding="utf-8") as file:
            return {(tensor["name"], str(part.get("start")), part["begin"]): part["crc32"]
                    for tensor in json.load(file)["tensors"] for part in tensor["parts"]}


class Running:
    """A run in progress, to be disturbed."""

    def __init__(self, training, name, ranks, *more, **keys):
        self.training, self.name = training, name
        job = training.job
        command = [*job.mpirun, "-np", str(ranks)] if ranks else []
        self.output = open(training.path(name + ".output"), "w+", encoding="utf-8")
        environment = environment_without_launcher()
        self.process = subprocess.Popen([*command, job.program, *training.words(name, *more, **keys)], env=environment,
                                        stdout=self.output, stderr=subprocess.STDOUT)

    def wait_for_step(self, step, seconds=60):
        """True once the metrics have this step and the run still goes on."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            if len(self.training.metrics(self.name)) >= step:
                return True
            time.sleep(0.005)
        return False

    def wait_for_text(self, text, seconds=60):
        """True once it has printed this and still goes on."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            with open(self.output.name, encoding="utf-8") as file:
                if text in file.read():
                    return True
            time.sleep(0.02)
        return False

    def pid_of(self, rank):
        for pid in children_of(self.process.pid):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if f"OMPI_COMM_WORLD_RANK={rank}".encode() in file.read().split(b"\0"):
                        return pid
            except OSError:
                pass  # it ended while we looked
        raise RuntimeError(f"no process of rank {rank}")

    def kill_all(self):
        """As kill_job()."""
        kill_job(self.process)

    def finish(self, seconds=60):
        """The exit code, the output and the seconds that the end took."""
        start = time.monotonic()
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            code = "none: it hangs"
        self.output.seek(0)
        return code, self.output.read(), time.monotonic() - start
