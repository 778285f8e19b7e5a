"""The three image datasets, the CNN and its features."""
