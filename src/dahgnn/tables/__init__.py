"""Read users' files as tables of features, labels and ids."""
