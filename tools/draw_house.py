#!/usr/bin/env python3
"""Draws docs/house.svg: the modules of src, and who includes whom. Usage: tools/draw_house.py [--check] [ROOT]

A module stands above all that it includes; it may include whatever stands below (tests/structure/check_tree.py holds that). Of the
includes only those are drawn that do not follow from others: train reaches base by way of many. Modules and their order are read
from src/CMakeLists.txt, the includes from the sources; the words in the boxes are below. --check writes nothing, and fails if the
picture is not the one that would be drawn."""

import argparse
import re
import sys
from pathlib import Path

PICTURE = "docs/house.svg"

# What a module is, in a few words, and the group that it belongs to.
MODULES = {
    "base": ("errors, dtypes, boxes, text", "ground"),
    "hdf5": ("RAII over HDF5", "files"),
    "config": ("the run file, typed", "ground"),
    "observe": ("logs, timers, recorder", "watching"),
    "watch": ("monitor, doctor", "watching"),
    "logs": ("logs of all ranks", "watching"),
    "gpu": ("devices, streams, NVML", "machine"),
    "runtime": ("launcher, MPI, signals", "machine"),
    "comm": ("Communicator: MPI, NCCL", "machine"),
    "telemetry": ("GPU figures of a job", "watching"),
    "mesh": ("dp, pp, cp, tp", "machine"),
    "tensor": ("tensors, parameters", "numbers"),
    "ops": ("kernels", "numbers"),
    "nn": ("layers, hooks", "numbers"),
    "models": ("families of models", "numbers"),
    "optim": ("optimizers, clipping", "numbers"),
    "parallel": ("strategies", "training"),
    "data": ("tokenizers, sampler", "files"),
    "checkpoint": ("write, read, reshard", "files"),
    "rundir": ("the run folder", "files"),
    "interchange": ("Hugging Face", "files"),
    "train": ("step, loop, proof", "training"),
    "plan": ("memory and traffic", "training"),
    "report": ("pages, comparisons", "watching"),
    "jobs": ("sbatch scripts", "people"),
    "preflight": ("fit nodes?", "people"),
    "commands": ("the command line", "people"),
    "labs": ("the course: exercises and graders", "people"),
}
GROUPS = {  # colours that show on light and on dark
    "people": "#cf5a5a",
    "training": "#9267c9",
    "numbers": "#4a7fd4",
    "files": "#c9772a",
    "machine": "#3a9a5b",
    "watching": "#2a9aa0",
    "ground": "#808a94",
}

BOX_WIDTH, BOX_HEIGHT = 168, 44
PASSAGE_WIDTH = 16  # of an arrow that passes a storey
GAP, STOREY = 18, 92  # between neighbours; from one storey to the next
MARGIN, LEGEND = 20, 40
STYLE = """
  .page { fill: #ffffff } .box { fill: #f6f8fa } text { font: 12px sans-serif; fill: #59636e }
  .name { font-weight: bold; font-size: 14px; fill: #1f2328 } .arrow { stroke: #848d97; fill: none } #head { fill: #848d97 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .box { fill: #161b22 } text { fill: #9198a1 } .name { fill: #f0f6fc }
  }
"""


def read_order(root):
    text = (root / "src/CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"foreach\(module ([^)]*)\)", text)[1].split()


def read_includes(root, order):
    """Module -> the modules that its sources include."""
    graph = {module: set() for module in order}
    for module in order:
        for path in (root / "src" / module).rglob("*"):
            if path.suffix in (".cpp", ".hpp", ".cu", ".cuh"):
                graph[module] |= set(re.findall(r'^#include "([^"/]+)/', path.read_text(encoding="utf-8"), re.M))
        graph[module] = graph[module] & set(order) - {module}
    return graph


def without_detours(graph):
    """The includes that do not follow from others."""
    reached = {}
    for module, direct in graph.items():  # lowest first
        reached[module] = direct.union(*(reached[other] for other in direct))
    return {module: {other for other in direct if not any(other in reached[via] for via in direct)} for module, direct in graph.items()}


def storeys_of(graph):
    """Module -> its storey: one above the highest that it includes."""
    storeys = {}
    for module, direct in graph.items():
        storeys[module] = 1 + max((storeys[other] for other in direct), default=-1)
    return storeys


