"""A module imports only modules of a strictly lower rank, and each has its test."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "dahgnn"

RANKS = {
    "_version": 0,
    "checks": 0,
    "files": 0,
    "segments": 0,
    "threads": 0,
    "line_files": 0,
    "significance": 0,
    "document": 0,
    "kernels_triton": 1,
    "config": 1,
    "kernels_cpu": 1,
    "tensor_files": 1,
    "summary": 1,
    "figure": 1,
    "kernels_density": 2,
    "kernels_forward": 2,
    "kernels_backward": 2,
    "kernels_rows": 2,
    "kernels_training": 2,
    "splits": 2,
    "datasets": 2,
    "downloads": 2,
    "tables": 2,
    "kernels_gpu": 3,
    "cnn": 3,
    "charts": 2,
    "report": 3,
    "ops": 4,
    "knn": 4,
    "cnn_training": 4,
    "hypergraph": 5,
    "features": 5,
    "classical": 5,
    "density": 6,
    "peers": 6,
    "attention": 7,
    "floor": 7,
    "layers": 8,
    "model": 9,
    "baselines": 9,
    "persistence": 10,
    "induction": 10,
    "plain_loop": 10,
    "specs": 10,
    "graph_loop": 11,
    "labels": 1,
    "calibration": 1,
    "table_sources": 1,
    "table_columns": 2,
    "table_files": 3,
    "fit_page": 1,
    "training": 12,
    "scaling": 2,
    "estimator": 13,
    "explanation": 14,
    "classifier_files": 14,
    "fit_folder": 15,
    "layout": 5,
    "run_lines": 13,
    "demo": 14,
    "bench": 14,
    "experiments": 14,
    "search": 15,
    "reproduce": 16,
    "cli": 17,
    "__main__": 18,
}
MODULES = sorted(path.stem for path in SOURCE.glob("*.py") if path.stem != "__init__")


def imported_modules(module: str) -> set[str]:
    tree = ast.parse((SOURCE / f"{module}.py").read_text())
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    ours = {name.split(".")[1] for name in names if name.startswith("dahgnn.")}
    return ours & set(MODULES)


def test_every_module_has_a_rank():
    assert set(MODULES) == set(RANKS)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_lower_ranks(module):
    for name in imported_modules(module):
        assert RANKS[name] < RANKS[module], (
            f"{module} (rank {RANKS[module]}) imports {name} (rank {RANKS[name]})"
        )


@pytest.mark.parametrize("module", [name for name in MODULES if not name.startswith("_")])
def test_every_module_has_a_test_file(module):
    assert (Path(__file__).parent / f"test_{module}.py").exists()


def test_the_source_is_one_level_deep():
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert folders == {"specs"}  # which holds data alone
    assert {path.suffix for path in (SOURCE / "specs").iterdir()} == {".toml"}


def test_import_leaves_optional_packages_alone():
    optional = [
        "PIL",
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
        "requests",
    ]
    code = "import sys, torch; before = set(sys.modules); import dahgnn; new = set(sys.modules) - before\n"
    code += f"print([name for name in {optional} if name in new])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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
