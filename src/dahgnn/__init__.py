"""Density-aware hypergraph neural networks: labels for the rest of your feature vectors."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# The threads of an epoch often wait for each other, and spin meanwhile. Where another program has one of the
# cores, that made an epoch 14 times as long; a short spin costs 6 % where none has. OpenMP reads it when
# torch is first imported, so it is set before.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

from dahgnn._version import __version__

if TYPE_CHECKING:
    from dahgnn.classifier.cross_validation import LabelledKFold, labelled_scorer
    from dahgnn.classifier.estimator import DAHGNNClassifier
    from dahgnn.classifier.saving import load_classifier, save_classifier
    from dahgnn.config import PRESETS, ModelConfig, ResourceConfig, TrainingConfig
    from dahgnn.graph.hypergraph import Hypergraph
    from dahgnn.graph.interchange.registry import export_hypergraph, import_hypergraph
    from dahgnn.nn.hgnn import HGNN
    from dahgnn.nn.layers import DensityAwareAttention, HypergraphConvolution
    from dahgnn.nn.model import DAHGNN
    from dahgnn.nn.pyg_convolution import HypergraphConv
    from dahgnn.nn.saving import load_model, save_model
    from dahgnn.tables.opening import open_rows
    from dahgnn.training.fit import FitResult, fit, fit_many, fit_request
    from dahgnn.training.inputs import FitRequest
    from dahgnn.training.splits import Split, split_per_class

__all__ = [
    "DAHGNN",
    "HGNN",
    "PRESETS",
    "DAHGNNClassifier",
    "DensityAwareAttention",
    "FitRequest",
    "FitResult",
    "Hypergraph",
    "HypergraphConv",
    "HypergraphConvolution",
    "LabelledKFold",
    "ModelConfig",
    "ResourceConfig",
    "Split",
    "TrainingConfig",
    "__version__",
    "export_hypergraph",
    "fit",
    "fit_many",
    "fit_request",
    "import_hypergraph",
    "labelled_scorer",
    "load_classifier",
    "load_model",
    "open_rows",
    "save_classifier",
    "save_model",
    "split_per_class",
]

_MODULES = {
    "DAHGNN": "nn.model",
    "DAHGNNClassifier": "classifier.estimator",
    "DensityAwareAttention": "nn.layers",
    "FitRequest": "training.inputs",
    "FitResult": "training.fit",
    "HGNN": "nn.hgnn",
    "Hypergraph": "graph.hypergraph",
    "HypergraphConv": "nn.pyg_convolution",
    "HypergraphConvolution": "nn.layers",
    "LabelledKFold": "classifier.cross_validation",
    "ModelConfig": "config",
    "PRESETS": "config",
    "ResourceConfig": "config",
    "Split": "training.splits",
    "TrainingConfig": "config",
    "export_hypergraph": "graph.interchange.registry",
    "fit": "training.fit",
    "fit_many": "training.fit",
    "fit_request": "training.fit",
    "import_hypergraph": "graph.interchange.registry",
    "labelled_scorer": "classifier.cross_validation",
    "load_classifier": "classifier.saving",
    "load_model": "nn.saving",
    "open_rows": "tables.opening",
    "save_classifier": "classifier.saving",
    "save_model": "nn.saving",
    "split_per_class": "training.splits",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that ``dahgnn --help`` need not wait for torch and scikit-learn."""
    if name in _MODULES:
        return getattr(import_module(f"dahgnn.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'dahgnn' has no attribute '{name}'")


def __dir__() -> list[str]:
    """List what the package exports."""
    return sorted({*globals(), *__all__})
