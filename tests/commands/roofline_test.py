"""`cohort bench roofline`: its table, its figures and its picture. roofline_test.py PROGRAM -- MPIRUN FLAG ..."""

import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

program, mpirun = sys.argv[1], sys.argv[3:]
failures = 0


def check(what, condition, detail=""):
    global failures
    print(("ok      " if condition else "FAILED  ") + what, flush=True)
    if not condition:
        failures += 1
        print(detail)


def run(*words, ranks=0):
    command = [*mpirun, "-np", str(ranks)] if ranks else []
    return subprocess.run([*command, program, "bench", "roofline", *map(str, words)], capture_output=True, text=True)


with tempfile.TemporaryDirectory(prefix="cohort_roofline_") as folder:
    picture = pathlib.Path(folder) / "roofline.svg"
    done = run("--json", "--svg", picture)
    figures = json.loads(done.stdout) if done.returncode == 0 else {"ops": []}
    ops = {one["op"]: one for one in figures["ops"]}
    check("figures of nine ops", len(ops) == 9, done)
    if len(ops) == 9:
        check("the ridge follows from the two peaks", abs(figures["ridge"] * figures["peak_bytes_per_second"] - figures["peak_flops_per_second"])
              <= 1e-9 * figures["peak_flops_per_second"], figures)
        # x, y [2048, 256] and the weight [256, 256]: 2 m n k operations; AdamW moves 28 bytes an element.
        product = 2 * 2048 * 256 * 256 / (4 * (2 * 2048 * 256 + 256 * 256))
        check("a product's intensity", abs(ops["product, forward"]["operations_per_byte"] - product) <= 1e-9 * product, ops)
        check("AdamW's", abs(ops["AdamW"]["operations_per_byte"] - 15 / 28) <= 1e-3, ops)
        for one in ops.values():
            roof = min(figures["peak_flops_per_second"], figures["peak_bytes_per_second"] * one["operations_per_byte"])
            check(f"{one['op']}: its share is that of the roof", abs(one["share_of_roof"] * roof - one["flops_per_second"]) <= 1e-9 * roof and one["share_of_roof"] > 0, one)
        drawn = xml.etree.ElementTree.parse(picture).getroot()
        dots = [group for group in drawn.iter("{http://www.w3.org/2000/svg}g") if group.get("class") == "op"]
        check("a dot for each", len(dots) == 9 and picture.stat().st_size < 60000, picture.read_text())
    done = run("--svg", picture)
    check("a picture is not written over", done.returncode == 2 and "--overwrite" in done.stderr, done)
    done = run(ranks=2)
    check("one rank alone", done.returncode == 2 and "without mpirun" in done.stderr, done)

sys.exit(1 if failures else 0)
