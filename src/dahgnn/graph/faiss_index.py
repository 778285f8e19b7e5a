"""FAISS's indexes over our rows: built the same for the same seed, kept in files, asked for candidates.

Two kinds (Douze et al., The Faiss library, 2024). "ivf" divides the rows into lists around the centres of a
k-means, and searches those lists whose centres are nearest (Sivic and Zisserman, 2003). "hnsw" links each row
to near ones on several levels, and walks along the links (Malkov and Yashunin, 2020). How far either looks is
its effort: the lists that are searched, or the rows that the walk keeps in view.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.files.atomic import replacing
from dahgnn.files.tensors import read_tensors, write_tensors
from dahgnn.graph.choice import CARE, LINKS, LISTS

# Numbers of the features that go to FAISS at a time.
_NUMBERS = 1 << 22
# Rows of a list that k-means learns its centre from. FAISS warns below 39.
_ROWS_A_LIST = 48
# Rows that a walk keeps in view at the most: with more it takes longer than to compare all.
_WIDEST_WALK = 2048

_KIND = "dahgnn search"
_REMEDY = "Remove the folder, and search anew."


def load_faiss() -> ModuleType:
    """Return the library.

    Raises
    ------
    ImportError
        If it is not installed, or cannot be loaded; the message says what to do.
    """
    try:
        import faiss
    except ImportError as error:
        if not isinstance(error, ModuleNotFoundError) or error.name != "faiss":
            raise _broken(error) from error
        raise ModuleNotFoundError(
            "An approximate search for neighbours needs FAISS. Install it with pip install 'dahgnn[large]', "
            "or ask for search='exact', which needs nothing.",
            name="faiss",
        ) from error
    return faiss


def _broken(error: ImportError) -> ImportError:
    """Return the error of a library that is installed, but that the system cannot load."""
    reason = (str(error).strip().splitlines() or ["no reason is given"])[0].rstrip(".")
    return ImportError(
        f"FAISS is installed, but cannot be loaded ({reason}). Install it again with pip install "
        "--force-reinstall faiss-cpu, or ask for search='exact', which needs nothing.",
        name="faiss",
    )


@contextmanager
def _threads(wanted: int | None = None) -> Iterator[ModuleType]:
    """Give FAISS as many threads as torch has, or so many."""
    faiss = load_faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(wanted or torch.get_num_threads())
    try:
        yield faiss
    finally:
        faiss.omp_set_num_threads(before)


@dataclass(frozen=True, eq=False)
class Preparation:
    """What is done to rows before FAISS, which has float32 alone, gets them.

    Attributes
    ----------
    columns : Tensor of int64, (c,)
        Those that are not the same for all rows; the others are part of no distance.
    shift : Tensor of float64, (c,)
        What is subtracted: the mean, because rounding errors grow with the distance from zero.
    scale : float
        A power of two that brings the largest number near one, so that no square is out of range.
    """

    columns: Tensor
    shift: Tensor
    scale: float

    @classmethod
    def of(cls, points: Tensor) -> Preparation:
        """Find what points (n, d) need, a block at a time."""
        low, high = points.amin(0), points.amax(0)
        columns = (high > low).nonzero().squeeze(1)
        if len(columns) == 0:  # all rows are equal
            columns = torch.zeros(1, dtype=torch.int64)
        blocks = points.split(_rows_at_a_time(points))
        total = torch.stack([block[:, columns].double().sum(0) for block in blocks]).sum(0)
        shift = total / len(points)
        reach = torch.maximum(high[columns].double() - shift, shift - low[columns].double())
        largest = float(reach.max())
        return cls(
            columns, shift, math.ldexp(1.0, min(1000, -math.frexp(largest)[1])) if largest > 0 else 1.0
        )

    def apply(self, rows: Tensor) -> NDArray[np.float32]:
        """Return rows (q, d) as FAISS takes them, (q, c)."""
        exact = rows if len(self.columns) == rows.shape[1] else rows[:, self.columns]
        shifted = (exact.double() - self.shift).mul_(self.scale)
        return np.ascontiguousarray(shifted.float().numpy())


class _Kind(Protocol):
    """What differs between the kinds of indexes."""

    def build(self, blocks: _Blocks, seed: int) -> Any:
        """Build an index over the rows of some blocks."""

    def parameters(self, index: Any, count: int, effort: int) -> Any:
        """Return how FAISS searches for so many candidates with an effort."""

    def open(self, path: Path) -> Any:
        """Read an index from a file, most of which stays there."""

    def lowest_effort(self, count: int) -> int:
        """Return the least effort that can give so many candidates."""

    def highest_effort(self, index: Any) -> int:
        """Return the effort beyond which nothing gets better."""

    def describe(self, index: Any, effort: int) -> dict[str, int]:
        """Return the settings by name."""

    def distances(self, index: Any, effort: int) -> float:
        """Return about how many distances are measured for a row."""

    def order(self, index: Any) -> Tensor | None:
        """Return the places of the rows, near ones near each other; None if the index does not know."""


class _Blocks:
    """Those rows that an index holds, as FAISS takes them, a block at a time."""

    def __init__(self, points: Tensor, kept: Tensor | None, preparation: Preparation) -> None:
        self.points, self.kept, self.preparation = points, kept, preparation
        self.count = len(points) if kept is None else len(kept)
        self.width = len(preparation.columns)

    def __iter__(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield the first row's place and the rows of each block."""
        step = _rows_at_a_time(self.points)
        for start in range(0, self.count, step):
            yield start, self.take(slice(start, start + step))

    def take(self, places: Tensor | slice) -> NDArray[np.float32]:
        """Return the rows of some places."""
        rows = self.points[places if self.kept is None else self.kept[places]]
        return self.preparation.apply(rows)

    def sample(self, count: int, seed: int) -> NDArray[np.float32]:
        """Draw so many rows, each at most once."""
        if count >= self.count:
            return self.take(slice(None))
        drawn = np.random.default_rng(seed).choice(self.count, count, replace=False, shuffle=False)
        return self.take(torch.from_numpy(np.sort(drawn)))


