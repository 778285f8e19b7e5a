"""Sums and softmax over incidences; the one place that picks a kernel."""
