"""Experiments: specs in, run lines out."""
