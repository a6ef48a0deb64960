#!/usr/bin/env python3
"""Cohort beside Hugging Face's tokenizers and OpenAI's tiktoken on a text of yours: learning a BPE vocabulary, and encoding with it.

  tools/compare_tokenizers.py TEXT [--vocabulary 32768] [--rounds 3] [--ranks 2] [--encode-mib 20] [--json FILE]
  tools/compare_tokenizers.py TEXT --tokenizer cl100k_base.tiktoken        # a published vocabulary: encoding alone

Needs a Python with tokenizers, tiktoken, numpy and h5py, and a built Cohort (make). In each round the programs take turns. Cohort's times are those of
whole commands, from start to exit, files included: `cohort tokenizer train`, and `cohort data prepare` (reading, encoding, checksums, writing). The
others' are of the call alone, in a process that has started. One core each; then the same on several ranks, or with several threads. The vocabularies
must be the same, and so must the ids. The table gives medians over the rounds and, in brackets, smallest and largest. What Cohort takes to encode
two lines, which is MPI's start and the reading of the vocabulary, is shown beside it. --processor-time measures the processor's time in place
of the clock's, for a busy machine; with several ranks it means little."""

import argparse
import base64
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# As tiktoken has them.
PATTERNS = {
    "r50k_base": r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
    "cl100k_base": r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
}
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


def clock(options, of_children=False):
    """Seconds of the clock, or of the processor: of this process, or of those that it has waited for."""
    if not options.processor_time:
        return time.perf_counter()
    used = resource.getrusage(resource.RUSAGE_CHILDREN if of_children else resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def cohort(options, ranks, *words):
    """Seconds of a whole command."""
    launcher = ["mpirun", "--bind-to", "none", *(["--allow-run-as-root", "--oversubscribe"] if os.geteuid() == 0 else []), "-np", str(ranks)]
    begin = clock(options, of_children=True)
    done = subprocess.run([*(launcher if ranks > 1 else []), str(options.cohort), *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"cohort {' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")
    return clock(options, of_children=True) - begin


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


def tiktoken_encoding(path, pattern):
    import tiktoken
    with open(path, encoding="utf-8") as file:
        ranks = {base64.b64decode(word): int(rank) for word, rank in (line.split() for line in file if line.strip())}
    return tiktoken.Encoding("own", pat_str=PATTERNS[pattern], mergeable_ranks=ranks, special_tokens={})


def ids_of(token_file):
    import h5py
    import numpy
    with h5py.File(token_file) as file:
        return numpy.concatenate([file["train"][:], file["validation"][:]])


def told(seconds):
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"


def compare_learning(options, folder, figures):
    """Leaves own.json and own.tiktoken in the folder."""
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
    for title, name in (("one core ", ""), (f"{options.ranks} cores  ", "_n")):
        mine, others = figures["train_cohort" + name], figures["train_hf" + name]
        print(f"learning, {title}      Cohort {told(mine)}, tokenizers {told(others)}: {statistics.median(mine) / statistics.median(others):.2f} of its time")


def compare_encoding(options, folder, figures, own, ranks_file, pattern):
    """`own`: what Cohort reads; `ranks_file`: the same vocabulary for tiktoken."""
    import tokenizers
    piece, line = folder / "piece.txt", folder / "line.txt"
    piece.write_bytes(options.text.read_bytes()[:options.encode_mib << 20].decode("utf-8", errors="ignore").encode())
    line.write_text("A short text, of which a tenth is for validation.\n" * 2)
    text = piece.read_bytes().decode()
    cohort(options, 1, "tokenizer", "export", "--tokenizer", own, "--format", "json", "--out", folder / "same.json")
    reference, hugging_face = tiktoken_encoding(ranks_file, pattern), tokenizers.Tokenizer.from_file(str(folder / "same.json"))
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for _ in range(options.rounds):
        for name, ranks, file in (("start_cohort", 1, line), ("encode_cohort_n", options.ranks, piece), ("encode_cohort", 1, piece)):
            figures[name].append(cohort(options, ranks, "data", "prepare", "--input", file, "--tokenizer", own, "--out", folder / "own.h5", "--overwrite"))
        begin = clock(options)
        ids = reference.encode_ordinary(text)
        figures["encode_tiktoken"].append(clock(options) - begin)
        begin = clock(options)
        others = hugging_face.encode(text).ids
        figures["encode_hf"].append(clock(options) - begin)
    mine = ids_of(folder / "own.h5").tolist()
    print(f"ids of {len(ids)} tokens: tiktoken's {'equal' if mine == ids else 'DIFFER'}, tokenizers' {'equal' if others == ids else 'DIFFER'}")
    megabytes = len(text.encode()) / 1e6
    median = {name: statistics.median(values) for name, values in figures.items() if values}
    for name, title in (("encode_cohort", "Cohort, one rank"), ("encode_cohort_n", f"Cohort, {options.ranks} ranks"), ("encode_tiktoken", "tiktoken"), ("encode_hf", "tokenizers")):
        print(f"encoding, {title:16} {megabytes / median[name]:8.1f} MB/s   {told(figures[name])}")
    print(f"encoding two lines        {told(figures['start_cohort'])}; without it, Cohort on one rank has {megabytes / (median['encode_cohort'] - median['start_cohort']):.1f} MB/s")
    print(f"Cohort on one core: {median['encode_tiktoken'] / median['encode_cohort']:.2f} times tiktoken's rate, "
          f"{median['encode_tiktoken'] / (median['encode_cohort'] - median['start_cohort']):.2f} times without the start; "
          f"{options.ranks} ranks: {median['encode_cohort'] / median['encode_cohort_n']:.2f} times one rank's")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("text", type=Path, help="a UTF-8 text; 100 MB for figures that mean something")
    add("--vocabulary", type=int, default=32768, help="tokens to learn (default: 32768)")
    add("--tokenizer", type=Path, help="r50k_base.tiktoken or cl100k_base.tiktoken: encode with it, and learn nothing")
    add("--rounds", type=int, default=3)
    add("--ranks", type=int, default=2, help="of the second part (default: 2)")
    add("--encode-mib", type=int, default=20, help="how much of the text is encoded (default: 20)")
    add("--processor-time", action="store_true", help="of the processor, not of the clock")
    add("--cohort", type=Path, default=ROOT / "build/cpu/cohort")
    add("--json", type=Path)
    options = parser.parse_args()
    options.cohort = options.cohort.resolve()
    if options.tokenizer and options.tokenizer.stem not in PATTERNS:
        parser.error(f"--tokenizer {options.tokenizer}: known files are " + ", ".join(f"{name}.tiktoken" for name in PATTERNS))
    figures = {name: [] for name in ("train_cohort", "train_hf", "train_cohort_n", "train_hf_n", "start_cohort", "encode_cohort", "encode_cohort_n",
                                     "encode_tiktoken", "encode_hf")}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        if options.tokenizer:
            compare_encoding(options, folder, figures, options.tokenizer, options.tokenizer, options.tokenizer.stem)
        else:
            compare_learning(options, folder, figures)
            compare_encoding(options, folder, figures, folder / "own.json", folder / "own.tiktoken", "r50k_base")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
