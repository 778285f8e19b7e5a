"""scikit-learn's own checks of estimators."""

from dataclasses import replace

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dahgnn import DAHGNNClassifier
from dahgnn.config import PRESETS

# Impossible by what the estimator is, and why.
IMPOSSIBLE = {
    "check_classifiers_classes": "it has -1 as a class, which marks unlabelled rows here",
    "check_sample_weight_equivalence_on_dense_data": "a row that comes twice is a neighbour of itself: the "
    "hypergraph is another one, so that weights and repetitions differ",
    "check_sample_weight_equivalence_on_sparse_data": "likewise",
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [DAHGNNClassifier(training=replace(PRESETS["default"].training, max_epochs=16), networks=2)],
    expected_failed_checks=lambda _: IMPOSSIBLE,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
