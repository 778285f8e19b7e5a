"""Import another library when its turn comes, and see that what comes is its own."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from dahgnn.checks import bad_type


def library(module: str) -> ModuleType:
    """Import a module of another library, or say where it comes from."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name = module.split(".")[0]
        if (error.name or "").split(".")[0] != name:
            raise  # it lacks something itself, and names that
        raise ModuleNotFoundError(
            f"{name} is not installed. It comes with dahgnn's extra 'interchange'.", name=name
        ) from error


def check_source(source: object, kind: type | tuple[type, ...], expected: str) -> None:
    """Refuse a source of another type."""
    if not isinstance(source, kind):
        raise bad_type("source", "import_hypergraph", expected, type(source).__name__)
