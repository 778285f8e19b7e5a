"""A folder that keeps a search for neighbours: what is searched, the index, and the shards that are done.

Every file in it is written whole. A search that was ended goes on with the shards that are missing, and one
of other rows or with other settings is refused.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dahgnn.files.atomic import replacing
from dahgnn.files.json_files import read_json
from dahgnn.files.tensors import read_tensors, write_tensors
from dahgnn.graph.nearest import Neighbors
from dahgnn.graph.recall import SearchReport

_KIND = "dahgnn neighbours"
# Numbers of the features that are written at a time.
_NUMBERS = 1 << 22
# Rows up to which a number of a row takes four bytes.
_MANY = 2**31


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a search is of; two searches of the same plan find the same.

    Attributes
    ----------
    rows : str
        The digest of the features.
    n_rows, n_columns : int
        Their shape.
    neighbours : int
        How many of each row are found.
    shard : int
        Rows of a shard.
    search : str
        What was asked for.
    recall : float
        Least share of the true neighbours.
    seed : int
        The seed.
    """

    rows: str
    n_rows: int
    n_columns: int
    neighbours: int
    shard: int
    search: str
    recall: float
    seed: int

    @property
    def n_shards(self) -> int:
        """How many shards there are."""
        return -(-self.n_rows // self.shard)

    def numbers(self, shard: int, order: Tensor | None = None) -> Tensor:
        """Return the numbers of the rows of a shard, whose rows follow each other in an order (n,)."""
        first, last = shard * self.shard, min((shard + 1) * self.shard, self.n_rows)
        return torch.arange(first, last) if order is None else order[first:last].long()


@dataclass(frozen=True)
class Chosen:
    """How the neighbours are searched.

    Attributes
    ----------
    report : SearchReport
        What it reaches.
    effort : int
        How far the index looks; 0 for an exact search.
    scale : float
        The power of two that distances are measured with.
    """

    report: SearchReport
    effort: int = 0
    scale: float = 1.0


@dataclass(frozen=True)
class SearchFolder:
    """The files of a search.

    Attributes
    ----------
    path : Path
        Where they are.
    plan : Plan
        What the search is of.
    """

    path: Path
    plan: Plan

    def read_choice(self) -> Chosen | None:
        """Return how an earlier search of the same plan was done, or None if there is none.

        Raises
        ------
        ValueError
            If there was a search of another plan.
        """
        if not (self.path / "search.json").exists():
            return None
        content = read_json(self.path / "search.json")
        try:
            self._check(content["plan"])
            report = SearchReport(**content["report"])
            return Chosen(report, int(content["effort"]), float(content["scale"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"The file search.json of {self.path} is no search. {_way_out()}") from error

    def _check(self, plan: Mapping[str, Any]) -> None:
        """Refuse the files of another search."""
        wanted = dataclasses.asdict(self.plan)
        if plan["rows"] != wanted["rows"]:
            got = f"one of other rows, {plan['n_rows']:,} of {plan['n_columns']:,} numbers"
        else:
            other = [name for name in wanted if plan.get(name) != wanted[name]]
            if not other:
                return
            got = "one with " + ", ".join(f"{name} = {plan.get(name)}" for name in other)
        raise ValueError(
            f"The folder {self.path} must hold a search of the same rows with the same settings. Got {got}. "
            f"{_way_out()}"
        )

    def write_choice(self, chosen: Chosen) -> None:
        """Keep how the search is done; before it is kept, no shard counts."""
        content = {
            "plan": dataclasses.asdict(self.plan),
            "report": dataclasses.asdict(chosen.report),
            "effort": chosen.effort,
            "scale": chosen.scale,
        }
        with replacing(self.path / "search.json") as temporary:
            temporary.write_text(json.dumps(content, indent=1))

    def write_shard(self, number: int, found: Neighbors) -> None:
        """Write the neighbours of a shard's rows."""
        narrow = torch.int32 if self.plan.n_rows < _MANY else torch.int64
        tensors = {"indices": found.indices.to(narrow), "distances": found.distances}
        write_tensors(self._shard(number), _KIND, {"rows": self.plan.rows, "shard": number}, tensors)

    def read_shard(self, number: int) -> Neighbors:
        """Return the neighbours of a shard's rows.

        Raises
        ------
        FileNotFoundError, ValueError
            If the shard is missing, cut, or one of another search.
        """
        header, tensors = read_tensors(self._shard(number), _KIND, "It is searched anew.")
        shape = (len(self.plan.numbers(number)), self.plan.neighbours)
        if header != {"rows": self.plan.rows, "shard": number} or tensors["indices"].shape != shape:
            raise ValueError(f"The file {self._shard(number)} is of another search. {_way_out()}")
        return Neighbors(tensors["indices"].long(), tensors["distances"])

    def missing(self) -> list[int]:
        """Return the numbers of the shards that are not there, or not whole."""
        return [number for number in range(self.plan.n_shards) if not self.is_whole(number)]

    def is_whole(self, number: int) -> bool:
        """Tell whether a shard is there, and all of it."""
        try:
            self.read_shard(number)
        except (FileNotFoundError, ValueError):
            return False
        return True

    def _shard(self, number: int) -> Path:
        return self.path / f"shard-{number:05d}.safetensors"

    def write_features(self, features: Tensor) -> None:
        """Write the features (n, d) for workers that cannot see this process's memory."""
        path = self.path / "features.npy"
        if (
            path.exists() and path.stat().st_size >= features.nbytes
        ):  # written whole, and the plan is the same
            return
        with replacing(path) as temporary:
            try:
                _write_npy(temporary, features)
            except OSError as error:  # a full disk, say
                raise OSError(error.errno, error.strerror, str(path)) from error

    def open_features(self) -> Tensor:
        """Return what `write_features` wrote; it stays in the file."""
        # Copy on write: torch has no tensors that only can be read.
        return torch.from_numpy(np.load(self.path / "features.npy", mmap_mode="c"))


def _write_npy(path: Path, features: Tensor) -> None:
    """Write features (n, d) as NumPy does, some at a time."""
    with path.open("wb") as file:
        first = features[:1].numpy()
        header = np.lib.format.header_data_from_array_1_0(first) | {"shape": tuple(features.shape)}
        np.lib.format.write_array_header_1_0(file, header)
        for block in features.split(max(1, _NUMBERS // features.shape[1])):
            # Not by NumPy's `tofile`, whose errors do not tell what is wrong.
            file.write(np.ascontiguousarray(block.numpy()).data)


def _way_out() -> str:
    return "Remove the folder, or name another one."
