"""Bring into the site what lies beside docs/: the changelog, the examples, the records, the command line.

The pages of docs/ link to files of the repository, so that they can be read where they lie. In the site each
such file becomes a page, if it is text, or is carried along, so that no link leads out of the site.
"""

from __future__ import annotations

import argparse
import json
import posixpath
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
# Files of the root that have a place of their own in the site.
ROOT_PAGES = {name: name.lower() for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")}
LANGUAGES = {".py": "python", ".toml": "toml", ".txt": "text", ".yml": "yaml", ".json": "json"}
LINK = re.compile(r"(?<=\]\()([^)#\s]+)(?=[)#])")
COMMANDS = "<!-- every command -->"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page or a copy of each file that pages link to, and of each that those link to."""
    notebooks = sorted((ROOT / "examples").glob("*.ipynb"))
    waiting = [*ROOT_PAGES, *(f"examples/{path.name}" for path in notebooks)]
    for file in files.documentation_pages():
        waiting += outside(file.content_string, f"docs/{file.src_uri}")
    done: set[str] = set()
    while waiting:
        origin = waiting.pop()
        if origin in done:
            continue
        done.add(origin)
        text = page_of(ROOT / origin)
        if text is None:
            file = File.generated(config, place_of(origin), abs_src_path=str(ROOT / origin))
        else:
            file = File.generated(config, place_of(origin), content=text)
            if file.src_uri.startswith("files/"):
                file.inclusion = InclusionLevel.NOT_IN_NAV
            waiting += outside(text, origin)
        file.origin = origin  # type: ignore[attr-defined]
        files.append(file)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to where their files are in the site, and list the options of every command."""
    del config, files
    origin = getattr(page.file, "origin", f"docs/{page.file.src_uri}")

    def moved(match: re.Match[str]) -> str:
        target = target_of(match[1], origin)
        if target is None:
            return match[1]
        return posixpath.relpath(place_of(target), posixpath.dirname(page.file.src_uri) or ".")

    markdown = LINK.sub(moved, markdown)
    return markdown.replace(COMMANDS, commands()) if COMMANDS in markdown else markdown


def outside(markdown: str, origin: str) -> Iterator[str]:
    """Find the files of the repository, but not of docs/, that a page links to."""
    for link in LINK.findall(markdown):
        target = target_of(link, origin)
        if target is not None and not target.startswith("docs/"):
            yield target


def target_of(link: str, origin: str) -> str | None:
    """Return what a link of a file leads to, from the root on; None if that is no file of the repository."""
    if "://" in link or link.startswith("/"):
        return None
    target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), link))
    return target if not target.startswith("..") and (ROOT / target).exists() else None


def place_of(target: str) -> str:
    """Return where a file of the repository is in the site."""
    path = Path(target)
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    if target in ROOT_PAGES:
        return ROOT_PAGES[target]
    if path.suffix == ".ipynb":
        return f"notebooks/{path.stem}.md"
    if (ROOT / target).is_dir():
        return f"files/{target}/index.md"
    return f"files/{target}.md" if path.suffix in LANGUAGES else f"files/{target}"


def page_of(path: Path) -> str | None:
    """Write the page of a file; None if it is to be carried along as it is."""
    if path.is_dir():
        names = sorted(each.name for each in path.iterdir() if each.name != "__pycache__")
        listed = "\n".join(f"- [{name}]({path.name}/{name})" for name in names)
        return f"{HIDDEN}# {path.name}\n\n{listed}\n"
    if path.suffix == ".md":
        hidden = "" if path.parent == ROOT else HIDDEN
        return hidden + path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return notebook(json.loads(path.read_text(encoding="utf-8")), path.name)
    if path.suffix in LANGUAGES:
        code = path.read_text(encoding="utf-8")
        return f"{HIDDEN}# {path.name}\n\n````{LANGUAGES[path.suffix]}\n{code}````\n"
    return None


HIDDEN = "---\nsearch:\n  exclude: true\n---\n\n"  # the search would find nothing else


def notebook(content: dict, name: str) -> str:
    """Write a notebook as a page, with what its cells printed."""
    parts = []
    for cell in content["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [shown for output in cell["outputs"] if (shown := output_of(output))]
    parts.append(f"This page is the notebook `examples/{name}`. It runs in the tests.")
    return "\n\n".join(parts) + "\n"


def output_of(output: dict) -> str:
    """Write what a cell gave: a picture, or text."""
    data = output.get("data", {})
    if "image/png" in data:
        encoded = "".join(data["image/png"].split())
        return f'<img alt="What the cell draws" src="data:image/png;base64,{encoded}">'
    text = "".join(output.get("text", data.get("text/plain", "")))
    return f"```text\n{text.rstrip()}\n```" if text else ""


def commands() -> str:
    """Write what ``--help`` says of each command, as wide as it is wherever the site is built."""
    from dahgnn.cli.parser import make_parser

    parser = make_parser()
    (group,) = parser._subparsers._group_actions
    parts = []
    for name, command in group.choices.items():
        command.formatter_class = partial(argparse.HelpFormatter, width=88)
        command.color = False  # from Python 3.14 on there would be some
        parts.append(f"## {name}\n\n```text\n{command.format_help().rstrip()}\n```")
    return "\n\n".join(parts)
