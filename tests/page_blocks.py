"""Run what stands in the code blocks of a page, as a reader would, from top to bottom in one folder."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from dahgnn.cli.commands import main
from dahgnn.cli.parser import make_parser
from dahgnn.experiments.spec import load_spec

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Commands that take a second or so on small files; the others are parsed.
QUICK = {"fit", "predict", "explain", "suggest"}
# Options that want what not every machine has.
WANTING = {"--text-model", "cuda", "ray", "dask"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each block. One without a language is of a shell, if it begins so."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    starts = ("dahgnn ", "make ", "pip ")
    return [(language or ("sh" if text.startswith(starts) else "text"), text) for language, text in found]


def run_page(page: Path, known: dict[str, object], capsys) -> None:
    """Run all blocks; a block of text is what the one before it showed, but for percentages."""
    shown = ""
    for language, text in blocks_of(page):
        if language == "text":
            for line in filter(None, (line.strip("… ") for line in text.splitlines())):
                assert without_percentages(line) in without_percentages(shown), line
        else:
            assert language in RUN, f"{page.name}: nobody knows how to check a block of {language}"
            RUN[language](text, known)
            shown = "".join(capsys.readouterr())


def without_percentages(text: str) -> str:
    """Another processor rounds otherwise, which may turn a row or two."""
    return re.sub(r"\d+\.\d ?%?", "#", text)


def run_python(code: str, known: dict[str, object]) -> None:
    exec(code, known)  # noqa: S102, it is our own


def run_shell(text: str, _: dict[str, object]) -> None:
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if "|" in words:
            run_pipe(line)
        elif words:
            run_command(words)


def run_pipe(line: str) -> None:
    """Let a shell run the line, with the package that is tested."""
    command = f'dahgnn() {{ {shlex.quote(sys.executable)} -m dahgnn "$@"; }}; set -o pipefail; {line}'
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        ["/bin/bash", "-c", command], capture_output=True, env=os.environ | {"PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stderr.decode()


def run_command(words: list[str]) -> None:
    """Run a command of ours that is quick; of all others look whether there is such a one."""
    while re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    check = {"dahgnn": check_dahgnn, "pip": check_pip, "make": check_make, "python": check_python}
    check["torchrun"] = check_torchrun
    assert words[0] in check, words
    check[words[0]](words[1:])


def check_dahgnn(words: list[str]) -> None:
    options = make_parser().parse_args(words)  # a wrong option exits
    if options.command in QUICK and not WANTING & set(words):
        assert main(words) == 0, words


def check_torchrun(words: list[str]) -> None:
    """Look at what it starts, which `tests/cli/test_fit_commands.py` runs."""
    place = words.index("dahgnn")
    assert words[place - 1] == "-m"
    make_parser().parse_args(words[place + 1 :])


def check_pip(words: list[str]) -> None:
    assert words[0] == "install"
    for word in words[1:]:
        extras = re.search(r"\[(.*)\]", word)
        for extra in extras[1].split(",") if extras else ():
            assert extra in PROJECT["optional-dependencies"], word


def check_make(words: list[str]) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(words) <= set(targets), words


def check_python(words: list[str]) -> None:
    """A script that is there; or a module of the tools that a release needs, which tests do without."""
    assert words[:2] in (["-m", "build"], ["-m", "cibuildwheel"]) or (ROOT / words[0]).is_file(), words


def check_spec(text: str, _: dict[str, object]) -> None:
    Path("spec.toml").write_text(text, encoding="utf-8")
    assert load_spec(Path("spec.toml")).methods


def check_json(text: str, _: dict[str, object]) -> None:
    json.loads(text)


def show(text: str, _: dict[str, object]) -> None:
    """Do nothing: what a file holds is there to be looked at."""


RUN = {"python": run_python, "sh": run_shell, "toml": check_spec, "json": check_json, "csv": show}
