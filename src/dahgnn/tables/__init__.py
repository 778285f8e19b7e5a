"""Users' files as tables of features, labels and names."""
