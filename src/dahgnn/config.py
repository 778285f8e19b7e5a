"""Settings of the network and of its training; the defaults are the paper's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from dahgnn.checks import (
    MOST_NETWORKS,
    check_choice,
    check_count,
    check_flag,
    check_number,
    check_units,
    did_you_mean,
)

PRECISIONS = ("float32", "bfloat16")
CONVOLUTIONS = ("typed", "printed")
NEIGHBOURHOODS = ("centre", "shared")
SEARCH_NAMES = ("auto", "exact", "ivf", "hnsw")
BACKENDS = ("processes", "ray", "dask")
SCALES = ("none", "auto", "columns", "whole", "words", "categories")


class _Settings:
    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Make settings from a mapping, such as a section of a TOML file.

        Raises
        ------
        ValueError
            If a key is unknown; the message suggests the nearest one.

        Examples
        --------
        >>> TrainingConfig.from_mapping({"learning_rat": 0.1})
        Traceback (most recent call last):
        ValueError: TrainingConfig has no setting 'learning_rat'. Did you mean 'learning_rate'?
        """
        known = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        for key in mapping:
            if key not in known:
                hint = did_you_mean(str(key), known) or f"It has: {', '.join(known)}."
                raise ValueError(f"{cls.__name__} has no setting '{key}'. {hint}")
        return cls(**mapping)


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(_Settings):
    """The switches of an attention layer, section 3.2 of the paper.

    `DensityAwareAttention` takes them one by one and keeps them as this value.

    Parameters
    ----------
    delta : float
        Cosine similarity above which a neighbour counts towards the density, (3).
    density : bool
        False removes the density (the paper's ablation): ρ̃ = 0.
    neighbourhood : {"centre", "shared"}
        Whose similarity makes a node's density: the other members of the hyperedge centred at it, or
        every node that shares a hyperedge with it. A hypergraph without centres has only the latter.
    density_gradient : bool
        Whether the gradient flows through the density. The paper does not say; by default it is a
        constant, because its threshold and its maximum are not smooth.
    final_activation : bool
        Whether the ELU of (11) is applied to the nodes; in a network, to those of its last layer.
    """

    delta: float = 0.4
    density: bool = True
    neighbourhood: str = "centre"
    density_gradient: bool = False
    final_activation: bool = True

    # Whose parameter a wrong value is, for the one who reads the error.
    _owner: ClassVar[str] = "DensityAwareAttention"

    def __post_init__(self) -> None:
        check_number("delta", self.delta, self._owner, low=-1, high=1)
        check_choice("neighbourhood", self.neighbourhood, NEIGHBOURHOODS, self._owner)
        for name in ("density", "density_gradient", "final_activation"):
            check_flag(name, getattr(self, name), self._owner)


@dataclass(frozen=True, kw_only=True)
class _Sizes(_Settings):
    """The sizes of a network, described in `ModelConfig`, which lists them before its switches."""

    hidden: int = 256
    heads: int = 4
    units: int = 8


