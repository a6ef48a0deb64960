"""Lab 11 in real runs: a learner's sampler draws the texts of `cohort train` and `cohort generate`. lab11_own_text_test.py PROGRAM ROOT -- MPIRUN FLAG ..."""

import json
import shutil

from learner import check, expect, finish, root, run, scratch

lab = root / "src/labs/11_own_text"


RUN = root / "inputs/lab11_own_text.toml"
SHORT = ["--set", "train.steps=12", "--set", "schedule.warmup_steps=2", "--set", "train.validate_every=6", "--set", "checkpoint.every=6", "--set", "sample.tokens=20"]
(scratch / "data").mkdir()
expect("a text", run("data", "synth", "stories", "--out", "data/mine.txt", "--bytes", "60KiB"), 0)
expect("its tokens", run("data", "prepare", "--input", "data/mine.txt", "--out", "data/mine.h5", "--tokenizer", "bpe", "--vocabulary", "300"), 0)
expect("start", run("lab", "start", "11"), 0, "labs/11_own_text/exercise.cpp")
exercise = scratch / "labs/11_own_text/exercise.cpp"

expect("not written, at the end of a training", run("train", RUN, *SHORT, "--set", "run.name=empty", "--with", "labs/11_own_text", ranks=2), 2, "sample_top_p is not written yet")
expect("trained with the program's", run("train", RUN, *SHORT, "--set", "run.name=theirs", ranks=2), 0)
PROMPT = ["--prompt", "One day", "--tokens", "40", "--samples", "3", "--json"]
expect("not written, in generate", run("generate", "runs/theirs", *PROMPT, "--with", "labs/11_own_text"), 2, "sample_top_p is not written yet")
shutil.copy(lab / "solution.cpp", exercise)
expect("trained with the learner's", run("train", RUN, *SHORT, "--set", "run.name=mine", "--with", "labs/11_own_text", ranks=2), 0, "sample_top_p of labs/11_own_text/exercise.cpp")
texts = [sorted(path.read_text() for path in (scratch / "runs" / name).rglob("*sample*") if path.is_file()) for name in ("theirs", "mine")]
check("... whose text is the same, for the same seed", texts[0] and texts[0] == texts[1], texts)
for words in (["--temperature", "0.7"], ["--top-p", "0.8"], ["--top-k", "5", "--top-p", "0.9"], ["--temperature", "0"]):
    theirs = expect(f"generated {' '.join(words)}", run("generate", "runs/theirs", *PROMPT, *words), 0)[1]
    mine = expect("... with the learner's", run("generate", "runs/theirs", *PROMPT, *words, "--with", "labs/11_own_text"), 0)[1]
    check("... the same texts", [json.loads(line) for line in theirs.splitlines()] == [json.loads(line) for line in mine.splitlines() if line.startswith("{")], (theirs, mine))
shutil.copy(lab / "wrong/sample_leaves_last_out.cpp", exercise)
theirs = run("generate", "runs/theirs", *PROMPT, "--top-p", "0.8")[1]
wrong = run("generate", "runs/theirs", *PROMPT, "--top-p", "0.8", "--with", "labs/11_own_text")
check("a wrong one draws others", wrong[0] == 0 and theirs not in wrong[1], wrong)
expect("a function that no run uses", run("generate", "runs/theirs", *PROMPT, "--with", "labs/11_own_text:bpe_encode"), 2, "a run can use sample_top_p")

finish()
