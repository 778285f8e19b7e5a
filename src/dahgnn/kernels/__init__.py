"""Compiled kernels, and the form in which they take incidences."""
