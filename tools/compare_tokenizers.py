#!/usr/bin/env python3
"""Cohort beside Hugging Face's tokenizers and OpenAI's tiktoken on a text of yours: learning a BPE vocabulary, and encoding with it.

  tools/compare_tokenizers.py TEXT [--vocabulary 32768] [--rounds 3] [--ranks 2] [--encode-mib 20] [--json FILE]

Needs a Python with tokenizers, tiktoken, numpy and h5py, and a built Cohort (make). In each round the programs take turns. Cohort's times are those of
whole commands, from start to exit, files included: `cohort tokenizer train`, and `cohort data prepare` (reading, encoding, checksums, writing). The
others' are of the call alone, in a process that has started. One core each; then the same on several ranks, or with several threads. The vocabularies
must be the same, and so must the ids. The table gives medians over the rounds and, in brackets, smallest and largest."""

import argparse
import base64
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GPT2_PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
CHILD_TRAIN = """
import sys, time
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
text = open(sys.argv[1], encoding="utf-8", newline="").read()
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
trainer = trainers.BpeTrainer(vocab_size=int(sys.argv[2]), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
begin = time.perf_counter()
tokenizer.train_from_iterator([text], trainer)
print(time.perf_counter() - begin)
tokenizer.save(sys.argv[3])
"""


def cohort(options, ranks, *words):
    """Seconds of a whole command."""
    launcher = ["mpirun", "--bind-to", "none", *(["--allow-run-as-root", "--oversubscribe"] if os.geteuid() == 0 else []), "-np", str(ranks)]
    begin = time.perf_counter()
    done = subprocess.run([*(launcher if ranks > 1 else []), str(options.cohort), *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"cohort {' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - begin


def train_hugging_face(text, options, out, threads):
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false"}
    done = subprocess.run([sys.executable, "-c", CHILD_TRAIN, text, str(options.vocabulary), out], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("tokenizers failed:\n" + done.stderr)
    return float(done.stdout)


def merges_of(path):
    with open(path, encoding="utf-8") as file:
        merges = json.load(file)["model"]["merges"]
    return [tuple(one.split(" ")) if isinstance(one, str) else tuple(one) for one in merges]


def tiktoken_encoding(path):
    import tiktoken
    with open(path, encoding="utf-8") as file:
        ranks = {base64.b64decode(word): int(rank) for word, rank in (line.split() for line in file if line.strip())}
    return tiktoken.Encoding("own", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={})


def ids_of(token_file):
    import h5py
    import numpy
    with h5py.File(token_file) as file:
        return numpy.concatenate([file["train"][:], file["validation"][:]])


def told(seconds):
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("text", type=Path, help="a UTF-8 text; 100 MB for figures that mean something")
    add("--vocabulary", type=int, default=32768, help="tokens to learn (default: 32768)")
    add("--rounds", type=int, default=3)
    add("--ranks", type=int, default=2, help="of the second part (default: 2)")
    add("--encode-mib", type=int, default=20, help="how much of the text is encoded (default: 20)")
    add("--cohort", type=Path, default=ROOT / "build/cpu/cohort")
    add("--json", type=Path)
    options = parser.parse_args()
    options.cohort = options.cohort.resolve()
    figures = {name: [] for name in ("train_cohort", "train_hf", "train_cohort_n", "train_hf_n", "encode_cohort", "encode_cohort_n", "encode_tiktoken", "encode_hf")}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for _ in range(options.rounds):
            for name, ranks in (("train_cohort", 1), ("train_cohort_n", options.ranks)):
                figures[name].append(cohort(options, ranks, "tokenizer", "train", "--input", options.text, "--vocabulary", options.vocabulary, "--out",
                                            folder / "own.json", "--overwrite"))
            for name, threads in (("train_hf", 1), ("train_hf_n", options.ranks)):
                figures[name].append(train_hugging_face(options.text, options, folder / "hf.json", threads))
        # Both end with the same merges, unless two pairs are equally frequent and a library breaks the tie in another way.
        own, theirs = merges_of(folder / "own.json"), merges_of(folder / "hf.json")
        same = sum(a == b for a, b in zip(own, theirs))
        print(f"{options.text}: {options.text.stat().st_size / 1e6:.1f} MB, {options.vocabulary} tokens; {same} of {len(own)} merges are the same, in order")
        cohort(options, 1, "tokenizer", "export", "--tokenizer", folder / "own.json", "--format", "tiktoken", "--out", folder / "own.tiktoken")
        piece = folder / "piece.txt"
        piece.write_bytes(options.text.read_bytes()[:options.encode_mib << 20].decode("utf-8", errors="ignore").encode())
        text = piece.read_bytes().decode()
        import tokenizers
        reference, hugging_face = tiktoken_encoding(folder / "own.tiktoken"), tokenizers.Tokenizer.from_file(str(folder / "own.json"))
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        for _ in range(options.rounds):
            for name, ranks in (("encode_cohort", 1), ("encode_cohort_n", options.ranks)):
                figures[name].append(cohort(options, ranks, "data", "prepare", "--input", piece, "--tokenizer", folder / "own.json", "--out", folder / "own.h5", "--overwrite"))
            begin = time.perf_counter()
            ids = reference.encode_ordinary(text)
            figures["encode_tiktoken"].append(time.perf_counter() - begin)
            begin = time.perf_counter()
            others = hugging_face.encode(text).ids
            figures["encode_hf"].append(time.perf_counter() - begin)
        mine = ids_of(folder / "own.h5")
        print(f"ids of {len(ids)} tokens: tiktoken's {'equal' if mine.tolist() == ids else 'DIFFER'}, tokenizers' {'equal' if others == ids else 'DIFFER'}")
    megabytes = len(text.encode()) / 1e6
    median = {name: statistics.median(values) for name, values in figures.items()}
    print(f"learning, one core       Cohort {told(figures['train_cohort'])}, tokenizers {told(figures['train_hf'])}: {median['train_cohort'] / median['train_hf']:.2f} of its time")
    print(f"learning, {options.ranks} cores        Cohort {told(figures['train_cohort_n'])}, tokenizers {told(figures['train_hf_n'])}: {median['train_cohort_n'] / median['train_hf_n']:.2f} of its time")
    for name, title in (("encode_cohort", "Cohort, one rank"), ("encode_cohort_n", f"Cohort, {options.ranks} ranks"), ("encode_tiktoken", "tiktoken"), ("encode_hf", "tokenizers")):
        print(f"encoding, {title:16} {megabytes / median[name]:8.1f} MB/s   {told(figures[name])}")
    print(f"Cohort on one core: {median['encode_tiktoken'] / median['encode_cohort']:.2f} times tiktoken's rate; {options.ranks} ranks: {median['encode_cohort'] / median['encode_cohort_n']:.2f} times one rank's")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
