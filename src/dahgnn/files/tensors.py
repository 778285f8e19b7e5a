"""Keep tensors in safetensors files with a JSON header, written whole; nothing in them is executed."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dahgnn._version import __version__
from dahgnn.files.atomic import replacing

logger = logging.getLogger(__name__)

# Files of format 1 are as those of format 2, but have no digest.
FORMAT_VERSION = 2


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """Name tensors by their names, types, shapes and values: 16 hexadecimal digits."""
    content = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu()
        content.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}:".encode())
        content.update(_bytes_of(tensor))
    return content.hexdigest()[:16]


def _bytes_of(tensor: Tensor) -> memoryview:
    """Return the values of a tensor of any type as they lie in memory, without a copy where that can be."""
    if tensor.numel() == 0:
        return memoryview(b"")  # its strides may be such that it has no view
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().data


def _file_digest(metadata: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    """Name all that a file holds: its metadata but the digest, and its tensors. 64 hexadecimal digits."""
    names = sorted(tensors)
    described = {
        "metadata": {name: text for name, text in metadata.items() if name != "digest"},
        "tensors": [[name, str(tensors[name].dtype), list(tensors[name].shape)] for name in names],
    }
    content = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for name in names:
        content.update(_bytes_of(tensors[name]))
    return content.hexdigest()


def write_tensors(
    path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Write tensors whole as safetensors, with a header in JSON and a digest of both."""
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
    metadata["digest"] = _file_digest(metadata, saved)
    with replacing(path) as temporary:
        try:
            save_file(saved, temporary, metadata=metadata)
        except SafetensorError as error:  # a full disk, say
            raise OSError(f"The file {path} cannot be written ({error}).") from error


def read_tensors(
    path: str | os.PathLike[str], kind: str, remedy: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what `write_tensors` wrote, and check its digest. Nothing in the file is executed.

    A file of format 1 has no digest, and is read with a warning in the log.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing, cut, changed, of another kind, or of another format; with the remedy.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no file {path}. {remedy}")
    metadata, tensors = _open(path, remedy)
    if metadata.get("format") != kind:
        got = metadata.get("format", "a file without that word")
        raise ValueError(f"The file {path} must be of the format '{kind}'. Got {got}. {remedy}")
    version = metadata.get("format_version")
    if version not in ("1", str(FORMAT_VERSION)):
        raise ValueError(
            f"The file {path} must be of format {FORMAT_VERSION}. Got {version}, "
            f"written by {metadata.get('written_by')}. {remedy}"
        )
    if version != "1" and metadata.get("digest") != _file_digest(metadata, tensors):
        raise ValueError(f"The file {path} is damaged, or was changed since it was written. {remedy}")
    header = _parse(metadata.get("header", ""), path, remedy)
    # Files of features and CNNs have always had a digest in their header, which their readers check.
    if version == "1" and "digest" not in header:
        logger.warning("The file %s has no digest: nothing tells whether it is damaged. %s", path, remedy)
    return header, tensors


def _open(path: str | os.PathLike[str], remedy: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return the metadata and the tensors of a safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            # These are copies: safetensors gives views, and a file that is cut later would end the process.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118, no mapping
            return file.metadata() or {}, tensors
    except SafetensorError as error:
        raise ValueError(f"The file {path} is cut, damaged or not safetensors ({error}). {remedy}") from error


def _parse(text: str, path: str | os.PathLike[str], remedy: str) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ValueError(f"The header of the file {path} is missing or damaged. {remedy}")
    return header
