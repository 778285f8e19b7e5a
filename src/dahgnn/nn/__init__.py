"""Density, messages, layers, networks, and networks in files."""
