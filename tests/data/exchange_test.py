"""cohort data import, export and inspect against files that NumPy writes as nanoGPT, llm.c and Megatron-LM do.

    exchange_test.py COHORT -- MPIRUN FLAG ..."""

import json
import os
import sys
import tempfile

from launched import Launched

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_exchange_")
random = np.random.default_rng(3)
TOKENS = 300_000


def path(name):
    return os.path.join(folder.name, name)


def write(name, *arrays):
    with open(path(name), "wb") as file:
        for array in arrays:
            array.tofile(file)
    return path(name)


def tokens_of(name):
    with h5py.File(path(name)) as file:
        starts = [file[f"documents/{split}"][:].tolist() if "documents" in file else None for split in ("train", "validation")]
        return file["train"][:], file["validation"][:], starts


def bring(name, *words, tokenizer="byte"):
    return job.run(["data", "import", "--overwrite", "--out", path(name), "--tokenizer", tokenizer, *words])


def llmc_header(magic, version, count):
    header = np.zeros(256, dtype=np.int32)
    header[:3] = magic, version, count
    return header


def megatron(name, ids, lengths, documents, code):
    write(name + ".bin", ids)
    lengths = np.array(lengths, dtype=np.int32)
    pointers = np.concatenate([[0], np.cumsum(lengths.astype(np.int64) * ids.itemsize)[:-1]])
    with open(path(name + ".idx"), "wb") as file:
        file.write(b"MMIDIDX\x00\x00" + np.uint64(1).tobytes() + np.uint8(code).tobytes())
        file.write(np.uint64(len(lengths)).tobytes() + np.uint64(len(documents)).tobytes())
        file.write(lengths.tobytes() + pointers.astype(np.int64).tobytes() + np.array(documents, dtype=np.int64).tobytes())


ids = random.integers(0, 256, TOKENS)
validation = TOKENS // 10
cases = {}
cases["nanogpt"] = [write("n.bin", ids.astype(np.uint16)), "--format", "nanogpt"]
cases["llm.c, 16 bits"] = [write("l16.bin", llmc_header(20240520, 1, TOKENS), ids.astype(np.uint16))]
cases["llm.c, 32 bits"] = [write("l32.bin", llmc_header(20240801, 7, TOKENS), ids.astype(np.uint32))]
for dtype in ("uint8", "int16", "uint16", "int32", "uint32", "int64"):
    np.save(path(f"{dtype}.npy"), ids.astype(dtype))
    cases[f"npy, {dtype}"] = [path(f"{dtype}.npy")]
np.save(path("rows.npy"), ids.astype(np.int32).reshape(300, -1))
cases["npy, rows"] = [path("rows.npy")]
for name, (source, *words) in cases.items():
    code, output, errors, _ = bring("x.h5", "--input", source, *words)
    job.check(f"{name}: imported", code == 0, errors)
    train, rest, starts = tokens_of("x.h5")
    job.check(f"{name}: the same ids", np.array_equal(np.concatenate([train, rest]), ids) and len(rest) == validation)
    job.check(f"{name}: one document", starts == [[0, len(train)], [0, len(rest)]], str(starts))

# Megatron-LM: documents of several sequences, an empty one, and every type.
lengths = [100_000, 50_000, 0, 1, 149_999]
documents = [0, 2, 3, 4, 5]
for dtype, code in (("uint8", 1), ("int16", 3), ("int32", 4), ("int64", 5), ("uint16", 8)):
    megatron("m", ids.astype(dtype), lengths, documents, code)
    for source in ("m.idx", "m.bin"):
        code, output, errors, _ = bring("x.h5", "--input", path(source), "--validation", "0.4")
        job.check(f"Megatron, {dtype}, {source}: imported", code == 0 and "megatron" in output, errors)
        train, rest, starts = tokens_of("x.h5")
        job.check(f"Megatron, {dtype}: the same ids", np.array_equal(np.concatenate([train, rest]), ids))
        job.check(f"Megatron, {dtype}: the documents", starts == [[0, 150_000, 150_001, 180_000], [0, 120_000]], str(starts))

# Documents by their end, two files, a validation file; and back.
with open(path("text.txt"), "w", encoding="utf-8") as file:
    file.write("one two three four five\n" * 200)
job.expect("a tokenizer with a special token", job.run(["tokenizer", "train", "--input", path("text.txt"), "--vocabulary", "300", "--special-token",
           "<|endoftext|>", "--out", path("tokenizer.json")]), 0)
code, output, errors, _ = job.run(["tokenizer", "encode", "--tokenizer", path("tokenizer.json"), "--special", "a<|endoftext|>bb<|endoftext|>c"])
words = np.array(output.split(), dtype=np.uint16)
end = int(words[1])
write("a.bin", words)
write("b.bin", words[2:])
job.expect("ends of documents", bring("x.h5", "--input", path("a.bin"), "--input", path("a.bin"), "--validation-input", path("b.bin"), "--format",
           "nanogpt", "--end-of-document", "<|endoftext|>", tokenizer=path("tokenizer.json")), 0)
train, rest, starts = tokens_of("x.h5")
per_file = [0, 2, 2 + len(words[2:]) - 1]
job.check("documents end behind their token and with their file",
          starts == [per_file + [len(words) + p for p in per_file] + [len(train)], [0, len(rest) - 1, len(rest)]], str(starts))
job.check("the validation file is the validation split", np.array_equal(rest, words[2:]))
for format, header in (("nanogpt", 0), ("llmc", 1024)):
    job.expect(f"export {format}", job.run(["data", "export", path("x.h5"), "--format", format, "--out", path(format)]), 0, lines=0)
    for name, expected in (("train.bin", train), ("val.bin", rest)):
        with open(path(f"{format}/{name}"), "rb") as file:
            content = file.read()
        job.check(f"{format}/{name} holds the ids", np.array_equal(np.frombuffer(content[header:], dtype=np.uint16), expected))
        if header:
            job.check("with llm.c's header", np.frombuffer(content[:12], dtype=np.int32).tolist() == [20240520, 1, len(expected)])
job.expect("export does not replace files", job.run(["data", "export", path("x.h5"), "--format", "llmc", "--out", path("llmc")]), 2, ["--overwrite"])
job.expect("export in another format", job.run(["data", "export", path("x.h5"), "--format", "npy", "--out", path("npy")]), 2, ["nanogpt, llmc"])

# Inspect.
code, output, errors, _ = job.run(["data", "inspect", path("x.h5"), "--json", "--samples", "2"])
facts = json.loads(output)
job.check("inspect counts documents", facts["documents"]["count"] == 8 and facts["documents"]["shortest"] == 1
          and sum(bucket["documents"] for bucket in facts["documents"]["histogram"]) == 8, output)
job.check("inspect finds nothing bad", facts["bytes_not_utf8"]["count"] == 0 and facts["tokens_without_text"]["count"] == 0, output)
job.expect("random bytes", bring("bad.h5", "--input", path("uint8.npy")), 0)
code, output, errors, _ = job.run(["data", "inspect", path("bad.h5")])
job.check("inspect finds bytes that are no UTF-8", "bytes of the decoded text are no UTF-8; the first: /train, token" in output, output)
write("big.bin", np.array([1, 2, 999], dtype=np.uint16))
job.expect("ids of another tokenizer", bring("none.h5", "--input", path("big.bin"), "--format", "nanogpt", tokenizer=path("x.h5")), 5,
           ["token 2, at byte 4", "is 999", "vocabulary of"], lines=1)
job.check("nothing was written", not os.path.exists(path("none.h5")))

folder.cleanup()
job.finish()
