"""Open files of rows for Python: features as one tensor that need not fit into memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from dahgnn.files.mapped import tensor_of_mapped
from dahgnn.files.scratch import Scratch
from dahgnn.tables.large_sources import ArrayRows, LargeSource
from dahgnn.tables.large_tables import open_source, read_large_table, survey_large
from dahgnn.tables.planning import Choices
from dahgnn.tables.row_files import ROW_FILES


def open_rows(
    path: str | os.PathLike[str],
    *,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    folder: str | os.PathLike[str] | None = None,
) -> Tensor:
    """Return the features of a file, or of all files in a folder, without holding them in memory.

    An NPY file of float32 or float64 is mapped, and nothing is copied: it must stay as it is as long as the
    tensor is used. A fit refuses one that was cut, or that changes while it is read. The columns of Parquet
    and Arrow files become features as `dahgnn fit` makes them, in a file that is gone when nobody uses the
    tensor any more.

    Parameters
    ----------
    path : path
        An .npy, .parquet, .arrow or .feather file, or a folder of the latter three, whose rows are taken in
        the order of their names.
    drop, keep : sequence of str
        Columns to leave out, such as that of the labels, and columns that become features although they count
        the rows.
    folder : path, optional
        Where the file with the features goes; by default the system's folder for temporary files.

    Returns
    -------
    Tensor, (n, d)
        The features, float32; those of an NPY file keep their type.

    Raises
    ------
    OSError
        If there is no such file, the disk has not enough room, or a file changes meanwhile.
    ValueError
        If a file is cut or of another kind, or has other columns than the others.

    Examples
    --------
    >>> path = Path(tempfile.mkdtemp()) / "rows.npy"
    >>> np.save(path, np.eye(3, dtype=np.float32))
    >>> open_rows(path).shape
    torch.Size([3, 3])
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    source = open_source(path)
    if source is None:
        endings = ", ".join((*ROW_FILES, ".npy"))
        raise ValueError(
            f"{path} must be a file that ends in one of {endings}, or a folder of such. Got something else. "
            "dahgnn.tables.table.read_table reads other tables."
        )
    if _can_be_mapped(source):
        # Written to, it would change in memory alone: torch has no tensors that cannot be written to.
        return tensor_of_mapped(np.load(path, mmap_mode="c")).flatten(1)
    with Scratch(folder or tempfile.gettempdir()) as scratch:
        survey = survey_large(source, scratch, choices=Choices(drop=drop, keep=keep))
        return read_large_table(survey, scratch).features


def _can_be_mapped(source: LargeSource) -> bool:
    return isinstance(source, ArrayRows) and source.dtype in (np.dtype("=f4"), np.dtype("=f8"))
