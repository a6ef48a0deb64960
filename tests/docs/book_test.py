"""The book that `make book` makes: it is made without a warning, has no dead link and asks nothing of the network; in a browser its search
finds pages, also from a folder without a server, and no page is wider than a phone. Faults that are planted into its pages are named. What
is not installed (Sphinx, Chromium) is skipped, or fails where COHORT_REQUIRE_BOOK=1. Usage: book_test.py ROOT"""

import functools
import html
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

root = Path(sys.argv[1]).resolve()
failures = 0
WORDS = {"reduce-scatter": "docs/glossary.html", "GradScaler": "docs/course/cheat-sheets.html"}  # to search for -> a page that must be found
PHONE = 390  # pixels

# Loads each page into a frame as wide as a phone, and says what is wider, what came from elsewhere, and what the search found.
HARNESS = """<!doctype html><iframe id="frame" style="width:%dpx;height:800px;border:0"></iframe><pre id="out"></pre><script>
const frame = document.getElementById("frame");
const open = url => new Promise(done => { frame.onload = () => done(frame.contentDocument); frame.src = url; });
const sleep = ms => new Promise(done => setTimeout(done, ms));
const scrolls = e => { for (; e; e = e.parentElement) if (["auto", "scroll", "hidden"].includes(frame.contentWindow.getComputedStyle(e).overflowX)) return true; };
(async () => {
  const result = {pages: {}, found: {}, elsewhere: []};
  for (const url of %s) {
    const page = await open(url), width = page.documentElement.clientWidth;
    const wide = [...page.body.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > width + 1 && !scrolls(e.parentElement));
    if (page.documentElement.scrollWidth > width) result.pages[url] = [page.documentElement.scrollWidth, wide.slice(0, 3).map(e => e.outerHTML.slice(0, 120))];
    for (const e of frame.contentWindow.performance.getEntriesByType("resource")) if (!e.name.startsWith(location.origin)) result.elsewhere.push(e.name);
  }
  for (const word of %s) {
    const page = await open("search.html?q=" + word);
    let links = [];
    for (let i = 0; i < 100 && !links.length; ++i) { await sleep(100); links = [...page.querySelectorAll("#search-results li a")]; }
    await sleep(500);
    result.found[word] = [...page.querySelectorAll("#search-results li a")].map(a => a.getAttribute("href"));
  }
  document.getElementById("out").textContent = JSON.stringify(result);
})();
</script>
"""


def check(what, condition, detail=""):
    global failures
    print(("ok      " if condition else "FAILED  ") + what, flush=True)
    if not condition:
        failures += 1
        print(detail)


def leave(reason):
    print(f"skipped: {reason}")
    sys.exit(1 if os.environ.get("COHORT_REQUIRE_BOOK") == "1" else 77)


class Page(HTMLParser):
    """What a page links to, what it loads, and what can be linked to in it."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if given.get("id"):
            self.ids.add(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "index", "search", "next", "prev", "author"):
            self.loaded.append(given.get("href", ""))
        elif given.get("src"):
            self.loaded.append(given["src"])


def dead_links(book):
    pages = {path.relative_to(book).as_posix(): Page(path.read_text()) for path in book.rglob("*.html")}
    for name, page in sorted(pages.items()):
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    yield f"{name} loads {link}"
                continue
            target = os.path.normpath(os.path.join(os.path.dirname(name), unquote(parts.path))) if parts.path else name
            if not (book / target).is_file():
                yield f"{name}: dead link {link}"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                yield f"{name}: {link}: no such place in {target}"
    for style in book.rglob("*.css"):
        yield from (f"{style.name} loads {url}" for url in re.findall(r"""url\(["']?(?:https?:)?//[^)]*\)|@import[^;]*//[^;]*""", style.read_text()))


def make(tree, folder, work):
    return subprocess.run([tree / "tools/book", folder, "--work", work], capture_output=True, text=True, timeout=300)


