"""Density-aware hypergraph neural networks: labels for the rest of your feature vectors."""

from dahgnn._version import __version__
from dahgnn.baselines import HGNN
from dahgnn.config import PRESETS, ModelConfig, TrainingConfig
from dahgnn.hypergraph import Hypergraph
from dahgnn.layers import DensityAwareAttention, HypergraphConvolution
from dahgnn.model import DAHGNN
from dahgnn.persistence import load_model, save_model
from dahgnn.splits import Split, split_per_class
from dahgnn.training import FitResult, fit, fit_many

__all__ = [
    "DAHGNN",
    "HGNN",
    "PRESETS",
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
