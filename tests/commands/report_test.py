"""`cohort report`, `compare` and `watch` on runs of this program; the page in a browser, where there is one."""

import html
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from launched import Launched
from training import Training

job = Launched(sys.argv[1:])
folder = tempfile.TemporaryDirectory(prefix="cohort_report_")
training = Training(job, folder.name)
KEYS = {"train__steps": 24, "train__validate_every": 8, "log__every": 4, "schedule__warmup_steps": 0}
for name, more in (("one", {}), ("again", {}), ("other", {"optimizer__learning_rate": 1e-4})):
    job.expect(name, job.run(training.words(name, "--trace", "steps=5-7", **KEYS, **more), 2), 0, lines=0)
one, again, other = (training.path(name) for name in ("one", "again", "other"))

# 1. What a run records for it.
with open(one + "/ranks.jsonl", encoding="utf-8") as file:
    ranks = [json.loads(line) for line in file]
job.check("ranks.jsonl has all ranks at reported steps", [line["step"] for line in ranks] == [4, 8, 12, 16, 20, 24] and
          all(len(line["own_work"]) == len(line["times"]) == len(line["memory"]) == 2 for line in ranks), ranks)
with open(one + "/metrics.jsonl", encoding="utf-8") as file:
    metrics = [json.loads(line) for line in file]
job.check("metrics have the time, and memory at reported steps", all(line["time"] > 1.7e9 for line in metrics) and
          [line["step"] for line in metrics if "memory" in line] == [1, 4, 8, 12, 16, 20, 24], metrics[-1])

# 2. The page.
page = training.path("page.html")
job.expect("report", job.run(["report", one, other, "--out", page]), 0, lines=0)
job.expect("... replaces nothing unasked", job.run(["report", one, "--out", page]), 2, ["--overwrite"])
text = open(page, encoding="utf-8").read()


class Outside(html.parser.HTMLParser):
    """Everything that a page would have to fetch."""
    found = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href", "srcset", "data") and value]


outside = Outside()
outside.feed(text)
job.check("the page needs nothing else", not outside.found and "http" not in re.sub(r"http://www\.w3\.org/2000/svg|<script type.*?</script>", "", text, flags=re.S), outside.found)
data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S).group(1))
first = data["runs"][0]
job.check("... and holds the losses", first["curves"]["loss"]["y"] == [float(f"{line['loss']:.6g}") for line in metrics], first["curves"]["loss"])
job.check("... the plan", [row[0] for row in first["memory_plan"]] == ["parameters", "gradients", "optimizer", "activations", "buffers", "all"], first["memory_plan"])
job.check("... traffic, ranks, checkpoints and the sample", first["traffic"] and first["ranks"]["rows"] == 2 and first["checkpoints"] and first["samples"], first["traffic"])
with open(one + "/layers.jsonl", encoding="utf-8") as file:
    layers = [json.loads(line) for line in file]
job.check("... the norms of layers", first["gradients"]["units"] == ["embedding", "blocks.0", "head"] and first["gradients"]["steps"] == [1, 24] and
          first["gradients"]["cells"] == [[float(f"{layer['gradients']['norm']:.4g}") for layer in record["layers"].values()] for record in layers], first["gradients"])

job.check("... and the timeline of a step of both ranks", first["trace"]["timeline"]["step"] == 6 and len(first["trace"]["timeline"]["rows"]) == 2, first.get("trace"))

# A run that is being written, and one that is not there.
torn = training.path("torn")
shutil.copytree(one, torn)
with open(torn + "/metrics.jsonl", "a", encoding="utf-8") as file:
    file.write('{"step":25,"lo')
job.expect("report of a run that is being written", job.run(["report", torn, "--out", training.path("torn.html")]), 0, lines=0)
job.check("... says so", "is cut off" in open(training.path("torn.html"), encoding="utf-8").read())
job.expect("report of no run", job.run(["report", folder.name, "--out", training.path("none.html")]), 7, ["not a run folder"])
job.check("... writes nothing", not os.path.exists(training.path("none.html")))

# 3. In a browser: no error of the script, and all pictures drawn, on three widths and by the script alone.
browser = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
if browser is None:
    print("skipped the browser: no chromium is installed")