def planted_tree(folder):
    """What tools/book reads, with two dead links in a page."""
    for name in ("docs", "inputs", "jobs", "tests/docs", "src/labs"):
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.cpp"))
    (folder / "tools").mkdir()
    shutil.copy(root / "tools/book", folder / "tools/book")
    for name in ("README.md", "CONTRIBUTING.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(root / name, folder / name)
    with open(folder / "docs/faq.md", "a") as page:
        page.write("\nSee [one](gone.md) and [another](data.md#no-such-heading).\n")


def dump(browser, profile, url, budget):
    return subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", f"--user-data-dir={profile}",
                           f"--virtual-time-budget={budget}", "--dump-dom", url], capture_output=True, text=True, timeout=280).stdout


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def in_browser(browser, book, profile):
    names = sorted(path.relative_to(book).as_posix() for path in book.rglob("*.html") if path.name not in ("harness.html", "search.html"))
    (book / "harness.html").write_text(HARNESS % (PHONE, json.dumps(names), json.dumps(list(WORDS))))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=book))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    dom = dump(browser, profile, f"http://127.0.0.1:{server.server_address[1]}/harness.html", 200000)
    server.shutdown()
    out = re.search(r'<pre id="out">(.+?)</pre>', dom, re.S)
    check("the browser read all pages", out is not None, dom[-1000:])
    if out is None:
        return
    result = json.loads(html.unescape(out[1]))
    check(f"no page is wider than {PHONE} pixels", not result["pages"], json.dumps(result["pages"], indent=1))
    check("nothing comes from elsewhere", not result["elsewhere"], result["elsewhere"])
    for word, page in WORDS.items():
        found = [link.split("?")[0].split("#")[0] for link in result["found"].get(word, [])]
        check(f"the search for {word} finds {page}", page in found, found)
    word, page = next(iter(WORDS.items()))
    dom = dump(browser, profile, f"{(book / 'search.html').as_uri()}?q={word}", 20000)
    check("... and in a folder without a server", f'href="{page}' in dom, dom[-1500:])


def main():
    if shutil.which("sphinx-build") is None:
        leave("there is no sphinx-build (make packages-book)")
    with tempfile.TemporaryDirectory(prefix="cohort_book_") as scratch:
        scratch = Path(scratch)
        book = scratch / "book"
        made = make(root, book, scratch / "work")
        check("the book is made without a warning", made.returncode == 0, made.stdout + made.stderr)
        if made.returncode:
            sys.exit(1)
        faults = list(dead_links(book))
        check("no link is dead, and nothing is loaded from elsewhere", not faults, "\n".join(faults))
        labs = sorted(path.parent.name for path in (root / "src/labs").glob("[0-9]*/handout.md"))
        for lab in labs:
            text = (book / f"src/labs/{lab}/questions.html").read_text()
            answers = (root / f"src/labs/{lab}/questions.md").read_text().count("\nAnswer: ")
            check(f"{lab}: each answer is folded", text.count("<summary>Answer</summary>") == answers > 0, text.count("<summary>"))

        planted_tree(scratch / "planted")
        made = make(scratch / "planted", scratch / "other", scratch / "other-work")
        told = made.stdout + made.stderr
        check("dead links fail it", made.returncode != 0 and "gone.md" in told and "no-such-heading" in told, told)

        bad = scratch / "bad"
        bad.mkdir()
        (bad / "page.html").write_text('<a href="gone.html">x</a><a href="#nowhere">y</a><script src="https://example.org/x.js"></script>')
        (bad / "page.css").write_text('@import url("https://example.org/font.css");')
        found = list(dead_links(bad))
        check("a dead link, a dead place, a script and a font from elsewhere are found", len(found) == 4, found)

        browser = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
        if browser:
            in_browser(browser, book, scratch / "browser")
        elif not failures:
            leave("there is no chromium: search and width of the pages were not tried")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
