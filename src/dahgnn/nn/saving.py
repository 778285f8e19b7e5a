"""Save and load fitted networks as safetensors, whose JSON header holds format, version and settings."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn

from dahgnn.checks import bad_type
from dahgnn.files.tensors import read_tensors, write_tensors
from dahgnn.nn.hgnn import HGNN
from dahgnn.nn.model import DAHGNN

FORMAT = "dahgnn-model"

_MODELS: dict[str, type[DAHGNN | HGNN]] = {"DAHGNN": DAHGNN, "HGNN": HGNN}


def save_model(model: DAHGNN | HGNN, path: str | os.PathLike[str]) -> None:
    """Write a network to a file, whole or not at all: a kill or a full disk leaves the old file.

    Parameters
    ----------
    model : DAHGNN or HGNN
        The network, on any device.
    path : path
        The name ends in ``.safetensors`` by custom. Missing folders are made.
    """
    kind = type(model).__name__
    if type(model) not in _MODELS.values():
        raise bad_type("model", "save_model", "one of " + ", ".join(_MODELS), kind)
    write_tensors(path, FORMAT, {"model": kind, "settings": model.settings}, model.state_dict())


def load_model(path: str | os.PathLike[str], device: torch.device | str = "cpu") -> DAHGNN | HGNN:
    """Read a network that `save_model` wrote. Nothing in the file is executed.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing, cut, of another kind, or of a newer format.
    """
    header, weights = read_tensors(path, FORMAT, "Write it anew with save_model.")
    model = _rebuild(header, path)
    _check_weights(model, weights, path)
    model.load_state_dict(weights, assign=True)
    return model.to(device).eval()


def _rebuild(header: dict[str, Any], path: str | os.PathLike[str]) -> DAHGNN | HGNN:
    """Make the network that the header describes, without memory for its weights."""
    try:
        with torch.device("meta"):
            return _MODELS[header["model"]].from_settings(header["settings"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
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