else:
    # --dump-dom prints the page as its script has made it.
    def dumped(address, width):
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder.name}/browser", f"--window-size={width},1000",
                   "--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000", "--dump-dom", "file://" + address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        errors = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        job.check(f"{width} pixels: the script has no error", done.returncode == 0 and not errors, done.stderr[-2000:])
        return done.stdout

    for width in (390, 768, 1280):
        made = dumped(page, width)
        job.check(f"{width} pixels: all pictures are there", made.count("<svg") >= 10 and made.count("<path") >= 10 and made.count("<canvas") == 4, made.count("<svg"))
        job.check(f"{width} pixels: with names for those who do not see them", made.count('role="img"') == made.count("<svg") + 4, "")
        widest = max(float(value) for value in re.findall(r'viewBox="0 0 ([\d.]+)', made))
        job.check(f"{width} pixels: nothing is wider than the window", widest <= max(width, 500), widest)  # a window has 500 pixels at least

    # By keyboard alone: each picture's keys, what its live line then says, and where its cursor is.
    PRESS = """<script>
    function press(picture, cursor, ...keys) {
      picture.focus();
      for (const key of keys) picture.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
      const whole = picture.getBoundingClientRect(), at = cursor.getBoundingClientRect();
      return {text: picture.closest("figure, div:not(.heat)").querySelector("[aria-live]").textContent, focus: getComputedStyle(picture).outlineStyle,
              left: (at.left - whole.left) / whole.width, top: (at.top - whole.top) / whole.height};
    }
    const heat = (place, ...keys) => press(document.querySelector(`#${place} canvas`), document.querySelector(`#${place} .cell`), ...keys);
    const timeline = (...keys) => press(document.querySelector("#trace svg"), document.querySelector("#trace .frame"), ...keys);
    document.body.append(Object.assign(document.createElement("pre"), {id: "said", textContent: JSON.stringify({
      first: heat("ranks"), last: heat("ranks", "End"), below: heat("ranks", "ArrowDown"), edge: heat("ranks", "ArrowDown", "ArrowRight"), back: heat("ranks", "ArrowUp", "ArrowLeft"),
      layer: heat("gradients", "Home", "ArrowDown"), all: timeline("Home", "ArrowRight"), rank: timeline("ArrowDown", "ArrowDown"), piece: timeline("ArrowRight"), before: timeline("ArrowLeft")})}));
    </script></body>"""
    pressed = training.path("pressed.html")
    with open(pressed, "w", encoding="utf-8") as file:
        file.write(text.replace("</body>", PRESS))
    said = json.loads(html.unescape(re.search(r'<pre id="said">(.*?)</pre>', dumped(pressed, 1280)).group(1)))

    def reads(name, start, value, left, top):
        got = said[name]
        number = re.match(re.escape(start) + r"([\d.e+-]+)", got["text"])
        job.check(f"keys of a heat map, {name}", number and abs(float(number.group(1)) / value - 1) < 1e-3, (got, value))  # it shows four digits
        job.check(f"... its cursor, {name}", abs(got["left"] - left) < 0.01 and abs(got["top"] - top) < 0.05 and got["focus"] == "solid", got)

    cells = first["ranks"]["cells"]
    reads("first", "step 4, rank 0: ", cells[0][0], 0, 0)
    reads("last", "step 24, rank 0: ", cells[5][0], 5 / 6, 0)
    reads("below", "step 24, rank 1: ", cells[5][1], 5 / 6, 0.5)
    reads("edge", "step 24, rank 1: ", cells[5][1], 5 / 6, 0.5)
    reads("back", "step 20, rank 0: ", cells[4][0], 4 / 6, 0)
    reads("layer", "step 1, blocks.0: ", first["gradients"]["cells"][0][1], 0, 1 / 3)
    job.check("keys of a timeline: all ranks at one moment", re.search(r": rank 0 .*, rank 1 ", said["all"]["text"]), said["all"])
    job.check("... one of them, and its pieces", said["rank"]["text"] != said["piece"]["text"] and all(": rank 1, " in said[key]["text"] and " for " in said[key]["text"]
              for key in ("piece", "before")) and said["piece"]["top"] > 0.2, said)

    # A pipeline, of which no rank is chosen: where the pointer or the arrow keys are, what each stage does, with its micro-batch.
    job.expect("a pipeline", job.run(training.words("staged", "--trace", "steps=5-7", **KEYS, model__layers=2, model__width=128, parallel__pp=2), 2), 0, lines=0)
    job.expect("... its report", job.run(["report", training.path("staged"), "--out", training.path("staged.html")]), 0, lines=0)
    staged = open(training.path("staged.html"), encoding="utf-8").read()
    drawn = json.loads(re.search(r'id="data">(.*?)</script>', staged, re.S).group(1))["runs"][0]["trace"]["timeline"]
    numbered = [piece for row in drawn["rows"] for piece in row["pieces"] if piece[3] >= 0]  # what is too short to be drawn is in none
    job.check("... numbers the four micro-batches of both stages", {piece[3] for piece in numbered} <= {0, 1, 2, 3} and len(drawn["rows"]) == 2 and numbered, drawn)
    # In the middle of each piece of a micro-batch, and at even distances.
    moments = [(begin + end) / 2e5 for begin, end, _, _ in numbered] + [0.005] + [i / 10 for i in range(1, 10)]
    POINT = """<script>{
    const picture = document.querySelector("#trace svg"), frame = picture.querySelector(".frame"), cursor = picture.querySelector(".cursor");
    const [, , width] = picture.getAttribute("viewBox").split(" ").map(Number), begin = Number(frame.getAttribute("x")), wide = Number(frame.getAttribute("width"));
    const state = () => {
      const output = picture.closest("figure").querySelector("[aria-live]"), whole = picture.getBoundingClientRect();
      return {text: output.textContent, place: (Number(cursor.getAttribute("x1")) - begin) / wide, framed: frame.getBoundingClientRect().bottom > whole.top};
    };
    const key = (...keys) => {
      for (const key of keys) picture.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
      return state();
    };
    const point = share => {
      const whole = picture.getBoundingClientRect();
      picture.dispatchEvent(new PointerEvent("pointermove", {clientX: whole.left + whole.width * (begin + share * wide) / width, clientY: whole.top + 30}));
      return state();
    };
    const moments = MOMENTS;
    document.body.append(Object.assign(document.createElement("pre"), {id: "said", textContent: JSON.stringify({
      untouched: state(), pointed: moments.map(point), end: key("End"), home: key("Home"), stepped: key("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"),
      chosen: key("ArrowDown"), none: key("ArrowUp", "ArrowUp"), repointed: (key("ArrowDown", "ArrowDown"), point(0.5))})}));
    }</script></body>"""
    with open(pressed, "w", encoding="utf-8") as file:
        file.write(staged.replace("</body>", POINT.replace("MOMENTS", json.dumps(moments))))
    said = json.loads(html.unescape(re.search(r'<pre id="said">(.*?)</pre>', dumped(pressed, 1280)).group(1)))

    def doing(row, moment):
        """What the page says of a row at a moment, in units of the picture."""
        for begin, end, kind, micro_batch in row["pieces"]:
            if begin <= moment < end:
                return f"rank {row['rank']} {drawn['kinds'][kind]}" + (f" {micro_batch}" if micro_batch >= 0 else "")
        return f"rank {row['rank']} between phases"

    def of_all(what, got, share):
        # A pixel is some 90 of the picture's 100,000 units: at an edge either piece is right.
        texts = {", ".join(doing(row, 100000 * share + off) for row in drawn["rows"]) for off in (-100, 0, 100)}
        job.check(f"no rank chosen, {what}", abs(got["place"] - share) < 2e-3 and got["text"].partition(": ")[2] in texts and not got["framed"], (got, texts))

    job.check("no rank chosen, and nothing pointed at", said["untouched"]["text"] == "" and said["untouched"]["place"] < 0 and not said["untouched"]["framed"], said["untouched"])
    for share, got in zip(moments, said["pointed"]):
        of_all(f"pointer at {share:.3f}", got, share)
    for name, share in (("home", 0), ("stepped", 0.02), ("none", 0.02), ("repointed", 0.5)):
        of_all(name, said[name], share)
    job.check("... at the end", abs(said["end"]["place"] - 1) < 2e-3 and not said["end"]["framed"], said["end"])
    job.check("one rank chosen is framed", said["chosen"]["framed"] and ": rank 0, " in said["chosen"]["text"], said["chosen"])

# 4. Compare.
same = job.run(["compare", one, again])
job.expect("compare", same, 0, lines=0)
job.check("... two runs of one seed are the same", "have the same losses, bit for bit, in all 24 steps" in same[1] and "All settings are the same" in same[1], same[1])
apart = job.run(["compare", one, other])
job.check("... and of two rates are not", "first differ in step 2" in apart[1] and "optimizer.learning_rate: " in apart[1], apart[1])
job.expect("compare one run", job.run(["compare", one]), 2, ["two runs or more"])

# 5. Watch.
watched = job.run(["watch", one, "--once"])
job.expect("watch", watched, 0, lines=0)
job.check("... shows the run", "24 of 24 (100 %)" in watched[1] and "completed" in watched[1] and "slowest rank" in watched[1], watched[1])
job.expect("watch of no run", job.run(["watch", folder.name]), 7, ["not a run folder"])
job.finish()
