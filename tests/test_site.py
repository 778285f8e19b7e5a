"""The site is built strictly, is whole, and asks nobody for anything."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import dahgnn
from dahgnn.cli.commands import COMMANDS
from dahgnn.experiments.lines import read_lines
from dahgnn.report.tables import signed

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# What a browser fetches by itself; a link is followed by a reader alone.
FETCHING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class Elements(HTMLParser):
    """The anchors, links and fetched files of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors, self.links, self.fetched = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors.update(found[name] for name in ("id", "name") if found.get(name))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in FETCHING and found.get(FETCHING[tag]):
            self.fetched.append(found[FETCHING[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The folder of the site, built by this package and no other."""
    folder = tmp_path_factory.mktemp("site")
    paths = os.pathsep.join([str(ROOT / "src"), *(path for path in sys.path if path)])
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": paths, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Elements]:
    return {path: Elements(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_page_of_the_docs_is_in_the_site(site, pages):
    for page in DOCS.rglob("*.md"):
        assert site / page.relative_to(DOCS).with_suffix(".html") in pages, page.name
    for name in ("changelog", "contributing", "security", "notebooks/digits", "files/examples/digits.py"):
        assert site / f"{name}.html" in pages


def test_no_page_fetches_anything_from_elsewhere(site, pages):
    for path, elements in pages.items():
        for address in elements.fetched:
            assert not re.match(r"(https?:)?//", address), f"{path.name} fetches {address}"
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"url\(\s*[\"']?(https?:)?//|@import", text), style.name


def test_links_lead_to_pages_and_anchors_of_the_site(site, pages):
    for path, elements in pages.items():
        if (
            path.name == "404.html"
        ):  # a server may show it at any address, so that its links begin at the root
            continue
        for link in [*elements.links, *elements.fetched]:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), f"{path.relative_to(site)} → {link}"
            if parts.fragment and target.suffix == ".html":
                anchor = unquote(parts.fragment)
                assert anchor in pages[target].anchors, f"{path.relative_to(site)} → {link}"


def test_the_reference_has_all_that_the_package_exports(site, pages):
    anchors = set().union(*(pages[path].anchors for path in (site / "api").glob("*.html")))
    missing = {f"dahgnn.{name}" for name in dahgnn.__all__} - anchors - {"dahgnn.__version__"}
    assert missing == set()


def test_the_command_line_is_listed_whole(site, pages):
    page = site / "command-line.html"
    assert set(COMMANDS) <= pages[page].anchors
    assert "--class-prior" in page.read_text(encoding="utf-8")


def test_the_changelog_of_the_site_is_that_of_the_project(site):
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    begin = re.search(r"^- `?(\w+)", text, re.MULTILINE)[1]
    assert begin in (site / "changelog.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pictures():
    """The module docs/make_pictures.py, which is no part of the package."""
    pytest.importorskip("matplotlib")
    spec = importlib.util.spec_from_file_location("make_pictures", DOCS / "make_pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_picture_is_drawn_and_shown(pictures):
    drawn = {f"{name}.svg" for name in pictures.PICTURES}
    text = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    assert {path.name for path in (DOCS / "pictures").iterdir()} == drawn
    assert set(re.findall(r"\]\([./]*pictures/([\w-]+\.svg)\)", text)) == drawn


def test_the_wines_of_the_picture_are_what_the_page_says(pictures):
    _, scaled, growers = pictures.wines()
    hypergraph = dahgnn.Hypergraph.from_features(scaled.astype("float32"), k=10)
    alone, mixed, member = pictures.chosen_wines(hypergraph, growers)
    assert len(set(growers[hypergraph.members(alone).numpy()])) == 1
    assert set(growers[hypergraph.members(mixed).numpy()]) == {0, 1, 2}
    assert member in hypergraph.members(mixed).tolist()


def test_the_gains_of_the_picture_are_those_of_the_report(pictures):
    (record,) = (ROOT / "records").glob("*_table3")
    report = (record / "report.md").read_text(encoding="utf-8")
    lines = read_lines(record / "runs.jsonl")
    for pair in (("ours", "ours-by-distance"), ("da-hgnn", "without-density")):
        for labels, test in pictures.gains(lines, *pair).items():
            assert f"| {labels:,} | {test.n} | {signed(test.difference)} |" in report


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_browser_reads_and_searches_the_site_from_a_disk_without_a_network(site):
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        asked, errors = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((site / "guides" / "text.html").as_uri())
        page.click(".md-search__input")
        page.keyboard.type("hyperedge", delay=20)
        page.wait_for_selector(".md-search-result__link", state="attached", timeout=20_000)
        browser.close()
    assert errors == []
    assert asked
    assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []
