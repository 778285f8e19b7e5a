import numpy as np
import pytest
from fit_views import NONE_HELD_OUT, make_view

from dahgnn.report.fit_view import check_view


def test_a_view_that_fits_keeps_its_numbers():
    view = make_view()
    checked = check_view(view)
    for name in ("probabilities", "given", "held_out", "density", "position", "members", "attention"):
        assert np.array_equal(getattr(checked, name), getattr(view, name))


def test_nothing_need_be_held_out():
    assert len(check_view(make_view(**NONE_HELD_OUT)).held_out) == 0


def spoiled(name, place, value):
    array = np.array(getattr(make_view(), name))
    array[place] = value
    return {name: array}


def assessed(**changes):
    found = {
        "confusion": [[1, 0, 0]] * 3,
        "recall": [1.0, None, 0.5],
        "precision": [None] * 3,
        "accuracy": None,
        "baselines": {},
        "doubtful": [],
    }
    return {"assessment": found | changes}


def test_an_assessment_that_fits_stays():
    view = make_view(**assessed(), position=None, estimate=(0.9, 0.8, 1.0))
    assert check_view(view).assessment is view.assessment
    assert check_view(view).position is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids": []}, "'ids' parameter of FitView must be at least one row. Got none"),
        ({"classes": []}, "'classes' .* between 1 and 32,767 names. Got 0"),
        ({"probabilities": np.ones((60, 2))}, r"'probabilities' .* of shape \(60, 3\). Got shape \(60, 2\)"),
        (spoiled("probabilities", (7, 1), np.nan), r"'probabilities' .* finite .* Got nan at \(7, 1\)"),
        (spoiled("probabilities", 7, 0.5), "'probabilities' .* sum to 1. Got a sum of 1.5 in row 7"),
        (spoiled("probabilities", 7, [-0.5, 1, 0.5]), "'probabilities' .* at least 0, .* Got -0.5"),
        (spoiled("given", 0, 3), "'given' .* between -1 and 2. Got 3"),
        (spoiled("given", 2, -1), "'given' .* a label for each row .* the first is row 2"),
        (spoiled("held_out", 0, 60), "'held_out' .* between 0 and 59. Got 60"),
        ({"held_out": np.arange(4)}, r"'held_out' .* of shape \(20\). Got shape \(4,\)"),
        (spoiled("held_out_probabilities", 7, 0.5), "'held_out_probabilities' .* sum to 1"),
        (spoiled("density", 4, np.inf), r"'density' .* finite .* Got inf at \(4,\)"),
        (spoiled("position", (4, 0), 1e39), r"'position' .* finite in single precision. Got 1e\+39"),
        (spoiled("members", (4, 1), 60), "'members' .* between -1 and 59. Got 60"),
        (spoiled("members", (4, 0), 5), "'members' .* centre first. Got 5 first in row 4"),
        ({"members": np.zeros(60, dtype=int)}, r"'members' .* of shape \(60, k \+ 1\)"),
        ({"members": np.zeros((60, 0), dtype=int)}, r"'members' .* of shape \(60, 0\)"),
        (spoiled("attention", (4, 0), 2), "'attention' .* sum to 1"),
        ({"estimate": (0.9, 0.95, 0.99)}, "'estimate' .* an accuracy and its interval"),
        (assessed(confusion=[[1, 2], [3, 4]]), "'assessment' .* a confusion matrix of 3 × 3 counts"),
        (assessed(confusion=[[-1] * 3] * 3), "'assessment' .* a confusion matrix of 3 × 3 counts"),
        (assessed(recall=[1.0]), "'assessment' .* of 3 classes. Got 1"),
        (assessed(baselines={"majority": 1.5}), "'assessment' .* shares from 0 to 1. Got 1.5"),
        (assessed(doubtful=[{"row": 60}]), "'assessment' .* of rows from 0 to 59. Got 60"),
        ({"best_epochs": [-1]}, "'best_epochs' .* at least 0"),
        ({"details": [{}]}, "'details' .* of length 60, one for each id. Got 1"),
        ({"images": np.zeros((60, 4), dtype=np.uint8)}, r"'images' .* \(60, height, width\) or"),
        ({"images": np.zeros((60, 4, 4, 4), dtype=np.uint8)}, "'images' .* of shape"),
    ],
)
def test_a_view_that_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        check_view(make_view(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"held_out": np.zeros(20)}, "'held_out' .* an array of integers. Got an array of float64"),
        ({"density": np.array(["a"] * 60)}, "'density' .* an array of numbers. Got an array of <U1"),
        ({"images": np.zeros((60, 4, 4))}, "'images' .* of uint8. Got float64"),
    ],
)
def test_an_array_of_a_wrong_type_is_refused(changes, message):
    with pytest.raises(TypeError, match=message):
        check_view(make_view(**changes))
