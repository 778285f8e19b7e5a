"""The scikit-learn classifier: labels, calibration, explanation, classifiers in files."""
