"""What a release has: an sdist that can be built, a wheel for every platform, and true words about both."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from dahgnn import __version__

ROOT = Path(__file__).parents[1]
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff")


def build(tree: Path, kind: str, **environment: str) -> Path:
    """Build an sdist or a wheel by setuptools itself, without an environment of its own."""
    code = f"from setuptools import build_meta; build_meta.build_{kind}('dist')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tree,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (built,) = (tree / "dist").iterdir()
    return built


@pytest.fixture
def tree(tmp_path) -> Path:
    """A copy of what is built from, as builds leave files beside it; kernels that are built are left out."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    unwanted = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=unwanted)
    (tmp_path / "tests").mkdir()
    shutil.copy(__file__, tmp_path / "tests" / "test_packaging.py")
    return tmp_path


def test_the_sdist_has_the_kernels_and_no_half_of_the_tests(tree):
    built = build(tree, "sdist")
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    kernels = (ROOT / "src/dahgnn/kernels/cpu").iterdir()
    sources = {path.relative_to(ROOT).as_posix() for path in kernels if path.suffix in (".cpp", ".inl")}
    assert len(sources) > 5
    assert sources <= names
    assert {"setup.py", "pyproject.toml", "CHANGELOG.md", "CITATION.cff"} <= names
    assert not any(name.startswith("tests") for name in names)


def test_a_pure_wheel_is_for_every_platform_and_has_all_data(tree):
    built = build(tree, "wheel", DAHGNN_PURE="1")
    assert built.name == f"dahgnn-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(built) as archive:
        names = set(archive.namelist())
    code = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/dahgnn").rglob("*.py")}
    data = {
        path.relative_to(ROOT / "src").as_posix()
        for folder in ("experiments/specs", "report/assets", "report/templates")
        for path in (ROOT / "src/dahgnn" / folder).iterdir()
        if path.is_file()
    }
    assert code | data | {"dahgnn/py.typed"} <= names
    assert not any(name.endswith((".so", ".cpp", ".inl")) for name in names)


def test_the_citation_and_the_workflow_are_those_of_this_project():
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    assert citation["license"] == "MIT"
    titles = [reference["title"] for reference in citation["references"]]
    assert any(title.startswith("Density-Aware Hyper-Graph Neural Networks") for title in titles)
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    steps = [step.get("run") for step in workflow["jobs"]["test"]["steps"]]
    assert ".ci/run" in steps
    assert "make test" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_wheels_with_kernels_are_tested_for_having_them():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cibuildwheel"]
    assert all(name.startswith("cp311-manylinux_") for name in settings["build"].split())
    python, quoted = settings["test-command"][0].split(" -c ")
    assert python == "python"
    subprocess.run([sys.executable, "-c", quoted.strip("'").partition("; assert")[0]], check=True)
