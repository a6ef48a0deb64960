"""cohort data prepare as people use it: a folder of mixed files on 1, 2 and 3 ranks, killed and started again, one line of many megabytes in
little memory, and what cannot be prepared.

    prepare_test.py COHORT -- MPIRUN FLAG ..."""

import glob
import gzip
import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time

from launched import Launched, environment_without_launcher, kill_job

try:
    import h5py
except ImportError:
    h5py = None

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_prepare_")
random.seed(5)


def path(name):
    return os.path.join(folder.name, name)


def write(name, content):
    os.makedirs(os.path.dirname(path(name)), exist_ok=True)
    with open(path(name), "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return path(name)


def digest(name):
    with open(path(name), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def prepare(*words, ranks=0, **more):
    return job.run(["data", "prepare", "--overwrite", *words], ranks, **more)


def story(sentences):
    words = ["the", "cat", "sat", "on", "a", "mat", "Zürich", "1234", "don't", "汉字", "😀"]
    return "".join(" ".join(random.choices(words, k=12)) + random.choice([".\n", "!\n", "\n\n", "?\r\n"]) for _ in range(sentences))


# 1. A folder of mixed files, on many ranks.
documents = [story(40) for _ in range(60)]
lines = "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(documents[:30]))
write("in/a.txt", story(20000))
write("in/b.txt", story(3))
write("in/deep/c.txt", story(50))
write("in/d.jsonl", lines)
write("in/e.txt.gz", gzip.compress(story(12000).encode()))
write("in/f.jsonl.gz", gzip.compress("".join(json.dumps({"text": text}) + "\n" for text in documents[20:]).encode()))
write("in/picture.png", b"\x89PNG\r\n\0\0\0")
if shutil.which("zstd"):
    write("g.txt", story(9000))
    subprocess.run(["zstd", "-q", path("g.txt"), "-o", path("in/g.txt.zst")], check=True)
for tokenizer in (["--tokenizer", "bpe", "--vocabulary", "500", "--special-token", "<|endoftext|>", "--end-of-document", "<|endoftext|>"],
                  ["--tokenizer", "char", "--dedup"]):
    digests = set()
    for ranks in (0, 1, 2, 3):
        code, output, errors, _ = prepare("--input", path("in"), "--out", path("out.h5"), *tokenizer, ranks=ranks)
        job.check(f"{tokenizer[1]} on {ranks} ranks", code == 0, errors)
        digests.add(digest("out.h5"))
    job.check(f"{tokenizer[1]}: the same bytes for any number of ranks", len(digests) == 1)
    job.check("what was left out is noted", "picture.png" in output, output)
    job.check("no parts are left", not os.path.exists(path("out.h5.parts")))
job.check("duplicates are counted", "10 duplicate documents left out" in output, output)
if h5py:
    with h5py.File(path("out.h5")) as file:
        starts = [int(x) for x in file["documents/train"]]
        job.check("h5py reads documents and tokens", starts[0] == 0 and starts[-1] == len(file["train"]) and file["train"].dtype == "uint16"
                  and file["train"].chunks is None, f"{starts}")

# 2. Killed, and started again.
write("long.txt", 6 * story(240000))  # so long that a busy machine kills it before its end
words = ["--input", path("long.txt"), "--tokenizer", path("out.h5"), "--out"]
code, _, errors, seconds = prepare(*words, path("expected.h5"))
job.check("a long text", code == 0, errors)
for attempt in range(3):
    with subprocess.Popen([*job.mpirun, "-np", "2", job.program, "data", "prepare", *words, path("killed.h5")], env=environment_without_launcher(),
                          stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 30
        parts = 0
        while parts < 2 + attempt and running.poll() is None and time.monotonic() < deadline:
            parts = len(glob.glob(path("killed.h5.parts/*.part")))
        under_way = running.poll() is None
        if under_way:
            kill_job(running)
    job.check("killed before its end", under_way)
    job.check(f"killed with {parts} parts: no token file, no half one", not os.path.exists(path("killed.h5")) or attempt > 0)
kept = sorted(os.listdir(path("killed.h5.parts")))
code, _, errors, _ = prepare(*words, path("killed.h5"))
job.check("it continues", code == 0 and kept, f"{kept} {errors}")
job.check("and gives the same bytes", code == 0 and digest("killed.h5") == digest("expected.h5"))

# 3. One line of 200 MB, with 250 MB of memory.
with open(path("line.txt"), "wb") as file:
    block = ("word " * 200000).encode()
    for _ in range(200):
        file.write(block)


def limited(*words):
    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (250 << 20, 250 << 20))
    done = subprocess.run([job.program, "data", "prepare", "--overwrite", *words], env=environment_without_launcher(), capture_output=True,
                          text=True, preexec_fn=limit)
    return done.returncode, done.stdout, done.stderr, 0


job.expect("one line of 200 MB in little memory", limited("--input", path("line.txt"), "--out", path("line.h5")), 0, lines=0)
with open(path("line.txt"), "rb") as plain, gzip.open(path("line.jsonl.gz"), "wb", 1) as packed:
    packed.write(b'{"text": "first"}\n{"text": "')
    shutil.copyfileobj(plain, packed)
os.remove(path("line.txt"))
job.expect("a line of JSON of 200 MB is refused", limited("--input", path("line.jsonl.gz"), "--out", path("none.h5")), 5,
           ["line.jsonl.gz: line", "more than 64.0 MiB"], lines=1)

# 4. What cannot be prepared, on 2 ranks: one message, and nothing is left.
good = "".join(json.dumps({"text": f"number {i}"}) + "\n" for i in range(40000))
bad = {
    "broken.jsonl": (good + '{"text": "x\n', ["line 40001", "broken JSON"]),
    "field.jsonl": (good + '{"body": "x"}\n', ["line 40001", "no field 'text'"]),
    "latin1.txt": (b"a line\n" * 100000 + b"\xe9t\xe9\n", ["invalid UTF-8 at byte 700000", "E9"]),
    "cut.txt.gz": (gzip.compress(good.encode())[:-5], ["truncated", "copy it again"]),
    "empty.txt.gz": (gzip.compress(b""), ["is empty", "empty.txt.gz"]),
}
for name, (content, said) in bad.items():
    write(name, content)
    for ranks in (0, 2):
        job.expect(f"{name} on {ranks} ranks", prepare("--input", path(name), "--out", path("none.h5"), "--tokenizer", "char", ranks=ranks), 5, said)
job.expect("a special token that byte does not have", prepare("--input", path("long.txt"), "--out", path("none.h5"), "--end-of-document", "<|x|>"),
           2, ["--end-of-document '<|x|>'", "no special tokens"], lines=1)
job.expect("a pattern of nothing", prepare("--input", path("*.nothing"), "--out", path("none.h5")), 5, ["gives no texts"], lines=1)
os.mkfifo(path("pipe"))
job.expect("a pipe", prepare("--input", path("pipe"), "--out", path("none.h5")), 7, ["pipe", "not a plain file"], lines=1)
job.check("nothing was written", not os.path.exists(path("none.h5")) and not os.path.exists(path("none.h5.tmp")))

# 5. A text that is an input twice, whose parts two ranks write at once; and a folder of the parts' name that somebody has.
with gzip.open(path("twice.txt.gz"), "wb") as file:
    file.write(story(3000).encode())
os.makedirs(path("twice.h5.parts"))
write("twice.h5.parts/notes.txt", "mine\n")
for ranks in (2, 3, 0):
    words = ["--input", path("twice.txt.gz"), "--input", path("twice.txt.gz"), "--out", path("twice.h5"), "--overwrite"]
    job.expect(f"a text twice, on {ranks} ranks", prepare(*words, ranks=ranks), 0, lines=0)
    job.check("... gives the same bytes", ranks == 2 or digest("twice.h5") == first, str(ranks))
    first = digest("twice.h5")
job.check("a file of somebody's in the folder of the parts stays", os.listdir(path("twice.h5.parts")) == ["notes.txt"])

# 6. Conversations on any number of ranks, killed and started again: the same bytes, and what counts are the answers.
words = "one two three four five six seven eight nine ten".split()
answers = []


def sentence():
    return " ".join(random.choices(words, k=random.randint(1, 30)))


def conversation():
    turns = [{"role": "system", "content": sentence()}] if random.random() < 0.3 else []
    for _ in range(random.randint(1, 3)):
        answers.append(sentence())
        turns += [{"role": "user", "content": sentence()}, {"role": "assistant", "content": answers[-1]}]
    if len(turns) == 2 and random.random() < 0.5:
        return {"prompt": turns[0]["content"], "response": answers[-1]}
    return {"messages": turns}


with open(path("chat.jsonl"), "w") as file:
    for _ in range(6000):
        file.write(json.dumps(conversation()) + "\n")
special = ["--special-token", "<|im_start|>", "--special-token", "<|im_end|>"]
words_of = ["--input", path("chat.jsonl"), "--tokenizer", "bpe", "--vocabulary", "300", *special, "--conversations", "chatml"]
digests = set()
for ranks in (0, 1, 2, 3):
    code, output, errors, _ = prepare(*words_of, "--out", path("chat.h5"), ranks=ranks)
    job.check(f"conversations on {ranks} ranks", code == 0 and "count as targets" in output, errors)
    digests.add(digest("chat.h5"))
job.check("conversations: the same bytes for any number of ranks", len(digests) == 1)
for _ in range(10):  # a busy machine may end it before we see its first part
    with subprocess.Popen([*job.mpirun, "-np", "2", job.program, "data", "prepare", *words_of, "--out", path("chat2.h5")], stderr=subprocess.DEVNULL,
                          env=environment_without_launcher(), stdout=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 30
        parts = []
        while not parts and running.poll() is None and time.monotonic() < deadline:
            parts = [name for name in os.listdir(path("chat2.h5.parts")) if name.endswith(".part")] if os.path.exists(path("chat2.h5.parts")) else []
        kill_job(running)
    if not os.path.exists(path("chat2.h5")):
        break
    os.remove(path("chat2.h5"))
job.check("conversations, killed: no token file", not os.path.exists(path("chat2.h5")) and parts)
job.expect("they continue", prepare(*words_of, "--out", path("chat2.h5")), 0)
job.check("and give the same bytes", {digest("chat2.h5")} == digests)
if h5py:
    with h5py.File(path("chat.h5")) as file:
        counted = [n for split in ("train", "validation") for n in file[f"counted/{split}"][:]]
        ids = [int(n) for split in ("train", "validation") for n in file[split][:]]
        end = next(number for text, number in json.loads(file["tokenizer"][()])["special"] if text == "<|im_end|>")
        job.check("h5py reads the mask", file["counted/train"].dtype == "uint8" and file.attrs["chat_template"] in ("chatml", b"chatml"))
    runs = sum(1 for i, n in enumerate(counted) if n and (i == 0 or not counted[i - 1]))
    ends = sum(1 for i, n in enumerate(counted) if n and ids[i] == end)
    job.check("each answer and its end count", runs == len(answers) == ends, f"{runs} {len(answers)} {ends}")
shown = job.run(["data", "inspect", path("chat.h5"), "--samples", "1", "--json"])[1]
targets = json.loads(shown)["samples"][0]["targets"]
job.check("inspect shows what counts", targets and targets[0] == answers[0] + "<|im_end|>", str(targets))
shown = job.run(["data", "inspect", path("chat.h5")])[1]
job.check("and in text", f"[[{answers[0]}<|im_end|>]]" in shown, shown)
job.expect("special tokens that byte does not have", prepare("--input", path("chat.jsonl"), "--out", path("none.h5"), "--tokenizer", path("line.h5"),
                                                             "--conversations", "chatml"), 2, ["<|im_start|>, <|im_end|>", "plain"], lines=1)

folder.cleanup()
job.finish()
