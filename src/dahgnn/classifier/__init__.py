"""The scikit-learn classifier: labels, networks, experts, their combination, explanation, files."""
