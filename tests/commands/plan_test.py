"""`cohort plan --schedule`: its figures, its picture, and what it refuses."""

import json
import os
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

from launched import Launched

job = Launched(sys.argv[1:])
SVG = "{http://www.w3.org/2000/svg}"


def plan(schedule, stages, micro_batches, *more):
    return ["plan", "--schedule", schedule, "--stages", str(stages), "--micro-batches", str(micro_batches), *more]


def answer(*words):
    code, stdout, stderr, _ = job.run([*words, "--json"])
    job.check("JSON of " + " ".join(words[1:]), code == 0 and not stderr, stdout + stderr)
    return json.loads(stdout)


# Figures. 33 = (8 + 3) rounds of 1 + 2 ms.
got = answer(*plan("1f1b", 4, 8))
job.check("time of 1f1b", got["step_ms"] == 33 and len(got["actions"]) == 64, got["step_ms"])
job.check("bubble of 1f1b", abs(got["bubble"] - 3 / 11) < 1e-12 and abs(got["bubble_formula"] - 3 / 11) < 1e-12, got["bubble"])
job.check("in flight of 1f1b", [r["most_in_flight"] for r in got["ranks"]] == [4, 3, 2, 1], got["ranks"])
job.check("busy and idle of 1f1b", all(r["busy_ms"] == 24 and r["idle_ms"] == 9 for r in got["ranks"]), got["ranks"])
compared = {c["schedule"]: c for c in got["comparison"]}
job.check("the three schedules", [compared[k].get("step_ms") for k in ("gpipe", "1f1b", "interleaved")] == [33, 33, 28.5], compared)
job.check("messages", [compared[k].get("messages") for k in ("gpipe", "1f1b", "interleaved")] == [48, 48, 112], compared)

# The comparison is of one model: whatever its parts cost, a rank's work in all schedules adds up to the same.
costs = ["--stage-costs", "1,2,3,4,5,6,7,8", "--chunks", "2"]
got = answer(*plan("interleaved", 4, 4, *costs))
busy = sum(r["busy_ms"] for r in got["ranks"])
compared = {c["schedule"]: c for c in got["comparison"]}
for kind in ("gpipe", "1f1b"):
    job.check(f"work of {kind}", abs(compared[kind]["step_ms"] * 4 * (1 - compared[kind]["bubble"]) - busy) < 1e-6, compared[kind])
# Rank 0 has parts 0 and 4 when interleaved: (1 + 5) / 2 x 3 ms x 4 micro-batches.
job.check("parts of rank 0", abs(got["ranks"][0]["busy_ms"] - 36) < 1e-9, got["ranks"][0])
got = answer(*plan("1f1b", 4, 6, "--stage-costs", "1,1,1,2"))
job.check("the slow stage", [r["busy_ms"] for r in got["ranks"]] == [18, 18, 18, 36], got["ranks"])
job.check("why there is no interleaved", "4 or 8" in got["comparison"][2]["refused"], got["comparison"])

# Text.
for ranks in (0, 2):
    code, stdout, stderr, _ = job.run(plan("1f1b", 4, 10, "--width", "60"), ranks)
    rows = [line for line in stdout.splitlines() if line.startswith("rank ") and "0" in line]
    job.check(f"timeline, {ranks} ranks", code == 0 and not stderr and len(rows) == 4 and max(map(len, rows)) <= 60, stdout + stderr)
    job.check(f"formula, {ranks} ranks", "(S-1)/(M+S-1) = 3/13 = 23.1 %" in stdout and "use 8 or 12" in stdout, stdout)
code, stdout, stderr, _ = job.run(plan("1f1b", 100, 8))
job.check("many ranks", "rank 63 " in stdout and "rank 64 " not in stdout and "... and 36 more ranks" in stdout, stdout)
code, stdout, stderr, _ = job.run(["plan", "--help"])
job.check("help", code == 0 and "interleaved" in stdout and "cohort plan --schedule gpipe" in stdout, stdout)

