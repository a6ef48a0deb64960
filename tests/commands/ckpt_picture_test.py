"""`cohort ckpt show --svg`: the picture is XML, has a row for each kind of tensor and a panel for each group, draws inside of its frame, and
shows the change over a run's checkpoints. PROGRAM CHECKPOINT"""

import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"
program, checkpoint = sys.argv[1:]


def kind_of(name):
    group, kind = re.fullmatch(r"/(model|optim/\w+)/(.*)", name).groups()
    return "weights" if group == "model" else group[len("optim/"):], re.sub(r"(?<=/)\d+(?=/)", "*", kind)


def panels_of(row):
    """Of each panel: its title, where it begins, and its paths, but for the axis."""
    for panel in row.findall(SVG + "g"):
        left = float(re.fullmatch(r"translate\((.*),0\)", panel.get("transform")).group(1))
        yield panel.find(SVG + "title").text, left, [path.get("d") for path in panel.findall(SVG + "path") if path.get("fill")]


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "picture.svg")

    def cohort(*words):
        return subprocess.run([program, *words], check=True, capture_output=True, text=True, cwd=folder).stdout

    def show(*words):
        return cohort("ckpt", "show", checkpoint, *words)

    tensors = json.loads(show("--json"))["tensors"]
    kinds = [kind_of(tensor["name"]) for tensor in tensors if 0 not in tensor["shape"]]
    assert f"Drawn in {path}" in show("--svg", path)
    with open(path, "rb") as file:
        first = file.read()
    again = subprocess.run([program, "ckpt", "show", checkpoint, "--svg", path], check=False, capture_output=True, text=True)
    assert again.returncode == 2 and path in again.stderr and "--overwrite" in again.stderr, again.stderr
    show("--svg", path, "--overwrite")
    with open(path, "rb") as file:
        assert file.read() == first, "the same checkpoint gives the same picture"

    root = ElementTree.fromstring(first)
    assert root.tag == SVG + "svg"
    width, height = float(root.get("width")), float(root.get("height"))
    rows = root.findall(SVG + "g")
    assert [row.find(SVG + "text").text for row in rows] == list(dict.fromkeys(kind for _, kind in kinds)), "a row for each kind, in order"
    drawn = []
    for row in rows:
        left, top = map(float, re.fullmatch(r"translate\((.*),(.*)\)", row.get("transform")).groups())
        for title, right, paths in panels_of(row):
            group, kind = title.split(" of ")
            drawn += [(group, kind)] * len(paths)
            tops = [min(float(y) for y in re.findall(r"V([\d.]+)", bars)) for bars in paths]
            assert abs(min(tops) - 20) < 1e-9, "the tallest bar of all blocks fills the panel"
            for bars in paths:
                widths = [float(w) for w in re.findall(r"h([\d.]+)", bars)]
                assert len(widths) == 48, bars
                assert left + right + sum(widths) <= width and top + 96 + 25 <= height, bars
    assert sorted(drawn) == sorted(kinds), "a line for each tensor"

    only = json.loads(show("--tensor", "bias", "--json"))["tensors"]
    assert only and all(tensor["name"].endswith("/bias") for tensor in only), only

    # A run: its newest checkpoint, and how the weights came there. The root mean squares are those that each checkpoint tells.
    with open(os.path.join(folder, "run.toml"), "w", encoding="utf-8") as file:
        file.write('[model]\nkind = "mlp"\nlayers = 3\nwidth = 8\ninputs = 4\n[data]\nkind = "two_moons"\nsamples = 64\n[train]\nsteps = 6\n'
                   '[checkpoint]\nevery = 2\n')
    cohort("train", "run.toml", "--set", "schedule.warmup_steps=1")
    cohort("ckpt", "show", "runs/run", "--svg", "run.svg")
    rows = ElementTree.parse(os.path.join(folder, "run.svg")).getroot().findall(SVG + "g")
    drawn = 0
    for row in rows:
        for title, _, paths in panels_of(row):
            if not title.startswith("change of "):
                continue
            names = [t for t in json.loads(cohort("ckpt", "show", "runs/run", "--json"))["tensors"] if kind_of(t["name"]) == ("weights", title[10:])]
            assert len(paths) == len(names), title
            values = {}  # by tensor: at steps 2, 4 and 6
            for step in ("2", "4", "6"):
                for tensor in json.loads(cohort("ckpt", "show", "runs/run", "--step", step, "--json"))["tensors"]:
                    count = 1
                    for extent in tensor["shape"]:
                        count *= extent
                    values.setdefault(tensor["name"], []).append(tensor["norm"] / count ** 0.5)
            largest = max(max(values[tensor["name"]]) for tensor in names)
            for tensor, line in zip(names, paths):
                points = [tuple(map(float, point)) for point in re.findall(r"[ML]([\d.]+),([\d.]+)", line)]
                assert [x for x, _ in points] == [0, 113, 226], line
                for (_, y), value in zip(points, values[tensor["name"]]):
                    expected = 96 - (62 * value / largest if largest > 0 else 0)
                    assert abs(y - expected) <= 0.051, (tensor["name"], y, expected)  # written with one digit
            drawn += len(paths)
    assert drawn > 3, drawn
    cohort("ckpt", "show", "runs/run/checkpoints/step_00000006", "--svg", "one.svg")
    with open(os.path.join(folder, "one.svg"), encoding="utf-8") as file:
        assert "by checkpoint" not in file.read(), "a checkpoint that is named alone has no change"
