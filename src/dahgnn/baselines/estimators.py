"""Classifiers of scikit-learn to compare with, by the names that specs call them.

They get the training nodes alone and choose nothing by the validation nodes. What a spec does not say is
scikit-learn's default.
"""

from __future__ import annotations

from typing import Any

from dahgnn.baselines.registry import register_estimator


def _logistic_regression() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


register_estimator("RandomForest", "sklearn.ensemble.RandomForestClassifier")
register_estimator("SVC", "sklearn.svm.SVC")
register_estimator("KNeighbors", "sklearn.neighbors.KNeighborsClassifier")
register_estimator("HistGradientBoosting", "sklearn.ensemble.HistGradientBoostingClassifier")
register_estimator(
    "SelfTraining",
    "sklearn.semi_supervised.SelfTrainingClassifier",
    takes_unlabelled=True,
    defaults={"estimator": _logistic_regression},
)