# The picture, read by an XML parser.
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "pipeline.svg")
    code, stdout, stderr, _ = job.run(plan("interleaved", 4, 8, "--chunks", "2", "--svg", path))
    root = ElementTree.parse(path).getroot()
    titles = [title.text for title in root.iter(SVG + "title")]
    job.check("SVG", code == 0 and f"Drawn in {path}" in stdout and root.tag == SVG + "svg" and len(titles) == 2 * 4 * 2 * 8, stdout)
    job.check("SVG times", "rank 0, forward of micro-batch 0, chunk 1: 2 to 2.5 ms" in titles, titles)
    width, height = float(root.get("width")), float(root.get("height"))
    boxes = [{k: float(r.get(k)) for k in ("x", "y", "width", "height")} for r in root.iter(SVG + "rect") if r.get("x")]
    inside = all(b["x"] + b["width"] <= width and b["y"] + b["height"] <= height for b in boxes)
    job.check("SVG boxes lie in the picture", inside and len(boxes) > len(titles), boxes)
    colours = {r.get("fill") for r in root.iter(SVG + "rect")}
    job.check("SVG colours: two passes x two chunks, idle, ground", len(colours) == 6, colours)
    missing = os.path.join(folder, "missing", "pipeline.svg")
    job.expect("SVG in no folder", job.run(plan("1f1b", 2, 2, "--svg", missing)), 7, [missing], lines=1)

# What it refuses.
for ranks in (0, 2):
    job.expect(f"no stages, {ranks} ranks", job.run(plan("1f1b", 0, 8), ranks), 3, ["0 stages", "at least 1"], lines=1)
job.expect("negative stages", job.run(plan("1f1b", -2, 8)), 3, ["-2 stages"], lines=1)
job.expect("no micro-batches", job.run(plan("1f1b", 4, 0)), 3, ["0 micro-batches"], lines=1)
job.expect("unknown schedule", job.run(plan("1f1", 4, 8)), 3, ["'1f1'", "gpipe, 1f1b, interleaved"], lines=1)
job.expect("chunks with 1f1b", job.run(plan("1f1b", 4, 8, "--chunks", "2")), 3, ["1f1b with 2 chunks"], lines=1)
job.expect("interleaved without chunks", job.run(plan("interleaved", 4, 8)), 3, ["2 or more"], lines=1)
job.expect("interleaved, 9", job.run(plan("interleaved", 4, 9, "--chunks", "2")), 3, ["use 8 or 12"], lines=1)
job.expect("costs of 3 stages", job.run(plan("1f1b", 4, 8, "--stage-costs", "1,1,2")), 3, ["has 3 numbers", "give 4"], lines=1)
job.expect("costs of chunks", job.run(plan("1f1b", 2, 8, "--stage-costs", "1,1,2,2")), 3, ["has 4 numbers", "give 2"], lines=1)
for option, value in (("--forward-ms", "0"), ("--backward-ms", "-1"), ("--transfer-ms", "-1"), ("--forward-ms", "nan"), ("--transfer-ms", "inf")):
    job.expect(f"{option} {value}", job.run(plan("1f1b", 4, 8, option, value)), 3, [option], lines=1)
job.expect("a cost of 0", job.run(plan("1f1b", 2, 8, "--stage-costs", "1,0")), 3, ["--stage-costs 0"], lines=1)
job.expect("too narrow", job.run(plan("1f1b", 4, 8, "--width", "20")), 3, ["--width 20", "40"], lines=1)
job.expect("too many micro-batches", job.run(plan("1f1b", 4, 2_000_000_000)), 3, ["2000000000 micro-batches", "try at most 524288"], lines=1)
job.expect("too many stages", job.run(plan("gpipe", 2_000_000_000, 2_000_000_000)), 3, ["fewer stages"], lines=1)
job.expect("a picture too large", job.run(plan("1f1b", 100, 2000, "--svg", "x.svg")), 3, ["an SVG", "at most 1000 micro-batches"], lines=1)
job.expect("options missing", job.run(["plan", "--schedule", "1f1b"]), 2, ["--stages and --micro-batches missing"], lines=1)
job.expect("nothing asked", job.run(["plan"]), 2, ["--schedule"], lines=1)
job.expect("not a number", job.run(plan("1f1b", "four", 8)), 2, ["--stages", "four"], lines=1)
job.finish()
