"""Save and load fitted networks: safetensors, whose JSON header holds format, version and settings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dahgnn._version import __version__
from dahgnn.baselines import HGNN
from dahgnn.checks import bad_type
from dahgnn.files import replacing
from dahgnn.model import DAHGNN

FORMAT = "dahgnn-model"
FORMAT_VERSION = 1

_MODELS: dict[str, type[DAHGNN | HGNN]] = {"DAHGNN": DAHGNN, "HGNN": HGNN}


def save_model(model: DAHGNN | HGNN, path: str | os.PathLike[str]) -> None:
    """Write a network to a file, whole or not at all: a kill or a full disk leaves the old file.

    Parameters
    ----------
    model : DAHGNN or HGNN
        With its weights, on any device.
    path : path
        By custom ``….safetensors``; missing folders are made.
    """
    from safetensors.torch import save_file

    kind = type(model).__name__
    if type(model) not in _MODELS.values():
        raise bad_type("model", "save_model", "one of " + ", ".join(_MODELS), kind)
    header = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "model": kind,
        # NumPy's numbers are as good as Python's.
        "settings": json.dumps(model.settings, default=lambda number: number.item()),
        "written_by": f"dahgnn {__version__}",
    }
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    with replacing(path) as temporary:
        save_file(weights, temporary, metadata=header)


def load_model(path: str | os.PathLike[str], device: torch.device | str = "cpu") -> DAHGNN | HGNN:
    """Read a network that `save_model` wrote. Nothing in the file is executed.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing, cut, of another kind, or of a newer format.
    """
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no model file {path}. Write one with save_model.")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no mapping
    except SafetensorError as error:
        raise ValueError(
            f"The model file {path} is cut, damaged or not safetensors ({error}). Write it anew."
        ) from error
    model = _rebuild(header, path)
    _check_weights(model, weights, path)
    model.load_state_dict(weights, assign=True)
    return model.to(device).eval()


def _rebuild(header: dict[str, str], path: str | os.PathLike[str]) -> DAHGNN | HGNN:
    """Make the network that the header describes, without memory for its weights."""
    if header.get("format") != FORMAT:
        raise ValueError(f"The file {path} was not written by dahgnn. Give one of save_model.")
    if header.get("format_version") != str(FORMAT_VERSION):
        raise ValueError(
            f"The model file {path} must be of format {FORMAT_VERSION}. Got {header.get('format_version')}, "
            f"written by {header.get('written_by')}. Load it with that version."
        )
    try:
        settings: dict[str, Any] = json.loads(header["settings"])
        with torch.device("meta"):
            return _MODELS[header["model"]](**settings)
    except (KeyError, TypeError, ValueError, RuntimeError, RecursionError) as error:
        raise ValueError(
            f"The header of the model file {path} is damaged ({str(error).splitlines()[0]})."
        ) from error


def _check_weights(model: nn.Module, weights: dict[str, torch.Tensor], path: str | os.PathLike[str]) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    got = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if len({tensor.dtype for tensor in weights.values() if tensor.is_floating_point()}) != 1:
        raise ValueError(f"The model file {path} must hold weights of one precision. Write it anew.")
    if expected != got:
        different = sorted(
            name for name in expected.keys() | got.keys() if expected.get(name) != got.get(name)
        )
        raise ValueError(
            f"The model file {path} does not hold the weights of its header: see {', '.join(different)}."
        )
