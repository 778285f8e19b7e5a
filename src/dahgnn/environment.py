"""When, on what device and with which versions something was measured: described here, and nowhere else."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from dahgnn._version import __version__

_PACKAGES = ("torch", "torch-geometric", "dhg", "numpy", "scipy", "scikit-learn")


def describe_environment(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Return "finished", which is now, "device" and "versions", as every line of a measurement has them."""
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": describe_device(device),
        "versions": dict(installed_versions()),
    }


def describe_device(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Return the type of a device, and the name of a GPU or the threads and machine of a CPU."""
    where = torch.device(device)
    if where.type == "cuda":
        return {"type": "cuda", "name": torch.cuda.get_device_name(where)}
    return {"type": where.type, "threads": torch.get_num_threads(), "machine": platform.machine()}


def name_device(device: Mapping[str, Any] | str) -> str:
    """Name a device in words, from its description or from the words that older lines have.

    Examples
    --------
    >>> name_device({"type": "cpu", "threads": 2, "machine": "x86_64", "processes": 4})
    'CPU x86_64, 2 threads, 4 processes'
    >>> name_device({"type": "cpu", "threads": 1, "machine": "x86_64", "cluster": "ray"})
    'CPU x86_64, 1 threads, on ray'
    >>> name_device({"type": "cuda", "name": "NVIDIA H200"})
    'NVIDIA H200'
    """
    if isinstance(device, str):
        return device
    words = [str(device.get("type", "unknown")).upper(), str(device.get("machine", ""))]
    name = str(device.get("name", " ".join(word for word in words if word)))
    for part in ("threads", "processes"):
        if part in device:
            name += f", {device[part]} {part}"
    return f"{name}, on {device['cluster']}" if "cluster" in device else name


@cache
def installed_versions() -> Mapping[str, str]:
    """Return the versions of this package, of Python and of the packages that results depend on."""
    found = {"dahgnn": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
