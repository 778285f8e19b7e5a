"""Density-aware hypergraph neural networks: labels for the rest of your feature vectors."""

from typing import TYPE_CHECKING, Any

from dahgnn._version import __version__
from dahgnn.baselines import HGNN
from dahgnn.config import PRESETS, ModelConfig, TrainingConfig
from dahgnn.hypergraph import Hypergraph
from dahgnn.layers import DensityAwareAttention, HypergraphConvolution
from dahgnn.model import DAHGNN
from dahgnn.persistence import load_model, save_model
from dahgnn.splits import Split, split_per_class
from dahgnn.training import FitResult, fit, fit_many

if TYPE_CHECKING:
    from dahgnn.estimator import DAHGNNClassifier

__all__ = [
    "DAHGNN",
    "HGNN",
    "PRESETS",
    "DAHGNNClassifier",
    "DensityAwareAttention",
    "FitResult",
    "Hypergraph",
    "HypergraphConvolution",
    "ModelConfig",
    "Split",
    "TrainingConfig",
    "__version__",
    "fit",
    "fit_many",
    "load_model",
    "save_model",
    "split_per_class",
]


def __getattr__(name: str) -> Any:
    """Import the estimator when it is asked for: scikit-learn takes a second, which the rest need not pay."""
    if name == "DAHGNNClassifier":
        from dahgnn.estimator import DAHGNNClassifier

        return DAHGNNClassifier
    raise AttributeError(f"module 'dahgnn' has no attribute '{name}'")
