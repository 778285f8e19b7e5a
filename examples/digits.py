"""Label handwritten digits of which few are labelled.

Of 1,297 digits, 20 of each class have a label. The classifier labels the rest of them, and then 500 digits
that it has never seen.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split

from dahgnn import DAHGNNClassifier
from dahgnn.training.splits import sample_per_class

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=500, random_state=0)
labelled = sample_per_class(y, 20, seed=0)
partly = np.full_like(y, -1)  # -1 means unlabelled
partly[labelled] = y[labelled]

classifier = DAHGNNClassifier(random_state=0).fit(X, partly)

rest = partly == -1
stated = classifier.estimate_
print(f"Labels known: {len(labelled)} of {len(y)}")
print(f"It expects {stated.accuracy:.1%} to be right, {stated.low:.1%} to {stated.high:.1%}")
print(f"Accuracy of the other {rest.sum()}: {accuracy_score(y[rest], classifier.transduction_[rest]):.1%}")
print(f"Accuracy of {len(y_new)} new digits: {accuracy_score(y_new, classifier.predict(X_new)):.1%}")
