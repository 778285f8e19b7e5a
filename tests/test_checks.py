import numpy as np
import pytest
import torch

from dahgnn import checks


def test_the_message_has_expected_got_and_remedy():
    error = checks.bad_value("k", "knn", "between 1 and n_nodes - 1 = 99", 100, "Lower it.")
    assert str(error) == "The 'k' parameter of knn must be between 1 and n_nodes - 1 = 99. Got 100. Lower it."


def test_suggest_names_the_nearest_or_nobody():
    assert checks.did_you_mean("centr", ["centre", "shared"]) == "Did you mean 'centre'?"
    assert checks.did_you_mean("zzz", ["centre", "shared"]) == ""


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        ([[1, 2], [3, 4]], torch.float64),
        (np.ones((2, 2), np.float32), torch.float32),
        (np.ones((2, 2), np.float64), torch.float64),
        (np.ones((2, 2), np.uint8), torch.float32),
        (np.ones((2, 2), bool), torch.float32),
        (np.ones((2, 2), np.longdouble), torch.float64),
        (np.ones((2, 2), ">f4"), torch.float32),
        (torch.ones(2, 2, dtype=torch.float16), torch.float32),
        (torch.ones(2, 2, dtype=torch.int64), torch.float64),
    ],
)
def test_features_keep_their_values_and_precision(given, dtype):
    features = checks.as_features(given, "here")
    assert features.dtype == dtype
    assert features.tolist() == np.asarray(given, dtype=float).tolist()


def test_features_may_be_read_only_reversed_or_transposed():
    array = np.arange(6.0).reshape(2, 3)
    array.flags.writeable = False
    for view in (array, array[::-1], array.T, array[:, ::2]):
        assert checks.as_features(view, "here").tolist() == view.tolist()


def test_features_share_memory_where_they_can():
    array = np.ones((3, 2))
    assert checks.as_features(array, "here").data_ptr() == array.ctypes.data


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ([1.0, 2.0], ValueError, r"two-dimensional, \(n, d\). Got shape \(2,\).*reshape"),
        (3.0, ValueError, "two-dimensional"),
        (np.ones((2, 2, 2)), ValueError, "two-dimensional"),
        (np.ones((0, 4)), ValueError, "non-empty"),
        (np.ones((4, 0)), ValueError, "non-empty"),
        ([[1.0, 2.0], [3.0]], TypeError, "rows of unequal length"),
        ([["a", "b"]], TypeError, "an array of numbers"),
        (None, TypeError, "an array of numbers"),
        (np.ones((2, 2), complex), TypeError, "an array of numbers"),
        (torch.ones(2, 2, dtype=torch.complex64), TypeError, "real numbers"),
        (torch.eye(2).to_sparse(), TypeError, "a dense tensor. Got one of layout torch.sparse_coo"),
        (np.ma.masked_equal([[1.0, -999.0]], -999.0), ValueError, "without masked entries"),
        ([[0.0, 1.0], [np.nan, 1.0]], ValueError, "finite. Got nan at row 1, column 0 .1 such"),
        ([[0.0, -np.inf], [np.nan, 1.0]], ValueError, "finite. Got -inf at row 0, column 1 .2 such"),
    ],
)
def test_bad_features_are_refused(given, error, words):
    with pytest.raises(error, match=words):
        checks.as_features(given, "here")


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ([0, 5], ValueError, "indices between 0 and n_nodes - 1 = 4. Got 5"),
        ([-1, 2], ValueError, "indices between 0 and n_nodes - 1 = 4. Got -1"),
        ([[0]], ValueError, "one-dimensional"),
        ([0.5], TypeError, "integers. Got an array of float64"),
        ([True], TypeError, "integers. Got an array of bool"),
    ],
)
def test_bad_indices_are_refused(given, error, words):
    with pytest.raises(error, match=words):
        checks.as_indices(given, "nodes", "here", below=5)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int64])
def test_indices_of_every_integer_type(dtype):
    for given in (np.array([3, 0], dtype), torch.from_numpy(np.array([3, 0], dtype))):
        assert checks.as_indices(given, "nodes", "here", below=5).tolist() == [3, 0]
        assert checks.as_labels(given, "here").tolist() == [3, 0]


@pytest.mark.parametrize(
    ("seed", "error"), [(-1, ValueError), (2**63, ValueError), (1.5, TypeError), ("a", TypeError)]
)
def test_bad_seeds_are_refused(seed, error):
    with pytest.raises(error, match="'seed' parameter of here"):
        checks.check_seed(seed, "here")


def test_no_indices_are_indices():
    assert checks.as_indices([], "nodes", "here", below=5).dtype == torch.int64


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ([], ValueError, "non-empty"),
        ([[0, 1]], ValueError, "one-dimensional"),
        ([0.0, 1.0], TypeError, "integers"),
        (["a", "b"], TypeError, "numbers"),
        ([0, -2], ValueError, "-1 for unknown. Got -2"),
        ([0, 1, 2], ValueError, "of length n_nodes = 2. Got length 3"),
    ],
)
def test_bad_labels_are_refused(given, error, words):
    with pytest.raises(error, match=words):
        checks.as_labels(given, "here", n_nodes=2)


@pytest.mark.parametrize("value", [0, -3])
def test_a_count_under_its_least_is_refused(value):
    with pytest.raises(ValueError, match="at least 1"):
        checks.check_count("k", value, "here")


@pytest.mark.parametrize("value", [1.0, "1", None, True])
def test_a_count_must_be_an_integer(value):
    with pytest.raises(TypeError, match="an integer"):
        checks.check_count("k", value, "here")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 1.1, 10**400, -(10**400)])
def test_a_number_out_of_range_is_refused(value):
    with pytest.raises(ValueError, match="a finite number, at least 0 and at most 1"):
        checks.check_number("share", value, "here", low=0, high=1)


def test_an_open_bound_is_excluded():
    with pytest.raises(ValueError, match="greater than 0"):
        checks.check_number("rate", 0, "here", low=0, open_low=True)
    checks.check_number("rate", np.float32(0.1), "here", low=0, open_low=True)
