"""Models of SentencePiece against its own Python client, which also trains them here: the ids and the texts are equal, in token files too, on
any ranks and where a text is encoded in parts; the model travels in token file and checkpoint; what is lost of texts is said.
sentencepiece_test.py COHORT -- MPIRUN FLAG ...; skipped if Cohort is built without the library."""

import base64
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

try:
    import h5py
    import sentencepiece
except ImportError as error:  # an environment of before
    required = os.environ.get("COHORT_REQUIRE_PYTHON") == "1"
    print(f"{'FAILED' if required else 'skipped'}: {error}; tools/python-environment installs it")
    sys.exit(1 if required else 77)

program, mpirun = sys.argv[1], sys.argv[3:]
folder_object = tempfile.TemporaryDirectory(prefix="cohort_sentencepiece_")
folder = pathlib.Path(folder_object.name)
failures = 0


def check(what, condition, detail=""):
    global failures
    print(("ok      " if condition else "FAILED  ") + what)
    if not condition:
        failures += 1
        print(str(detail)[:2000])


def run(*words, ranks=0, code=0, says=()):
    command = [*mpirun, "-np", str(ranks)] if ranks else []
    done = subprocess.run([*command, program, *map(str, words)], capture_output=True, cwd=folder)
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    check(" ".join(map(str, words))[:100], done.returncode == code and all(part in said for part in says), said)
    return done.stdout


def write(name, data):
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder / name


# Stories to learn from; and text with every category of Unicode, spaces of all kinds, CRLF, long runs.
run("data", "synth", "stories", "--out", "stories.txt", "--bytes", "300KiB", "--seed", "3")
stories = (folder / "stories.txt").read_text()
random.seed(1)
by_category = {}
for point in range(0x110000):
    if not 0xD800 <= point < 0xE000:
        by_category.setdefault(unicodedata.category(chr(point)), []).append(chr(point))
every = "".join(random.choice(by_category[category]) + random.choice(("", " ", "a", "\n")) for category in sorted(by_category) for _ in range(40))
assert len(by_category) == 29
mixed = (stories[:3000] + every + "Once\r\nupon\r\n\r\n  a \t time   \n" + " " * 3000 + "x" * 3000 + "\n" * 50 + "é" * 999 + "語" * 999 + "\U0001F600" * 99 +
         "don't 3.14159 <s> </s> <0x0A> <unk> ﬁ ① ﷺ Å ½ e\u0301").replace("\0", "")
long_text = "".join(line + random.choice(("\n", "\r\n", "\n\n", " \n", "\n ", "\tü\n")) for line in (stories * 4).splitlines())


def train(name, **options):
    options = {"vocab_size": 600, "hard_vocab_limit": False, "minloglevel": 2, "num_threads": 1, **options}
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(stories.splitlines()[:2000]), model_writer=model, **options)
    return write(name + ".model", model.getvalue()), sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


AS_IT_IS = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "byte_fallback": True}
MODELS = {
    "llama": train("llama", model_type="bpe", **AS_IT_IS),
    "unigram": train("unigram", model_type="unigram", user_defined_symbols=["<pad>", "  "], **AS_IT_IS),
    "bare": train("bare", model_type="bpe", add_dummy_prefix=False, **AS_IT_IS),
    "nfkc": train("nfkc", model_type="unigram"),  # as the trainer does it unless told otherwise
}
if b"built without SentencePiece" in subprocess.run([program, "tokenizer", "show", "--tokenizer", MODELS["llama"][0]], capture_output=True).stderr:
    print("skipped: this cohort is built without SentencePiece; on Debian libsentencepiece-dev has it")
    sys.exit(77)



def same(mine, theirs, client, in_parts):
    """Of a text in parts a unigram model may take another of two ways whose scores are equal: as good as all tokens are the same."""
    if not in_parts:
        return mine == theirs
    return abs(len(mine) - len(theirs)) < len(theirs) / 10000 and client.decode(mine) == client.decode(theirs)



for name, (model, client) in MODELS.items():
    for what, text in (("mixed", mixed), ("stories", stories), ("long", long_text), ("space", " a"), ("one", "a"), ("line", "\n")):
        file = write("text.txt", text)
        wanted = client.encode(text)
        got = [int(word) for word in run("tokenizer", "encode", "--tokenizer", model, "--file", file).split()]
        at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
        check(f"{name}: ids of {what}", same(got, wanted, client, what == "long" and name in ("unigram", "nfkc")), f"{len(got)} {len(wanted)}, at {at}: {got[at:at + 8]} {wanted[at:at + 8]}")
        ids = write("ids.txt", " ".join(map(str, wanted)))
        decoded = run("tokenizer", "decode", "--tokenizer", model, "--file", ids).decode("utf-8", "replace")
        check(f"{name}: text of {what}", decoded == client.decode(wanted), f"{decoded[:200]!r} {client.decode(wanted)[:200]!r}")
        if name != "nfkc" and "\u2581" not in text:
            check(f"{name}: nothing of {what} is lost", decoded == text, f"{decoded[:200]!r} {text[:200]!r}")

