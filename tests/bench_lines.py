"""A line as `dahgnn bench` writes it."""

LINE = {
    "nodes": 1000, "method": "floor", "milliseconds": 2.0, "memory": None, "problem": None, "others": None,
    "times_ours": None, "times_floor": 1.0, "data": "random", "repeats": 3, "device": "2 CPU threads",
    "machine": {"bandwidth": 3e10, "rate": 1.5e11}, "versions": {"torch": "2.11", "dhg": None},
}  # fmt: skip
