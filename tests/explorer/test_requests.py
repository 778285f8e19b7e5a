"""Fields of what a page sends."""

import pytest

from dahgnn.explorer.requests import BadRequestError, Body


@pytest.mark.parametrize("value", [None, 3, ["a"], "x" * 201])
def test_texts(value):
    assert Body({"window": "w"}).text("window") == "w"
    assert Body({}).text("way", default="") == ""
    with pytest.raises(BadRequestError, match="'window' must be a text of at most 200"):
        Body({"window": value}).text("window")


@pytest.mark.parametrize("value", [None, "3", 3.0, True, -1, 11, 10**30])
def test_numbers(value):
    assert Body({"count": 10}).number("count", 0, 10) == 10
    with pytest.raises(BadRequestError, match="whole number between 0 and 10"):
        Body({"count": value}).number("count", 0, 10)


@pytest.mark.parametrize("value", [None, 3, [], [1, 1], [1.5], ["1"], [True], [-1], [5], [0, 1, 2, 3, 4, 0]])
def test_lists_of_numbers(value):
    assert Body({"rows": [4, 0]}).numbers("rows", below=5) == [4, 0]
    with pytest.raises(BadRequestError, match="'rows' must be"):
        Body({"rows": value}).numbers("rows", below=5)


def test_null_is_not_nothing():
    assert Body({"label": None}).is_null("label")
    assert not Body({"label": "a"}).is_null("label")
    with pytest.raises(BadRequestError, match="must be there"):
        Body({}).is_null("label")
