"""That the tests of the documentation can fail: each fault below is planted into a small tree of pages, and must be found; and a block that
fails must be seen to fail. Usage: planted_test.py PROGRAM -- MPIRUN FLAG ..."""

import subprocess
import sys
import tempfile
from pathlib import Path

from blocks_test import Folder
from pages import Block
from pages_test import REFERENCE, faults_of

program = sys.argv[1]
GOOD = """# Title

See [a page](docs/page.md#a-part) and [commands](docs/reference/commands.md), [keys](docs/reference/run-file.md),
[codes](docs/reference/exit-codes.md), ![a picture](docs/picture.svg).

<!-- not run: builds the program -->
```bash
make demo                # a comment
cohort topo --json
```
"""
PAGE = "# Page\n\n## A part\n\n```text\nprinted\n```\n"
failures = 0


def check(what, condition, detail=""):
    global failures
    print(("ok      " if condition else "FAILED  ") + what)
    if not condition:
        failures += 1
        print(detail)


def faults(readme=GOOD, page=PAGE, change=None, **more):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "docs/reference").mkdir(parents=True)
        for name in REFERENCE:
            printed = subprocess.run([program, "reference", name], capture_output=True, text=True, check=True).stdout
            # Their links lead to pages that are not here.
            (root / f"docs/reference/{name}.md").write_text(printed if change != name else printed + "x\n")
        for name in ("first-run", "failures"):
            (root / f"docs/{name}.md").write_text("# There\n")
        for name, text in {"README.md": readme, "docs/page.md": page, "docs/picture.svg": "<svg/>", "Makefile": "demo: x\n", **more}.items():
            (root / name).write_text(text)
        return [f"{page}:{line}: {what}" for page, line, what in faults_of(program, root)]


def expect(what, part, **changes):
    found = faults(**changes)
    check(what, len(found) == 1 and part in found[0], found)


check("nothing is wrong with the good tree", not faults(), faults())
expect("a dead link to a file", "README.md:3: dead link: docs/gone.md", readme=GOOD.replace("docs/page.md#a-part", "docs/page.md), [x](docs/gone.md"))
expect("a dead link to a heading", "README.md:3: dead link: docs/page.md#no-part", readme=GOOD.replace("#a-part", "#no-part"))
expect("a dead link inside a page", "docs/page.md:1: dead link: #none", page="[x](#none)\n" + PAGE)
expect("a missing picture", "README.md:4: dead link: docs/other.svg", readme=GOOD.replace("picture.svg", "other.svg"))
expect("a page that nobody finds", "docs/lost.md:1: not within 2 clicks", **{"docs/lost.md": "# Lost\n"})
expect("a block without a language", "docs/page.md:5: block without a language", page=PAGE.replace("```text", "```"))
expect("a mark without a reason", "README.md:6: `not run:` without", readme=GOOD.replace("builds the program ", ""))
expect("a mark without a block", "README.md:6: a mark must stand", readme=GOOD.replace(" -->\n", " -->\n\n").replace("make demo", "make x").replace("make x", "true"))
expect("a block that a test must not run", "docs/page.md:6: apt, make: not for a test", page=PAGE.replace("```text\nprinted", "```bash\nX=1 apt install x && make"))
expect("an unknown target", "README.md:8: make has no target dmeo", readme=GOOD.replace("make demo", "make dmeo"))
expect("an unknown command", "README.md:8: no command `cohort tpoo`", readme=GOOD.replace("topo", "tpoo"))
expect("an unknown option", "README.md:8: `cohort topo` has no option --jsn", readme=GOOD.replace("--json", "--jsn"))
expect("a file that does not exist", "README.md:8: inputs/gone.toml", readme=GOOD.replace("--json", "--json inputs/gone.toml"))
expect("an unknown option in the text", "docs/page.md:8: `cohort topo` has no option --jsn", page=PAGE + "Or `cohort topo --jsn`.\n")
found = faults(readme=GOOD + "\n[Labs](docs/labs.md)\n", **{"docs/labs.md": "# Labs\n\n| 3 | [Another title](page.md) | 90 |\n"})
check("a lab that its page lacks", any("no row `| 3 | [Collectives" in fault for fault in found), found)
for reference in REFERENCE:
    expect(f"an edited page {reference}", f"docs/reference/{reference}.md", change=reference)


def run(text, language="bash", **marks):
    with tempfile.TemporaryDirectory() as base:
        return Folder(program, sys.argv[3:], Path(base)).run(Block("page.md", 1, language, text, marks))


check("a block that fails", "exit code 2" in run("cohort topo --nods 3\ntrue\n"))
check("a failure in a pipe", "exit code 2" in run("cohort topo --nods 3 | cat\n"))
check("a block that changes the machine", "not for a test" in run("true\nsudo true\n"))
check("a block that does not fail", run("cohort topo --simulate --nodes 2 --ranks-per-node 2\n") == "")
check("a block that ends as its mark says", run("cohort topo --nods 3\n", **{"exit code": "1 2"}) == "")
check("a block that should have failed", "exit code 0" in run("true\n", **{"exit code": "2"}))
check("a command that is not the last fails", "exit code 2" in run("cohort topo --nods 3\nfalse\n", **{"exit code": "1"}))
check("a piece of a run file with a misspelt key", "kep" in run("[checkpoint]\nkep = 2\n", "toml"))
sys.exit(1 if failures else 0)