@dataclass(frozen=True, kw_only=True)
class ModelConfig(AttentionConfig, _Sizes):
    """The network, section 3.2 of the paper; the switches of `AttentionConfig` hold for its attention.

    Parameters
    ----------
    hidden : int
        Units of the hypergraph convolution; the paper has 256 for pixels and 64 for CNN features.
    heads, units : int
        Heads of the first attention layer, and units of each.
    convolution : {"typed", "printed"}
        Whether (1) is named E and (2) X, by the rows they have, or the other way, as printed.
    activation : bool
        Whether an ELU follows the convolution; the paper has none there.
    dropout : float
        Share of units dropped while training, after the convolution and after the first attention layer;
        the paper names none.
    shortcut : bool
        Whether a linear path leads from the convolution to the logits; the paper has none.
    """

    convolution: str = "typed"
    activation: bool = False
    dropout: float = 0.0
    shortcut: bool = False

    _owner: ClassVar[str] = "ModelConfig"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hidden", "heads", "units"):
            check_units(name, getattr(self, name), self._owner)
        check_units("heads × units", self.heads * self.units, self._owner)
        for name in ("activation", "shortcut"):
            check_flag(name, getattr(self, name), self._owner)
        check_number("dropout", self.dropout, self._owner, low=0, high=1)
        check_choice("convolution", self.convolution, CONVOLUTIONS, self._owner)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(_Settings):
    """The schedule, section 4.2 of the paper: Adam, a rate that halves, early stopping.

    Parameters
    ----------
    learning_rate : float
        Adam's first learning rate.
    decay, decay_every : float, int
        The rate is multiplied by ``decay`` after every ``decay_every`` epochs.
    weight_decay : float
        L2 penalty on all weights; the paper names none.
    max_epochs : int
        Updates at the most.
    patience : int
        Stop when the validation loss has not decreased for so many epochs.
    precision : {"float32", "bfloat16"}
        Of the products with the features on a CUDA device. The latter halves their memory and its traffic
        and rounds the features to three digits; sums stay in float32, and so does everything else.
    """

    learning_rate: float = 0.002
    decay: float = 0.5
    decay_every: int = 100
    weight_decay: float = 0.0
    max_epochs: int = 3000
    patience: int = 100
    precision: str = "float32"

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_choice("precision", self.precision, PRECISIONS, owner)
        check_number("learning_rate", self.learning_rate, owner, low=0, open_low=True)
        check_number("decay", self.decay, owner, low=0, high=1, open_low=True)
        check_number("weight_decay", self.weight_decay, owner, low=0)
        for name in ("decay_every", "max_epochs", "patience"):
            check_count(name, getattr(self, name), owner)


@dataclass(frozen=True, kw_only=True)
class ResourceConfig(_Settings):
    """What a fit may use, and which way it goes where there are very many rows.

    Parameters
    ----------
    search : {"auto", "exact", "ivf", "hnsw"}
        What finds neighbours: an exact search, or one of FAISS's indexes. "auto" chooses by the number of
        rows and columns and by the device. Beside given hyperedges it is always an exact one.
    recall : float
        Share of the true neighbours that an approximate search has to find; it is measured on a sample.
    batch : int or "auto"
        Labelled rows of an update, which sees a part of the hypergraph around them; 0 is all of it at once.
        "auto" is 0 if memory allows.
    memory : float, optional
        GiB that the fit may use, together with those ``jobs`` that search on this machine. Of several
        processes that train together each may use so much. By default it is most of what is free, of which
        processes of one machine have equal parts.
    folder : str, optional
        Where arrays go that are too large for memory; by default the system's folder for temporary files.
    jobs : int, optional
        Processes, or workers of a cluster, that search for neighbours. By default one process here, or all
        workers of a cluster.
    backend : {"processes", "ray", "dask"}
        Where these are.
    """

    search: str = "auto"
    recall: float = 0.95
    batch: int | str = "auto"
    memory: float | None = None
    folder: str | None = None
    jobs: int | None = None
    backend: str = "processes"

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_choice("search", self.search, SEARCH_NAMES, owner)
        check_number("recall", self.recall, owner, low=0, high=1, open_low=True)
        if self.batch != "auto":
            check_count("batch", self.batch, owner, low=0)
        if self.memory is not None:
            check_number("memory", self.memory, owner, low=0, open_low=True)
        if self.jobs is not None:
            check_count("jobs", self.jobs, owner)
        check_choice("backend", self.backend, BACKENDS, owner)


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Settings of the network and of its training that belong together.

    Parameters
    ----------
    model, training
        See there.
    networks : int
        How many, from different first weights, have their logits averaged; the paper has one.
    scale : {"none", "auto", "columns", "whole", "words", "categories"}
        What is done to the features first, see `DAHGNNClassifier`; the paper names nothing.
    """

    model: ModelConfig
    training: TrainingConfig
    networks: int = 1
    scale: str = "none"

    def __post_init__(self) -> None:
        check_count("networks", self.networks, type(self).__name__, high=MOST_NETWORKS)
        check_choice("scale", self.scale, SCALES, type(self).__name__)


PRESETS: Mapping[str, Preset] = {
    "paper": Preset(model=ModelConfig(), training=TrainingConfig()),
    # What `DAHGNNClassifier` and `dahgnn fit` take, for any number of labels.
    "default": Preset(
        model=ModelConfig(hidden=64, delta=0.0, activation=True, dropout=0.5, shortcut=True),
        training=TrainingConfig(learning_rate=0.02, decay=1.0, weight_decay=2e-3, max_epochs=28),
        networks=5,
        scale="auto",
    ),
}
