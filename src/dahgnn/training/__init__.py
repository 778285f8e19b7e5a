"""Splits, training loops, `fit` and `fit_many`."""
