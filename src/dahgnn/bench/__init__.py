"""Measurements beside peers and beside the least time there can be."""
