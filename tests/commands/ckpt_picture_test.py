"""`cohort ckpt show --svg`: the picture is XML, has a panel for each tensor, and draws inside of its frame. PROGRAM CHECKPOINT"""

import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"
program, checkpoint = sys.argv[1:]

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "picture.svg")

    def show(*words):
        return subprocess.run([program, "ckpt", "show", checkpoint, *words], check=True, capture_output=True, text=True).stdout

    tensors = json.loads(show("--json"))["tensors"]
    drawn = [tensor["name"] for tensor in tensors if 0 not in tensor["shape"]]
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
    panels = root.findall(SVG + "g")
    assert [panel.find(SVG + "title").text.split(":")[0] for panel in panels] == drawn, "a panel for each tensor, in order"
    for panel in panels:
        left, top = map(float, re.fullmatch(r"translate\((.*),(.*)\)", panel.get("transform")).groups())
        bars = panel.find(SVG + "path").get("d")
        heights = [float(y) for y in re.findall(r"V([\d.]+)", bars)]
        widths = [float(w) for w in re.findall(r"h([\d.]+)", bars)]
        assert len(widths) == 48, bars
        assert min(heights) >= 0 and abs(min(heights) - 36) < 1e-9, "the tallest bar fills the panel"
        assert 0 <= left and left + sum(widths) <= width and 0 <= top and top + max(heights) + 13 <= height, bars

    only = json.loads(show("--tensor", "bias", "--json"))["tensors"]
    assert only and all(tensor["name"].endswith("/bias") for tensor in only), only
