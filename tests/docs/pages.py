"""The documentation as tests see it: pages of Markdown with their command blocks, links and headings, and the examples in help texts.

A block of commands is fenced as ```bash and is run unless a comment on the line before it says otherwise:
    <!-- not run: REASON -->            what it needs that is not here; its commands, options and files must exist all the same
    <!-- exit code: 11 -->              how its last command ends, if not with 0; several numbers: one of them
    <!-- needs python: h5py -->         run where Python has these modules
    <!-- prints: 9,216 bytes -->        a regular expression that its output has: the claims of the text around it
    <!-- solved: 3 5 -->                run in a folder where these labs are solved, in labs/
Several of them stand on lines of their own, one below the other.
A block of ```toml is a piece of a run file, and must be one that `cohort train --dry-run` takes. Every other block says its language, too.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

# Programs that change the machine, reach the network or take long: a block with one of them needs a mark.
NEVER_RUN = ("apt", "apt-get", "brew", "cmake", "cpack", "ctest", "curl", "debootstrap", "dnf", "docker", "git", "make", "mmdebstrap", "module",
             "pip", "pip3", "podman", "sbatch", "scontrol", "spack", "srun", "sudo", "systemctl", "wget", "apptainer", "buildah", "kubectl")
COMMANDS = "docs/reference/commands.md"
FENCE = re.compile(r"^```(\S*)[ \t]*$")
MARK = re.compile(r"^<!-- (not run|exit code|needs python|prints|solved): *(.*?) *-->$")
LINK = re.compile(r"\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^()\s]+)\)")
EXAMPLE = re.compile(r"^  ((?:cohort|mpirun|srun|mkdir)\b.*?)(?:  .*)?$", re.MULTILINE)


@dataclass
class Block:
    page: str
    line: int  # of the first line inside
    language: str
    text: str
    marks: dict = field(default_factory=dict)

    @property
    def where(self):
        return f"{self.page}:{self.line}"


def pages_of(root):
    """The pages that people read, relative to root."""
    root = Path(root)
    pages = [name for name in ("README.md", "CONTRIBUTING.md") if (root / name).exists()]
    return pages + sorted(str(path.relative_to(root)) for pattern in ("docs/**/*.md", "src/labs/*/handout.md") for path in root.glob(pattern))


def blocks_of(page, text):
    """The fenced blocks of a page, and faults as (line, what)."""
    blocks, faults, lines = [], [], text.split("\n")
    number = 0
    while number < len(lines):
        fence = FENCE.match(lines[number].strip())
        if not fence:
            number += 1
            continue
        end = next((n for n in range(number + 1, len(lines)) if lines[n].strip() == "```"), None)
        if end is None:
            faults.append((number + 1, "block without an end"))
            break
        marks, above = {}, number - 1
        while above >= 0 and (mark := MARK.match(lines[above].strip())):
            if not mark[2]:
                faults.append((above + 1, f"`{mark[1]}:` without a reason or a value"))
            marks[mark[1]] = mark[2]
            above -= 1
        if not fence[1]:
            faults.append((number + 1, "block without a language: ```bash for commands, ```text for what is printed"))
        blocks.append(Block(page, number + 2, fence[1], "\n".join(lines[number + 1:end]) + "\n", marks))
        number = end + 1
    for line, content in enumerate(lines, 1):
        if MARK.match(content.strip()) and (line == len(lines) or not (FENCE.match(lines[line].strip()) or MARK.match(lines[line].strip()))):
            faults.append((line, "a mark must stand on the line before its block, or before another mark"))
    return blocks, faults


def without_blocks(text):
    """Lines stay where they are."""
    return re.sub(r"^```.*?^```$", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)


def anchors_of(text):
    """What headings can be linked to by, in GitHub's way."""
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *$", without_blocks(text), re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        same = sum(1 for other in found if re.fullmatch(re.escape(slug) + r"(-\d+)?", other))
        found.add(f"{slug}-{same}" if same else slug)
    return found


def links_of(text):
    """(line, target) of each link and picture outside of blocks."""
    text = without_blocks(text)
    return [(text.count("\n", 0, match.start(1)) + 1, match[1]) for match in LINK.finditer(text)]


def help_texts(commands_page):
    """"cohort data prepare" -> its help, from the text of docs/reference/commands.md."""
    return dict(re.findall(r"^## (cohort.*?)\n\n```text\n(.*?)^```$", commands_page, re.DOTALL | re.MULTILINE))


def examples_of(help_text):
    """The commands in a help text: lines that begin with two spaces and a program; two spaces or more end them, and a backslash continues."""
    return list(dict.fromkeys(match[1].strip() for match in EXAMPLE.finditer(re.sub(r" +\\\n +", " ", help_text))))


def never_run(text):
    """The programs of NEVER_RUN among the commands of a block."""
    words = re.findall(r"(?:^|[;&|(]|&&)\s*(?:[A-Z_]+=\S+\s+)*([\w.-]+)", "\n".join(command_lines(text)), re.MULTILINE)
    return [word for word in dict.fromkeys(words) if word in NEVER_RUN]


def command_lines(text):
    """The commands of a block without their comments, those that a backslash continues as one."""
    lines = re.sub(r"\\\n", " ", text).split("\n")
    return [line for line in (re.sub(r"(^|\s)#.*$", "", line).strip() for line in lines) if line]
