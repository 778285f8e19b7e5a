"""Rooms import only rooms above them, no import runs in a circle, and each module has its test."""

import ast
import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import dahgnn

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "dahgnn"

# In the order in which they may import: a room imports only those that stand before it.
ROOMS = [
    "_version",
    "checks",
    "config",
    "threads",
    "environment",
    "progress",
    "workers",
    "shards",
    "files",
    "world",
    "distributed",
    "kernels",
    "ops",
    "graph",
    "nn",
    "training",
    "classifier",
    "baselines",
    "tables",
    "images",
    "experiments",
    "report",
    "explorer",
    "bench",
    "cli",
    "__main__",
]


def name_of(path: Path) -> str:
    """The module of a file, such as "graph.hypergraph"; that of an ``__init__.py`` is its folder."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    name_of(path): path
    for path in sorted(SOURCE.rglob("*.py"))
    if path.parent != SOURCE or path.stem != "__init__"
}
PACKAGES = {name for name, path in MODULES.items() if path.stem == "__init__"}


def imported_modules(module: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
            names.add(node.module or "")
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    ours = {name.removeprefix("dahgnn.") for name in names if name.startswith("dahgnn.")}
    return ours & (MODULES.keys() - PACKAGES)


def room_of(module: str) -> str:
    return module.split(".")[0]


def test_every_room_is_in_the_list():
    assert {room_of(module) for module in MODULES} == set(ROOMS)


@pytest.mark.parametrize("module", MODULES)
def test_a_room_imports_only_rooms_above_it(module):
    allowed = ROOMS[: ROOMS.index(room_of(module)) + 1]
    for name in imported_modules(module):
        assert room_of(name) in allowed, f"{module} imports {name}"


def test_kernels_import_nothing_of_ours():
    names = [name for module in MODULES if room_of(module) == "kernels" for name in imported_modules(module)]
    assert {room_of(name) for name in names} == {"kernels"}


@pytest.mark.parametrize("module", [name for name in MODULES if room_of(name) == "report"])
def test_reports_know_neither_networks_nor_training(module):
    assert not {"nn", "training"} & {room_of(name) for name in imported_modules(module)}


def test_no_import_runs_in_a_circle():
    order = TopologicalSorter({module: imported_modules(module) for module in MODULES})
    assert len(list(order.static_order())) == len(MODULES)  # a circle raises


@pytest.mark.parametrize("module", sorted(MODULES.keys() - PACKAGES - {"_version", "__main__"}))
def test_every_module_has_a_test_file(module):
    *rooms, name = module.split(".")
    assert TESTS.joinpath(*rooms, f"test_{name}.py").exists()


def test_import_leaves_optional_packages_alone():
    optional = [
        "PIL",
        "dask",
        "faiss",
        "jinja2",
        "joblib",
        "matplotlib",
        "mlxtend",
        "openTSNE",
        "rich",
        "sklearn",
        "safetensors",
        "scipy",
        "plotly",
        "pooch",
        "ray",
        "requests",
    ]
    code = "import sys, torch; before = set(sys.modules); import dahgnn\n"
    # What the classifier's room exports is scikit-learn's by its nature.
    code += "modules = dahgnn._MODULES.items()\n"
    code += "[getattr(dahgnn, name) for name, module in modules if not module.startswith('classifier.')]\n"
    code += "new = set(sys.modules) - before\n"
    code += f"print([name for name in {optional} if name in new])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_has_what_it_exports():
    assert set(dahgnn.__all__) <= set(dir(dahgnn))
    for name in dahgnn.__all__:
        assert getattr(dahgnn, name, None) is not None
    with pytest.raises(AttributeError, match="module 'dahgnn' has no attribute 'nothing'"):
        dahgnn.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_threads_wait_without_spinning_long_unless_told_otherwise(given, expected):
    kept = {
        name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    }
    code = "import os, dahgnn; print(os.environ.get('GOMP_SPINCOUNT'))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=kept | given)
    assert done.stdout.strip() == expected
