"""Keep tensors in safetensors files with a JSON header, written whole; nothing in them is executed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from dahgnn._version import __version__
from dahgnn.files.atomic import replacing

FORMAT_VERSION = 1


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """Name tensors by their names, types, shapes and values: 16 hexadecimal digits."""
    content = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu()
        content.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}:".encode())
        content.update(tensor.contiguous().view(-1).numpy().data)
    return content.hexdigest()[:16]


def write_tensors(
    path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Write tensors whole as safetensors, with a header in JSON."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    metadata = {
        "format": kind,
        "format_version": str(FORMAT_VERSION),
        "written_by": f"dahgnn {__version__}",
        # NumPy's numbers are as good as Python's.
        "header": json.dumps(header, default=lambda number: number.item()),
    }
    saved = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        try:
            save_file(saved, temporary, metadata=metadata)
        except SafetensorError as error:  # a full disk, say
            raise OSError(f"The file {path} cannot be written ({error}).") from error


def read_tensors(
    path: str | os.PathLike[str], kind: str, remedy: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what `write_tensors` wrote. Nothing in the file is executed.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing, cut, of another kind, or of another format; with the remedy.
    """
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no file {path}. {remedy}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # These are copies: safetensors gives views, and a file that is cut later would end the process.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118, no mapping
    except SafetensorError as error:
        raise ValueError(f"The file {path} is cut, damaged or not safetensors ({error}). {remedy}") from error
    if metadata.get("format") != kind:
        got = metadata.get("format", "a file without that word")
        raise ValueError(f"The file {path} must be of the format '{kind}'. Got {got}. {remedy}")
    if metadata.get("format_version") != str(FORMAT_VERSION):
        raise ValueError(
            f"The file {path} must be of format {FORMAT_VERSION}. Got {metadata.get('format_version')}, "
            f"written by {metadata.get('written_by')}. {remedy}"
        )
    return _parse(metadata.get("header", ""), path, remedy), tensors


def _parse(text: str, path: str | os.PathLike[str], remedy: str) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ValueError(f"The header of the file {path} is missing or damaged. {remedy}")
    return header
