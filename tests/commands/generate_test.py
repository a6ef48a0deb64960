"""Generated text as people ask for it: prompts from the command line and from files, samples, stop strings, forms of output, and a model
that is divided over ranks.

    generate_test.py COHORT -- MPIRUN FLAG ..."""

import json
import sys
import tempfile

from launched import Launched
from training import Training

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_generate_")
training = Training(job, folder.name)
tokens = training.prepare("bytes", seed=3, tokenizer="byte")
short = {"train__steps": 40, "train__validate_every": 0, "sample__tokens": 0, "data__tokens": tokens, "model__layers": 2}
job.expect("a run to work with", job.run(training.words("run", **short)), 0, lines=0)
RUN = training.path("run")


def generate(*words, ranks=0, code=0, parts=()):
    if "--top-k" not in words:
        words = (*words, "--top-k", "4")  # no byte that ends a UTF-8 text
    outcome = job.run(["generate", RUN, *words], ranks)
    job.expect(" ".join(word for word in words if not word.startswith(folder.name)) + (f", {ranks} ranks" if ranks else ""), outcome, code, parts,
               lines=1 if code else 0)
    if code:
        job.check("... nothing on stdout", outcome[1] == "", outcome[1])
    return outcome[1]


def lines_of(*words, ranks=0):
    return [json.loads(line) for line in generate(*words, "--json", ranks=ranks).splitlines()]


# 1. One text: it comes behind its prompt, the same each time for one seed, and is made of whole tokens.
once = generate("--prompt", "Once ", "--tokens", "40")
job.check("the prompt comes first", once.startswith("Once ") and once.endswith("\n"), once)
job.check("the same seed, the same text", generate("--prompt", "Once ", "--tokens", "40") == once)
job.check("another seed, another text", generate("--prompt", "Once ", "--tokens", "40", "--seed", "2") != once)
job.check("--no-prompt", generate("--prompt", "Once ", "--tokens", "40", "--no-prompt") == once[len("Once "):])
(line,) = lines_of("--prompt", "Once ", "--tokens", "40")
job.check("--json", line["prompt"] == "Once " and "Once " + line["text"] + "\n" == once and len(line["tokens"]) == 40 and line["finish"] == "length",
          json.dumps(line))
(bare,) = lines_of("--prompt", "Once ", "--tokens", "40", "--no-prompt")
job.check("--json --no-prompt", "prompt" not in bare and bare["text"] == line["text"], json.dumps(bare))
likeliest = generate("--prompt", "Once ", "--tokens", "40", "--temperature", "0")
for words in (["--top-k", "1"], ["--top-p", "1e-9"]):
    job.check(f"{words} is the likeliest", generate("--prompt", "Once ", "--tokens", "40", *words) == likeliest)

# 2. A stop string across tokens, each of which is a byte here.
middle = line["text"][10:13]
end = line["text"].index(middle)
(stopped,) = lines_of("--prompt", "Once ", "--tokens", "40", "--stop", "\x01", "--stop", middle)
job.check("--stop ends the text before it", stopped["text"] == line["text"][:end] and stopped["finish"] == "stop", json.dumps(stopped))
job.check("... and its tokens with it", stopped["tokens"] == line["tokens"][:end + 3], json.dumps(stopped))
job.check("... as it streams", generate("--prompt", "Once ", "--tokens", "40", "--stop", middle) == "Once " + line["text"][:end] + "\n")

# 3. Many prompts and samples: each text is what it is alone, in the order of the file.
PROMPTS = ["Once ", "A day in spring, long before the others came, went by so slowly that it hardly ended", "T"]
plain = training.write("prompts.txt", "\r\n".join(PROMPTS) + "\n")
listed = training.write("prompts.jsonl", "".join(json.dumps({"id": i, "question": prompt}) + "\n" for i, prompt in enumerate(PROMPTS)))
many = lines_of("--prompts", plain, "--tokens", "40", "--samples", "2", "--batch", "2")
job.check("all texts, in order", [(entry["prompt_number"], entry["sample"], entry["prompt"]) for entry in many] ==
          [(p + 1, s, prompt) for p, prompt in enumerate(PROMPTS) for s in (1, 2)], json.dumps(many))
for number, prompt in enumerate(PROMPTS):
    (alone,) = lines_of("--prompt", prompt, "--tokens", "40")
    job.check("a text is what it is alone", many[2 * number]["tokens"] == alone["tokens"], json.dumps(alone))
job.check("samples differ", many[0]["tokens"] != many[1]["tokens"])
job.check("a field of .jsonl", lines_of("--prompts", listed, "--prompt-field", "question", "--tokens", "40", "--samples", "2") == many)
sections = generate("--prompts", plain, "--tokens", "40", "--samples", "2")
job.check("as text", sections.startswith(f"== prompt 1, sample 1\nOnce {line['text']}\n== prompt 1, sample 2\nOnce "), sections)

# 4. Over ranks: the same tokens.
for layout in ("tp=2", "tp=2,sequence=true,tensor_overlap=true", "pp=2"):
    job.check(f"{layout}: the same texts", lines_of("--prompts", plain, "--tokens", "40", "--samples", "2", "--layout", layout, ranks=2) == many)
generate("--prompt", "a", ranks=2, code=2, parts=["2 ranks", "--layout tp=N"])
generate("--prompt", "a", "--set", "parallel.tp=2", code=2, parts=["--set parallel.tp=2", "--layout tp=2"])
generate("--prompt", "a", "--layout", "tp=2", code=3, parts=["tp=2", "2 ranks"])
generate("--prompt", "a", "--layout", "tp=2,tensor_overlap=true", ranks=2, code=3,
         parts=["layout 'tp=2,tensor_overlap=true'", "no effect with parallel.sequence = false"])

# 5. What cannot be done is said, with the place.
generate(code=2, parts=["--prompt or --prompts"])
generate("--prompt", "a", "--prompts", plain, code=2, parts=["--prompts", "--prompt"])
generate("--prompt", "", code=2, parts=["--prompt is empty"])
generate("--prompt", "a", "--stop", "", code=2, parts=["--stop"])
for value in ("0", "nan", "1.5", "-1"):
    generate("--prompt", "a", "--top-p", value, code=2, parts=["--top-p"])
generate("--prompts", training.path("missing.txt"), code=7, parts=["missing.txt"])
for name, content, part in (("empty.txt", "", "no prompts"), ("blank.txt", "a\n\nb\n", "blank.txt, line 2: an empty prompt"),
                            ("broken.jsonl", '{"prompt": "a"}\n{"prompt": \n', "broken.jsonl, line 2"),
                            ("list.jsonl", '["a"]\n', "list.jsonl, line 1: not a JSON object"),
                            ("other.jsonl", '{"prompt": "a"}\n{"text": "a"}\n', 'other.jsonl, line 2: no field "prompt"'),
                            ("number.jsonl", '{"prompt": 5}\n', 'number.jsonl, line 1: the field "prompt" is number')):
    generate("--prompts", training.write(name, content), code=5, parts=[part])
    job.check("... on two ranks alike", job.run(["generate", RUN, "--prompts", training.path(name), "--layout", "tp=2"], 2)[0] == 5)

# 6. A character whose bytes are tokens of their own is shown whole, or not before the end.
for seed in range(3):
    outcome = job.run(["generate", RUN, "--prompt", "é", "--tokens", "60", "--temperature", "100", "--seed", str(seed), "--json"])
    job.check("JSON of any bytes", outcome[0] == 0 and len(json.loads(outcome[1])["tokens"]) == 60, outcome[2])

folder.cleanup()
job.finish()
