"""Lines as `dahgnn bench` writes them, of an epoch and of fits."""

LINE = {
    "nodes": 1000, "method": "floor", "milliseconds": 2.0, "memory": None, "problem": None, "others": None,
    "times_ours": None, "times_floor": 1.0, "data": "random", "repeats": 3, "device": "2 CPU threads",
    "machine": {"bandwidth": 3e10, "rate": 1.5e11}, "versions": {"torch": "2.11", "dhg": None},
}  # fmt: skip

FIT_LINE = {
    "nodes": 1000, "method": "DAHGNNClassifier, ours", "seconds": 6.0, "predict_seconds": 0.5, "accuracy": 0.952,
    "new_accuracy": 0.941, "times_default": 1.0, "times_label_spreading": 3.0, "problem": None, "others": None, "trials": [5.0, 6.0, 7.0],
    "data": "random", "repeats": 3, "labels": 20, "networks": 5, "epochs": 42,
    "size": {"columns": 784, "new_rows": 800}, "device": "2 CPU threads", "versions": {"torch": "2.11"},
}  # fmt: skip
