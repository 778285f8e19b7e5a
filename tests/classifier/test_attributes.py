"""Attributes of an estimator: those of the last fit stay where the next one fails."""

import pytest
from sklearn.base import BaseEstimator

from dahgnn.classifier.attributes import keeping_last_fit


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_block_that_fails_leaves_what_was_there(error):
    estimator = BaseEstimator()
    estimator.kept_ = 1
    with pytest.raises(error), keeping_last_fit(estimator):
        estimator.kept_, estimator.new_ = 2, 3
        raise error
    assert vars(estimator) == {"kept_": 1}


def test_a_block_that_ends_leaves_what_is_new():
    estimator = BaseEstimator()
    estimator.kept_ = 1
    with keeping_last_fit(estimator):
        estimator.kept_, estimator.new_ = 2, 3
    assert vars(estimator) == {"kept_": 2, "new_": 3}
