"""What the parameters of a classifier ask for: checked, and in the terms of those who do the work."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from torch import Tensor

from dahgnn.checks import bad_type, bad_value, check_choice, check_count, check_device, check_flag
from dahgnn.classifier.plan import BATCH, Plan, make_plan
from dahgnn.classifier.stages import count_networks
from dahgnn.config import PRESETS, SCALES, ModelConfig, ResourceConfig, TrainingConfig
from dahgnn.distributed import own_device, share
from dahgnn.files.tensors import tensors_digest
from dahgnn.graph.local_scale import METRICS
from dahgnn.world import World

_OWNER = "DAHGNNClassifier"
_PRESET = PRESETS["default"]
# These do not change what a fit gives, or the digest has what comes of them, or checkpoints have it.
_BESIDE = frozenset({"device", "n_jobs", "verbose", "random_state", "warm_start", "resources"})


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of a `DAHGNNClassifier`, checked as far as they can be without rows.

    Attributes
    ----------
    values : mapping
        What the user has given, by name.
    """

    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        values = self.values
        check_flag("warm_start", values["warm_start"], _OWNER)
        if not isinstance(values["verbose"], bool):
            check_count("verbose", values["verbose"], _OWNER, low=0)
        check_count("k", values["k"], _OWNER)
        check_choice("metric", values["metric"], tuple(METRICS), _OWNER)
        check_choice("scale", values["scale"], SCALES, _OWNER)
        count_networks(values["networks"], 1)
        if values["n_jobs"] is not None:
            check_count("n_jobs", values["n_jobs"], _OWNER, low=-(2**31))
            if values["n_jobs"] == 0:
                raise bad_value("n_jobs", _OWNER, "a number of threads, or -1 for all cores", 0)
        for name, kind in (
            ("model", ModelConfig),
            ("training", TrainingConfig),
            ("resources", ResourceConfig),
        ):
            if values[name] is not None and not isinstance(values[name], kind):
                got = type(values[name]).__name__
                raise bad_type(name, _OWNER, f"a {kind.__name__} or None", got)

    @classmethod
    def of(cls, classifier: BaseEstimator) -> Parameters:
        """Return those of a classifier."""
        return cls(classifier.get_params(deep=False))

    @property
    def model(self) -> ModelConfig:
        """The settings of the networks."""
        return self.values["model"] or _PRESET.model

    @property
    def training(self) -> TrainingConfig:
        """The settings of their training."""
        return self.values["training"] or _PRESET.training

    @property
    def device(self) -> torch.device:
        """Where this process trains; there must be such a device."""
        if self.values["device"] == "auto":
            return own_device("cuda" if torch.cuda.is_available() else "cpu")
        return own_device(check_device(self.values["device"], _OWNER))

    @property
    def threads(self) -> int | None:
        """How many threads ``n_jobs`` asks for, if any; −1 are all cores, −2 all but one."""
        cores, wanted = os.cpu_count() or 1, self.values["n_jobs"]
        if wanted is None:
            return None
        return min(int(wanted), cores) if wanted > 0 else max(1, cores + 1 + int(wanted))

    @property
    def refit(self) -> bool:
        """Whether held-out labels are learned from in the end; rows that are named judge alone."""
        return np.ndim(self.values["validation"]) == 0

    def count_neighbours(self, n: int) -> int:
        """Return how many neighbours each of n rows gets: never more than a quarter of the rows."""
        return min(int(self.values["k"]), max(1, n // 4))

    def count_networks(self, n: int) -> int:
        """Return how many networks a fit of n rows trains."""
        return count_networks(self.values["networks"], n)

    def plan(
        self, n: int, d: int, n_classes: int, labels: int, world: World, known: str | None = None
    ) -> Plan:
        """Choose which way a fit goes, the same in all processes."""
        plan = self.plan_for(n, d, n_classes, labels, world.size, known)
        # Free memory and devices may differ, but all processes must go the same way.
        return replace(share(world, plan), device=plan.device)

    def plan_for(
        self, n: int, d: int, n_classes: int, labels: int, processes: int, known: str | None = None
    ) -> Plan:
        """Choose which way a fit in so many processes goes, without a word with the others.

        Several processes have nothing to share but batches.
        """
        resources = self.values["resources"] or ResourceConfig()
        if processes > 1 and resources.batch == "auto":
            resources = replace(resources, batch=BATCH)
        k, networks = self.count_neighbours(n), self.count_networks(n)
        return make_plan(n, d, n_classes, k, resources, self.device, networks, labels, known)

    def digest(self, labels: Tensor, sample_weight: ArrayLike | None, plan: Plan) -> str:
        """Name the labels and all that changes a fit; of resources it is what comes of them."""
        chosen = {name: value for name, value in self.values.items() if name not in _BESIDE}
        chosen |= {"search": plan.search, "recall": plan.resources.recall, "batch": plan.batch}
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64).tobytes()
        content = f"{sorted(chosen.items())} {tensors_digest({'labels': labels})} {weights!r}"
        return hashlib.sha256(content.encode()).hexdigest()[:16]
