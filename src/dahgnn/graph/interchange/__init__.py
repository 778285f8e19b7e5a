"""Hypergraphs of other libraries and formats: `registry` knows them by name, and has a module for each."""
