"""Calls of the classifier with arrays and labels that nobody expects."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np

from hostile.children import run_child
from hostile.trial import DemandError, Trial, judge

Arrays = tuple[np.ndarray, np.ndarray]
Call = Callable[[np.random.Generator], None]


class Colour(Enum):
    """Labels that are members of an enumeration."""

    RED = 1
    GREEN = 2
    BLUE = 3


def odd_call(trial: Trial) -> None:
    """Make one call in a child: it gives what is right, or is refused by a sentence."""
    name = trial.in_turn(list(CALLS))
    trial.tell(name)

    def work() -> None:
        print(json.dumps(_attempt(CALLS[name], trial.random)))

    ended = run_child(work, trial.folder)
    judge(ended)
    said = json.loads(ended.out.splitlines()[-1])
    trial.outcome = said["outcome"]
    trial.demand(not said["sort"], said["sort"], said["text"])


def _attempt(call: Call, random: np.random.Generator) -> dict[str, str]:
    """Make a call, and say how it ended; only ValueError and TypeError are refusals."""
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            call(random)
    except DemandError as failure:
        return {"outcome": "failed", "sort": failure.sort, "text": failure.text}
    except (ValueError, TypeError) as error:
        short = "" if len(str(error).split()) >= 4 else "no words"
        return {"outcome": "refused", "sort": short, "text": f"{type(error).__name__}: {error}"}
    except Exception as error:  # noqa: BLE001, this is what is looked for
        return {
            "outcome": "failed",
            "sort": "exception",
            "text": f"{type(error).__name__}: {str(error)[:400]}",
        }
    numeric = [str(each.message) for each in heard if issubclass(each.category, RuntimeWarning)]
    return {"outcome": "ok", "sort": "numpy warning" if numeric else "", "text": "; ".join(numeric)[:400]}


def _demand(holds: object, text: str) -> None:
    if not holds:
        raise DemandError("wrong result", text)


def _arrays(random: np.random.Generator, n: int = 36) -> Arrays:
    """Return rows of small whole numbers, which every type of number holds exactly, and labels."""
    truth = np.arange(n) % 3
    X = np.rint(20 * random.normal(size=(3, 4))[truth] + 4 * random.normal(size=(n, 4)))
    return np.clip(X, -60, 60), np.where(np.arange(n) < 24, truth, -1)


def _fitted(X: Any, y: Any, **settings: Any) -> Any:
    from dahgnn import DAHGNNClassifier

    return DAHGNNClassifier(networks=1, random_state=0, device="cpu", **settings).fit(X, y)


def _demand_sound(classifier: Any, X: Any, n: int) -> np.ndarray:
    """Demand that predictions are classes and probabilities sum to one; return the probabilities."""
    found = np.asarray(classifier.predict_proba(X))
    _demand(found.shape == (n, len(classifier.classes_)), f"probabilities of shape {found.shape}")
    _demand(np.isfinite(found).all() and np.allclose(found.sum(1), 1), "probabilities do not sum to one")
    _demand(np.allclose(np.exp(classifier.predict_log_proba(X)), found), "log probabilities are others")
    _demand(
        set(np.asarray(classifier.predict(X)).tolist()) <= set(classifier.classes_.tolist()), "no such class"
    )
    return found


def _same_rows(change: Callable[[np.ndarray], Any], exact: bool = True) -> Call:
    """Return a call with the same numbers in another array; the probabilities must be the same."""

    def call(random: np.random.Generator) -> None:
        X, y = _arrays(random)
        expected = _demand_sound(_fitted(X, y), X, len(X))
        found = _demand_sound(_fitted(change(X), y), change(X), len(X))
        same = np.array_equal(found, expected) if exact else np.allclose(found, expected, atol=1e-3)
        _demand(same, f"other probabilities, by {np.abs(found - expected).max():.2g}")

    return call


def _odd_rows(change: Callable[[np.ndarray, np.random.Generator], Any]) -> Call:
    """Return a call with rows that may be refused, or must give something sound."""

    def call(random: np.random.Generator) -> None:
        X, y = _arrays(random)
        odd = change(X, random)
        classifier = _fitted(odd, y[: len(odd)] if hasattr(odd, "__len__") else y)
        _demand_sound(classifier, odd, len(classifier.transduction_))

    return call


def _odd_labels(values: tuple[Any, Any, Any], nothing: Any = None, refusable: bool = False) -> Call:
    """Return a call with labels of another type: they come back as they were given."""

    def call(random: np.random.Generator) -> None:
        X, y = _arrays(random)
        given = np.empty(len(y), dtype=object)
        given[:] = [nothing if each < 0 else values[each] for each in y]
        try:
            classifier = _fitted(X, given)
        except (TypeError, ValueError) as error:
            _demand(refusable, f"refused: {error}")
            raise
        found = classifier.predict(X)
        kinds = {type(each) for each in found.tolist()}
        _demand(kinds <= {type(value) for value in values}, f"labels of the types {kinds} came back")
        _demand(all(each in values for each in found.tolist()), f"labels {set(map(str, found))} came back")
        right = np.mean([one == values[k] for one, k in zip(found, np.arange(len(y)) % 3, strict=True)])
        _demand(right > 0.7, f"only {right:.0%} are right")

    return call


def _integer_labels(dtype: str) -> Call:
    def call(random: np.random.Generator) -> None:
        X, y = _arrays(random)
        import pandas as pd

        given = pd.array([None if each < 0 else int(each) for each in y], dtype=dtype)
        classifier = _fitted(X, given)
        kinds = {type(each) for each in classifier.predict(X).tolist()}
        _demand(kinds == {int}, f"{dtype} labels come back as {kinds}")

    return call


def _weights(change: Callable[[np.ndarray], Any]) -> Call:
    def call(random: np.random.Generator) -> None:
        from dahgnn import DAHGNNClassifier

        X, y = _arrays(random)
        classifier = DAHGNNClassifier(networks=1, random_state=0, device="cpu")
        classifier.fit(X, y, sample_weight=change(np.ones(len(y))))
        _demand_sound(classifier, X, len(X))

    return call


def _settings(**settings: Any) -> Call:
    def call(random: np.random.Generator) -> None:
        X, y = _arrays(random)
        _demand_sound(_fitted(X, y, **settings), X, len(X))

    return call


def _scaled(power: int) -> Call:
    """Return a call with all numbers times a power of ten: as easy as before."""

    def call(random: np.random.Generator) -> None:
        X, y = _arrays(random)
        truth = np.arange(len(y)) % 3
        plain, scaled = (np.mean(_fitted(rows, y).transduction_ == truth) for rows in (X, X * 10.0**power))
        _demand(scaled > plain - 0.15, f"times 1e{power}: {scaled:.0%} right instead of {plain:.0%}")

    return call


def _untouched(random: np.random.Generator) -> None:
    X, y = _arrays(random)
    kept, state = (X.copy(), y.copy()), np.random.get_state()[1].copy()  # noqa: NPY002, it must stay as it is
    _fitted(X, y).predict(X)
    _demand(np.array_equal(X, kept[0]) and np.array_equal(y, kept[1]), "fit changed its arrays")
    _demand(np.array_equal(state, np.random.get_state()[1]), "fit changed NumPy's random state")  # noqa: NPY002


def _kept_by_copies(random: np.random.Generator) -> None:
    X, y = _arrays(random)
    classifier = _fitted(X, y)
    expected = classifier.predict_proba(X)
    for other in (pickle.loads(pickle.dumps(classifier)), copy.deepcopy(classifier)):  # noqa: S301, our own
        _demand(np.array_equal(other.predict_proba(X), expected), "a copy predicts otherwise")


def _not_fitted(random: np.random.Generator) -> None:
    from dahgnn import DAHGNNClassifier

    DAHGNNClassifier().predict(_arrays(random)[0])


def _other_width(random: np.random.Generator) -> None:
    X, y = _arrays(random)
    _fitted(X, y).predict(X[:, :2])


def _hostile_new_rows(random: np.random.Generator) -> None:
    X, y = _arrays(random)
    new = X[:4].copy()
    new[1, 1] = random.choice([np.nan, np.inf, 1e308, -1e308, 1e39])
    _demand_sound(_fitted(X, y), new, 4)


def _no_new_rows(random: np.random.Generator) -> None:
    X, y = _arrays(random)
    _fitted(X, y).predict(X[:0])


def _order_of_new_rows(random: np.random.Generator) -> None:
    X, y = _arrays(random)
    classifier, order = _fitted(X, y), random.permutation(len(X))
    found, again = classifier.predict_proba(X[order]), classifier.predict_proba(X)[order]
    _demand(np.allclose(found, again, atol=1e-5), "the order of new rows changes their probabilities")


def _with_one(value: float) -> Call:
    def change(X: np.ndarray, random: np.random.Generator) -> np.ndarray:
        X[int(random.integers(len(X))), 1] = value
        return X

    return _odd_rows(change)


def _sparse(X: np.ndarray) -> Any:
    from scipy.sparse import csr_array

    return csr_array(X)


def _frame(X: np.ndarray) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=list("abcd"))


def _tensor(X: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(X)


def _read_only(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X.setflags(write=False)
    return X


def _masked(X: np.ndarray, _: np.random.Generator) -> Any:
    return np.ma.masked_array(X, mask=X.mean() < X)


def _labels_call(change: Callable[[np.ndarray], Any]) -> Call:
    def call(random: np.random.Generator) -> None:
        X, y = _arrays(random)
        _demand_sound(_fitted(X, change(y)), X, len(X))

    return call


CALLS: dict[str, Call] = {
    "float32": _same_rows(lambda X: X.astype(np.float32)),
    "int8": _same_rows(lambda X: X.astype(np.int8)),
    "longdouble": _same_rows(lambda X: X.astype(np.longdouble)),
    "big endian": _same_rows(lambda X: X.astype(">f8")),
    "Fortran order": _same_rows(np.asfortranarray),
    "every other column": _same_rows(lambda X: np.repeat(X, 2, axis=1)[:, ::2]),
    "backwards in memory": _same_rows(lambda X: X[::-1].copy()[::-1]),
    "read only": _same_rows(_read_only),
    "lists": _same_rows(lambda X: X.tolist()),
    "a frame": _same_rows(_frame),
    "a tensor": _same_rows(_tensor),
    "objects": _same_rows(lambda X: X.astype(object)),
    "sparse": _odd_rows(lambda X, _: _sparse(X)),
    "masked": _odd_rows(_masked),
    "complex": _odd_rows(lambda X, _: X.astype(complex)),
    "texts": _odd_rows(lambda X, _: X.astype(str)),
    "dates": _odd_rows(lambda X, _: X.astype("datetime64[s]")),
    "one dimension": _odd_rows(lambda X, _: X[:, 0]),
    "three dimensions": _odd_rows(lambda X, _: X[:, :, None]),
    "no rows": _odd_rows(lambda X, _: X[:0]),
    "no columns": _odd_rows(lambda X, _: X[:, :0]),
    "one column": _odd_rows(lambda X, _: X[:, :1]),
    "one row": _odd_rows(lambda X, _: X[:1]),
    "two rows": _odd_rows(lambda X, _: X[:2]),
    "all rows alike": _odd_rows(lambda X, _: np.ones_like(X)),
    "None": _odd_rows(lambda _, __: None),
    "a number": _odd_rows(lambda _, __: 3.0),
    "rows of different lengths": _odd_rows(
        lambda X, _: [row[: 1 + k % 3].tolist() for k, row in enumerate(X)]
    ),
    "NaN": _with_one(np.nan),
    "infinity": _with_one(np.inf),
    "1e308": _with_one(1e308),
    "-1e300": _with_one(-1e300),
    "-0.0": _with_one(-0.0),
    "times 1e-300": _scaled(-300),
    "times 1e-30": _scaled(-30),
    "times 1e30": _scaled(30),
    "times 1e300": _scaled(300),
    "fractions": _odd_labels((Fraction(1, 3), Fraction(2, 3), Fraction(1, 2))),
    "decimals": _odd_labels((Decimal("0.1"), Decimal("0.2"), Decimal("0.3"))),
    "members of an enumeration": _odd_labels((Colour.RED, Colour.GREEN, Colour.BLUE)),
    "words": _odd_labels(("red", "None", "nan")),
    "flags and words": _odd_labels((True, "x", "y"), refusable=True),
    "numbers and words": _odd_labels((1, "1", "one"), refusable=True),
    "bytes": _odd_labels((b"a", b"b", b"c"), refusable=True),
    "tuples": _odd_labels(((1, 2), (3, 4), (5, 6)), refusable=True),
    "lists as labels": _odd_labels(([1], [2], [3]), refusable=True),
    "huge numbers as labels": _odd_labels((2**70, 2**71, 2**72), refusable=True),
    "floats as labels": _odd_labels((0.5, 1.5, 2.5), nothing=float("nan"), refusable=True),
    "Int64": _integer_labels("Int64"),
    "UInt8": _integer_labels("UInt8"),
    "labels of two dimensions": _labels_call(lambda y: y[:, None]),
    "too few labels": _labels_call(lambda y: y[:-1]),
    "no label": _labels_call(lambda y: np.full_like(y, -1)),
    "one class": _labels_call(lambda y: np.where(y >= 0, 0, -1)),
    "all labelled": _labels_call(lambda y: np.arange(len(y)) % 3),
    "one label a class": _labels_call(lambda y: np.where(np.arange(len(y)) < 3, y, -1)),
    "labels below -1": _labels_call(lambda y: np.where(y == 0, -2, y)),
    "infinite labels": _labels_call(lambda y: np.where(y == 0, np.inf, y)),
    "complex labels": _labels_call(lambda y: y + 1j),
    "zero weights": _weights(lambda w: 0 * w),
    "one zero weight": _weights(lambda w: np.where(np.arange(len(w)) == 1, 0, w)),
    "negative weights": _weights(lambda w: -w),
    "NaN weights": _weights(lambda w: w * np.nan),
    "huge weights": _weights(lambda w: 1e300 * w),
    "too few weights": _weights(lambda w: w[:-1]),
    "texts as weights": _weights(lambda w: w.astype(str)),
    "k = 0": _settings(k=0),
    "k too large": _settings(k=10**6),
    "k = NaN": _settings(k=float("nan")),
    "k = True": _settings(k=True),
    "k = all others": _settings(k=35),
    "validation = 1": _settings(validation=1.0),
    "validation = NaN": _settings(validation=float("nan")),
    "scale of another name": _settings(scale="colums"),
    "an odd prior": _settings(class_prior=[1.0, 1.0, -1.0]),
    "an odd class weight": _settings(class_weight={0: float("nan")}),
    "an unknown class weight": _settings(class_weight={"red": 2}),
    "arrays stay as they are": _untouched,
    "copies": _kept_by_copies,
    "not fitted": _not_fitted,
    "new rows of another width": _other_width,
    "hostile new rows": _hostile_new_rows,
    "no new rows": _no_new_rows,
    "order of new rows": _order_of_new_rows,
}