class _Ivf:
    def build(self, blocks: _Blocks, seed: int) -> Any:
        lists = max(1, min(int(LISTS * math.sqrt(blocks.count)), blocks.count // _ROWS_A_LIST))
        with _threads() as faiss:
            centres = faiss.IndexFlatL2(blocks.width)
            index = faiss.IndexIVFFlat(centres, blocks.width, lists)
            index.cp.seed = seed % 2**31
            index.cp.min_points_per_centroid = 1
            index.train(blocks.sample(_ROWS_A_LIST * lists, seed))
            owners = np.empty(blocks.count, np.int32)
            for start, rows in blocks:
                owners[start : start + len(rows)] = centres.search(rows, 1)[1].ravel()
            # Lists that grow as they are filled would take up to twice their size. FAISS has no word for
            # making room, but an array that becomes shorter keeps the room that it has.
            for number, size in enumerate(np.bincount(owners, minlength=lists).tolist()):
                index.invlists.resize(number, size)
                index.invlists.resize(number, 0)
            for start, rows in blocks:
                self._add(faiss, index, rows, start, owners)
        return index

    def _add(
        self, faiss: Any, index: Any, rows: NDArray[np.float32], start: int, owners: NDArray[np.int32]
    ) -> None:
        """Append a block of rows to the lists that own them."""
        numbers = np.arange(start, start + len(rows))
        lists = owners[start : start + len(rows)].astype(np.int64)
        index.add_core(len(rows), *(faiss.swig_ptr(each) for each in (rows, numbers, lists)))

    def parameters(self, index: Any, count: int, effort: int) -> Any:  # noqa: ARG002
        return load_faiss().SearchParametersIVF(nprobe=min(effort, index.nlist))

    def open(self, path: Path) -> Any:
        faiss = load_faiss()
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        # FAISS reads each list ahead of its search in 32 threads of their own. That is for slow disks: where
        # the system holds the file in memory already, they take two thirds as long again as the search.
        lists = faiss.downcast_InvertedLists(index.invlists)
        if hasattr(lists, "prefetch_nthread"):
            lists.prefetch_nthread = 0
        return index

    def lowest_effort(self, count: int) -> int:  # noqa: ARG002
        return 1

    def highest_effort(self, index: Any) -> int:
        return int(index.nlist)

    def describe(self, index: Any, effort: int) -> dict[str, int]:
        return {"lists": int(index.nlist), "probes": effort}

    def distances(self, index: Any, effort: int) -> float:
        return float(effort * index.ntotal / index.nlist)

    def order(self, index: Any) -> Tensor | None:
        faiss = load_faiss()
        lists = [
            faiss.rev_swig_ptr(index.invlists.get_ids(number), index.invlists.list_size(number)).copy()
            for number in range(index.nlist)
            if index.invlists.list_size(number)
        ]
        return torch.from_numpy(np.concatenate(lists))


class _Hnsw:
    def build(self, blocks: _Blocks, seed: int) -> Any:
        # With one thread alone it is certain that rows get their links one after the other, so that the same
        # rows give the same links.
        with _threads(1) as faiss:
            index = faiss.IndexHNSWFlat(blocks.width, LINKS)
            index.hnsw.efConstruction = CARE
            index.hnsw.rng = faiss.RandomGenerator(seed % 2**31)
            for _, rows in blocks:
                index.add(rows)
        return index

    def parameters(self, index: Any, count: int, effort: int) -> Any:  # noqa: ARG002
        return load_faiss().SearchParametersHNSW(efSearch=max(effort, count))

    def open(self, path: Path) -> Any:
        faiss = load_faiss()
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)

    def lowest_effort(self, count: int) -> int:
        return count

    def highest_effort(self, index: Any) -> int:
        return int(min(_WIDEST_WALK, index.ntotal))

    def describe(self, index: Any, effort: int) -> dict[str, int]:  # noqa: ARG002
        return {"links": LINKS, "care": CARE, "width": effort}

    def distances(self, index: Any, effort: int) -> float:  # noqa: ARG002
        return float(effort * LINKS)

    def order(self, index: Any) -> Tensor | None:  # noqa: ARG002
        return None


_KINDS: Mapping[str, _Kind] = {"ivf": _Ivf(), "hnsw": _Hnsw()}
KINDS = tuple(_KINDS)


@dataclass(frozen=True, eq=False)
class FaissIndex:
    """An index of one of `KINDS` over rows (n, d).

    Attributes
    ----------
    kind : {"ivf", "hnsw"}
        What FAISS does.
    index : faiss.Index
        FAISS's own value.
    preparation : Preparation
        What is done to rows first.
    kept : Tensor of int64, (m,), or None
        The numbers of the rows that the index holds, if not all.
    order : Tensor of int32 or int64, (n,), or None
        The numbers of all points, near ones near each other. What is done in this order finds in the caches
        what it needs. None if the index does not know.
    """

    kind: str
    index: Any
    preparation: Preparation
    kept: Tensor | None = None
    order: Tensor | None = None

    @classmethod
    def build(cls, kind: str, points: Tensor, kept: Tensor | None, seed: int) -> FaissIndex:
        """Build an index over points (n, d), or over those that are kept."""
        preparation = Preparation.of(points)
        index = _KINDS[kind].build(_Blocks(points, kept, preparation), seed)
        order = _KINDS[kind].order(index)
        return cls(kind, index, preparation, kept, _order_of_all(order, kept, len(points)))

    def candidates(self, rows: Tensor, count: int, effort: int) -> Tensor:
        """Find near points of rows (q, d), (q, count); −1 stands where there are no more."""
        parameters = _KINDS[self.kind].parameters(self.index, count, effort)
        with _threads():
            found = torch.from_numpy(
                self.index.search(self.preparation.apply(rows), count, params=parameters)[1]
            )
        if self.kept is None:
            return found
        return torch.where(found < 0, found, self.kept[found.clamp_min(0)])

    def lowest_effort(self, count: int) -> int:
        """Return the least effort that can give so many candidates."""
        return min(_KINDS[self.kind].lowest_effort(count), self.highest_effort)

    @property
    def highest_effort(self) -> int:
        """The effort beyond which nothing gets better."""
        return _KINDS[self.kind].highest_effort(self.index)

    def describe(self, effort: int) -> dict[str, int]:
        """Return the settings of a search with an effort by name."""
        return _KINDS[self.kind].describe(self.index, effort)

    def distances(self, effort: int) -> float:
        """Return about how many distances are measured for a row."""
        return _KINDS[self.kind].distances(self.index, effort)

    def write(self, folder: Path) -> None:
        """Write the index into two files of a folder, each of them whole.

        Raises
        ------
        OSError
            If the disk is full.
        """
        faiss = load_faiss()
        with replacing(folder / "index.faiss") as temporary:
            try:
                faiss.write_index(self.index, str(temporary))
            except RuntimeError as error:
                full = os.strerror(errno.ENOSPC)
                reason = full if full in str(error) else str(error).splitlines()[0]  # not where FAISS saw it
                raise OSError(
                    f"The index of the neighbours cannot be written to {folder} ({reason}). Is the disk "
                    "full? Remove something, or name another folder."
                ) from error
        tensors = {"columns": self.preparation.columns, "shift": self.preparation.shift}
        if self.kept is not None:
            tensors["kept"] = self.kept
        if self.order is not None:
            tensors["order"] = self.order
        header = {
            "kind": self.kind,
            "scale": self.preparation.scale,
            "size": (folder / "index.faiss").stat().st_size,
        }
        write_tensors(folder / "index.safetensors", _KIND, header, tensors)

    @classmethod
    def open(cls, folder: Path) -> FaissIndex:
        """Open what `write` wrote; the rows stay in the file.

        Raises
        ------
        FileNotFoundError, ValueError
            If a file is missing or cut.
        """
        header, tensors = read_tensors(folder / "index.safetensors", _KIND, _REMEDY)
        path = folder / "index.faiss"
        if not path.is_file() or path.stat().st_size != header["size"]:
            raise ValueError(f"The file {path} must have {header['size']} bytes. {_REMEDY}")
        preparation = Preparation(tensors["columns"], tensors["shift"], header["scale"])
        index = _KINDS[header["kind"]].open(path)
        return cls(header["kind"], index, preparation, tensors.get("kept"), tensors.get("order"))


def _order_of_all(order: Tensor | None, kept: Tensor | None, n: int) -> Tensor | None:
    """Return the order of the rows that an index holds, and behind them those that it does not hold."""
    if order is None:
        return None
    if kept is not None:
        left = torch.ones(n, dtype=torch.bool)
        left[kept] = False
        order = torch.cat([kept[order], left.nonzero().squeeze(1)])
    return order.to(torch.int32) if n < 2**31 else order


def _rows_at_a_time(points: Tensor) -> int:
    return max(1, _NUMBERS // points.shape[1])
