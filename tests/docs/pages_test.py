"""What can be checked of the documentation without running it: links, pages that nobody finds, blocks without a language, the commands of
blocks that are not run, and the pages of docs/reference beside what the program prints. Usage: pages_test.py PROGRAM ROOT"""

import os
import re
import subprocess
import sys
from pathlib import Path

from pages import COMMANDS, anchors_of, blocks_of, command_lines, help_texts, links_of, never_run, pages_of, without_blocks

REFERENCE = ("run-file", "commands", "exit-codes")
CLICKS = 2  # from README to any page
LABS = "docs/labs.md"
INLINE = re.compile(r"(?<!`)`((?:mpirun -np \d+ |srun [^`]*)?cohort [a-z]+ [^`\n]*)`(?!`)")


def check_links(root, page, text, texts):
    for line, target in links_of(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        name = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if name.startswith("..") or not (root / name).exists():
            yield page, line, f"dead link: {target}: no such file"
        elif anchor and anchor not in anchors_of(texts.get(name, "")):
            yield page, line, f"dead link: {target}: {name} has no such heading"


def check_reach(texts):
    """Everybody finds every page within a few clicks from README."""
    reached, last = {"README.md"}, {"README.md"}
    for _ in range(CLICKS):
        last = {os.path.normpath(os.path.join(os.path.dirname(page), target.partition("#")[0]))
                for page in last for _, target in links_of(texts.get(page, "")) if not target.startswith("#")} - reached
        reached |= last
    for page in sorted(set(texts) - reached):
        yield page, 1, f"not within {CLICKS} clicks of README.md: link to it"


def check_command(root, line, helps, targets):
    """What is wrong with a command that is not run: a command, option, target or file that does not exist."""
    for words in re.findall(r"\bmake((?: +[a-z][a-z-]*)+)", line):
        yield from (f"make has no target {target}" for target in words.split() if target not in targets)
    # An image of a container may be called cohort, too: `docker run cohort mpirun ...`.
    for call in re.findall(r"(?:^|[\s/])(cohort +(?!mpirun )[a-z][a-z-]*(?: +[^\s|>]+)*)", line):
        words = call.split()
        name = next((name for length in (4, 3, 2) if (name := " ".join(words[:length])) in helps), None)
        if name is None:
            yield f"no command `{' '.join(words[:2])}`"
        else:
            yield from (f"`{name}` has no option {option}" for option in re.findall(r"(?<=\s)--[a-z][a-z-]*", call)
                        if not re.search(re.escape(option) + r"(?![a-z-])", helps[name]))
    for path in re.findall(r"(?<![\w/.~])((?:inputs|jobs|tools|src|tests|modules)/[\w./-]+)", line):
        if not (root / path).exists():
            yield f"{path}: no such file"


def check_blocks(root, page, text, helps, targets):
    blocks, faults = blocks_of(page, text)
    yield from ((page, line, what) for line, what in faults)
    for block in blocks:
        if block.language == "bash" and "not run" not in block.marks and (programs := never_run(block.text)):
            yield page, block.line, f"{', '.join(programs)}: not for a test to run: put `<!-- not run: REASON -->` before the block"
        if block.language == "bash" and "not run" in block.marks:
            for line in command_lines(block.text):
                yield from ((page, block.line, what) for what in check_command(root, line, helps, targets))


def check_inline(root, page, text, helps, targets):
    """Commands in the text itself, as `cohort topo --json`."""
    text = without_blocks(text)
    for code in INLINE.finditer(text):
        yield from ((page, text.count("\n", 0, code.start()) + 1, what) for what in check_command(root, code[1], helps, targets))


def check_labs_page(program, root, text):
    """The table of the labs has what `cohort lab ls` says of each: number, title, minutes."""
    listed = subprocess.run([program, "lab", "ls", "--dir", os.devnull], capture_output=True, text=True, check=True).stdout.split("\n")[1:]
    for line in filter(None, listed):
        number, title, minutes = re.split(r" {2,}", line.strip())[:3]
        if not re.search(rf"^\| {number} \| \[{re.escape(title)}\]\([^)]*\) \| {minutes} \|", text, re.MULTILINE):
            yield LABS, 1, f"no row `| {number} | [{title}](...) | {minutes} |`, as `cohort lab ls` has it"


def check_reference(program, root):
    for name in REFERENCE:
        page = f"docs/reference/{name}.md"
        printed = subprocess.run([program, "reference", name], capture_output=True, text=True, check=True).stdout
        committed = (root / page).read_text() if (root / page).exists() else ""
        if printed != committed:
            pairs = zip(printed.split("\n"), committed.split("\n"))
            line = next((n for n, (a, b) in enumerate(pairs, 1) if a != b), 1)
            yield page, line, "is not what the program prints: run `make docs`"


def faults_of(program, root):
    root = Path(root)
    texts = {page: (root / page).read_text() for page in pages_of(root)}
    helps = help_texts(texts.get(COMMANDS, ""))
    targets = set(re.findall(r"^([a-z][a-z-]*):", (root / "Makefile").read_text(), re.MULTILINE))
    for page, text in texts.items():
        yield from check_links(root, page, text, texts)
        yield from check_blocks(root, page, text, helps, targets)
        yield from check_inline(root, page, text, helps, targets)
    if LABS in texts:
        yield from check_labs_page(program, root, texts[LABS])
    yield from check_reach(texts)
    yield from check_reference(program, root)


if __name__ == "__main__":
    found = list(faults_of(*sys.argv[1:]))
    for page, line, what in found:
        print(f"{page}:{line}: {what}")
    sys.exit(1 if found else 0)
