"""Complete the labels of a CSV file, then label the rows of another one.

The file has numbers, a column of text, missing cells, and a label in one row of five. `read_table` turns all
that into features, and remembers how, so that a second file is read in the same way.
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import accuracy_score

from dahgnn import DAHGNNClassifier
from dahgnn.tables.table import read_table


def write_wines(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Write wines.csv and new_wines.csv; return the true growers of both."""
    wines = load_wine(as_frame=True).frame.sample(frac=1, random_state=0, ignore_index=True)
    growers = "grower " + (wines.pop("target") + 1).astype(str)
    strong = wines["alcohol"] > 13
    wines = wines.mask(np.random.default_rng(0).random(wines.shape) < 0.05)  # missing cells
    wines["strength"] = strong.map({True: "strong", False: "light"})
    wines["grower"] = growers.where(wines.index % 5 == 0)
    wines[:150].to_csv(folder / "wines.csv", index=False)
    wines[150:].drop(columns="grower").to_csv(folder / "new_wines.csv", index=False)
    return growers[:150].to_numpy(), growers[150:].to_numpy()


with tempfile.TemporaryDirectory() as name:
    growers, new_growers = write_wines(Path(name))

    table = read_table(Path(name) / "wines.csv", label="grower")
    print(*table.notes, sep="\n")
    classifier = DAHGNNClassifier(random_state=0).fit(table.features, table.labels)
    new = read_table(Path(name) / "new_wines.csv", columns=table.columns)

rest = [row for row, label in enumerate(table.labels) if label is None]
found = classifier.transduction_[rest]
print(f"Accuracy of {len(rest)} unlabelled wines: {accuracy_score(growers[rest], found):.1%}")
print(
    f"Accuracy of {len(new.ids)} new wines: "
    f"{accuracy_score(new_growers, classifier.predict(new.features)):.1%}"
)
print("row", *classifier.classes_, sep="  ")
for row, probabilities in zip(new.ids[:3], classifier.predict_proba(new.features[:3]), strict=True):
    print(f"{row:>3}", *(f"{probability:8.1%}" for probability in probabilities), sep="  ")