# Token files: each document as the client has it, the same for any ranks; a text of many pieces as one.
(folder / "corpus").mkdir()
lines = [mixed[i:i + 400] for i in range(0, len(mixed), 400)]
write("corpus/a.jsonl", "".join(json.dumps({"text": line}) + "\n" for line in lines))
write("corpus/b.txt", long_text)
for name in ("llama", "unigram"):
    model, client = MODELS[name]
    files = []
    for ranks in (0, 3):
        out = folder / f"{name}{ranks}.h5"
        run("data", "prepare", "--input", "corpus", "--out", out, "--tokenizer", model, "--end-of-document", "</s>", ranks=ranks)
        files.append(out.read_bytes())
    check(f"{name}: the same bytes on 3 ranks", files[0] == files[1])
    with h5py.File(folder / f"{name}0.h5") as file:
        tokens = [*map(int, file["train"]), *map(int, file["validation"])]
    wanted = [id_ for text in (*lines, long_text) for id_ in (*client.encode(text), client.eos_id())]
    at = next((i for i, (a, b) in enumerate(zip(tokens, wanted)) if a != b), min(len(tokens), len(wanted)))
    check(f"{name}: the tokens of each document", same(tokens, wanted, client, name == "unigram"), f"{len(tokens)} {len(wanted)}, at {at}: {tokens[at:at + 8]} {wanted[at:at + 8]}")
    run("data", "inspect", folder / f"{name}0.h5", "--samples", 2, says=("sentencepiece",))

# What is lost is said.
said = run("tokenizer", "show", "--tokenizer", MODELS["nfkc"][0]).decode()
check("show says what is not kept", "not kept    runs of spaces, spaces at the end, line ends, tabs, compatibility characters (NFKC), characters" in said, said)
check("... and nothing of a model that keeps all", b"not kept" not in run("tokenizer", "show", "--tokenizer", MODELS["llama"][0]))
run("data", "prepare", "--input", "stories.txt", "--out", "nfkc.h5", "--tokenizer", MODELS["nfkc"][0], says=("do not give back all of the text: runs of spaces",))

# It travels with token file and checkpoint, byte for byte.
with h5py.File(folder / "nfkc.h5") as file:
    serialised = json.loads(bytes(file["tokenizer"][()]).decode())
check("the model is in the token file", base64.b64decode(serialised["model"]) == MODELS["nfkc"][0].read_bytes())
run("data", "prepare", "--input", "stories.txt", "--out", "train.h5", "--tokenizer", MODELS["llama"][0])
run("data", "prepare", "--input", "stories.txt", "--out", "again.h5", "--tokenizer", "train.h5", "--validation", "0.2")
write("run.toml", '[model]\nkind = "llama"\nlayers = 1\nwidth = 32\nheads = 2\ncontext = 32\n[data]\ntokens = "train.h5"\n'
      '[train]\nsteps = 3\nvalidate_every = 0\nvalidation_samples = 4\n[sample]\nprompt = "Once"\ntokens = 4\n')
run("train", "run.toml")
os.remove(folder / "train.h5")
run("generate", "runs/run", "--prompt", "Once there", "--tokens", 8)
run("eval", "runs/run", "--tokens", "again.h5", "--samples", 4, says=("bits per byte",))
run("eval", "runs/run", "--tokens", "nfkc.h5", code=5, says=("its tokenizer (sentencepiece",))

# Of a folder of Hugging Face whose tokenizer.json has a step that Cohort does not have.
run("ckpt", "export", "runs/run", "--format", "hf", "--out", "hf")
os.remove(folder / "hf/cohort_tokenizer.json")
write("hf/tokenizer.json", '{"model": {"type": "BPE", "byte_fallback": true}, "normalizer": {"type": "Prepend"}}')
write("hf/tokenizer.model", MODELS["llama"][0].read_bytes())
run("ckpt", "import", "hf", "--out", "imported")
run("generate", "imported", "--prompt", "Once there", "--tokens", 8)

# What cannot be.
damaged = MODELS["llama"][0].read_bytes()
run("tokenizer", "show", "--tokenizer", write("cut.model", damaged[:len(damaged) // 2 + 1]), code=5, says=("cut.model: not a SentencePiece model",))
run("tokenizer", "show", "--tokenizer", write("text.model", "no model"), code=5, says=("text.model: not a SentencePiece model",))
run("tokenizer", "show", "--tokenizer", write("empty.model", b""), code=5, says=("empty.model",))
write("bad.txt", b"abc\xffdef and more text")
run("data", "prepare", "--input", "bad.txt", "--out", "bad.h5", "--tokenizer", MODELS["llama"][0], code=5, says=("bad.txt", "byte 3"))
run("data", "prepare", "--input", "stories.txt", "--out", "bad.h5", "--tokenizer", "sentencepiece", code=2, says=("--tokenizer FILE.model",))
run("data", "prepare", "--input", "stories.txt", "--out", "bad.h5", "--tokenizer", MODELS["llama"][0], "--vocabulary", 500, code=2, says=("no choice of size",))
folder_object.cleanup()
sys.exit(1 if failures else 0)