class Drawing:
    """Boxes of modules and passages of arrows, in storeys. A node is a module's name, or (from, to, storey) for a passage."""

    def __init__(self, graph):
        self.storey = storeys_of(graph)
        self.rows = [[] for _ in range(1 + max(self.storey.values()))]
        for module in graph:
            self.rows[self.storey[module]].append(module)
        self.ways = []  # of each arrow: the nodes from above to below
        for module in graph:
            for other in sorted(graph[module]):
                passages = [(module, other, at) for at in range(self.storey[module] - 1, self.storey[other], -1)]
                for passage in passages:
                    self.rows[passage[2]].append(passage)
                self.ways.append([module, *passages, other])
        self.neighbours = {}
        for way in self.ways:
            for above, below in zip(way, way[1:]):
                self.neighbours.setdefault(above, []).append((below, "below"))
                self.neighbours.setdefault(below, []).append((above, "above"))
        self.x = {}  # of the middle
        for row in self.rows:
            self.spread(row, [0.0] * len(row))
        for turn in range(40):
            self.sort_rows("below" if turn % 2 == 0 else "above")
        for turn in range(60):
            self.sort_rows(None, keep_order=True)

    @staticmethod
    def width(node):
        return BOX_WIDTH if isinstance(node, str) else PASSAGE_WIDTH

    def wish(self, node, side):
        """Where a node would like to be: in the middle of its neighbours of the side, or of all."""
        xs = [self.x[other] for other, where in self.neighbours.get(node, ()) if side in (None, where)]
        return sum(xs) / len(xs) if xs else self.x[node]

    def sort_rows(self, side, keep_order=False):
        for row in self.rows if side != "above" else reversed(self.rows):
            wishes = {node: self.wish(node, side) for node in row}
            if not keep_order:
                row.sort(key=lambda node: (wishes[node], str(node)))
            self.spread(row, [wishes[node] for node in row])

    def spread(self, row, wishes):
        """Puts a row as near to its wishes as its widths allow: neighbours that would overlap share the middle of their wishes."""
        blocks = []  # [nodes, sum of (wish - offset), width]
        for node, wish in zip(row, wishes):
            width = self.width(node) + GAP
            blocks.append([[node], wish - width / 2, width])
            while len(blocks) > 1 and self.begin(blocks[-2]) + blocks[-2][2] > self.begin(blocks[-1]):
                nodes, begins, width = blocks.pop()
                blocks[-1][1] += begins - len(nodes) * blocks[-1][2]
                blocks[-1][0] += nodes
                blocks[-1][2] += width
        for block in blocks:
            at = self.begin(block)
            for node in block[0]:
                self.x[node] = at + (self.width(node) + GAP) / 2
                at += self.width(node) + GAP

    @staticmethod
    def begin(block):
        return block[1] / len(block[0])

    def svg(self):
        left = min(x - self.width(node) / 2 for node, x in self.x.items()) - MARGIN
        right = max(x + self.width(node) / 2 for node, x in self.x.items()) + MARGIN
        width = round(right - left)
        height = 2 * MARGIN + BOX_HEIGHT + (len(self.rows) - 1) * STOREY + LEGEND
        middle = {}
        for number, row in enumerate(self.rows):
            for node in row:
                middle[node] = (round(self.x[node] - left), MARGIN + BOX_HEIGHT // 2 + (len(self.rows) - 1 - number) * STOREY)
        lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="the modules of src">',
                 "<!-- Drawn by tools/draw_house.py: change that, and `make docs`. -->", f"<style>{STYLE}</style>",
                 '<marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
                 '<path d="M0 0L8 4L0 8z"/></marker>', f'<rect class="page" width="{width}" height="{height}"/>']
        lines += [self.arrow([middle[node] for node in way]) for way in self.ways]
        for row in reversed(self.rows):
            lines += [box(node, *middle[node]) for node in row if isinstance(node, str)]
        for place, (group, colour) in enumerate(GROUPS.items()):
            x, y = MARGIN + 110 * place, height - MARGIN - 12
            lines.append(f'<rect x="{x}" y="{y}" width="12" height="12" rx="2" fill="{colour}"/><text x="{x + 18}" y="{y + 10}">{group}</text>')
        return "\n".join(lines) + "\n</svg>\n"

    @staticmethod
    def arrow(points):
        half = BOX_HEIGHT // 2
        (x, y), path = points[0], ""
        path = f"M{x} {y + half}"
        y += half
        for place, (to_x, to_y) in enumerate(points[1:], 2):
            end = to_y - half  # a passage is a straight piece as high as a box
            bend = (y + end) // 2
            path += f"C{x} {bend} {to_x} {bend} {to_x} {end}"
            if place < len(points):
                path += f"V{to_y + half}"
            x, y = to_x, to_y + half
        return f'<path class="arrow" marker-end="url(#head)" d="{path}"/>'


def box(module, x, y):
    words, group = MODULES[module]
    left, top = x - BOX_WIDTH // 2, y - BOX_HEIGHT // 2
    return (f'<rect class="box" x="{left}" y="{top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" stroke="{GROUPS[group]}" stroke-width="2"/>'
            f'<text class="name" x="{x}" y="{y - 3}" text-anchor="middle">{module}</text>'
            f'<text x="{x}" y="{y + 14}" text-anchor="middle">{words}</text>')


def draw(root):
    order = read_order(root)
    for module in set(order) ^ set(MODULES):
        raise SystemExit(f"tools/draw_house.py: {module} is in src/CMakeLists.txt or in MODULES, but not in both")
    return Drawing(without_detours(read_includes(root, order))).svg()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default=Path(__file__).resolve().parent.parent, type=Path)
    parser.add_argument("--check", action="store_true", help="fail if the picture is stale")
    arguments = parser.parse_args()
    picture = arguments.root / PICTURE
    svg = draw(arguments.root)
    if not arguments.check:
        picture.parent.mkdir(exist_ok=True)
        picture.write_text(svg, encoding="utf-8")
    elif not picture.is_file() or picture.read_text(encoding="utf-8") != svg:
        sys.exit(f"{PICTURE} is stale: modules or their includes have changed; draw it again with `make docs`")


if __name__ == "__main__":
    main()
