"""Places of rows on the map."""

import numpy as np
import pytest
import torch

from dahgnn.explorer.layout import leading_directions, place_by_components, place_by_tsne, wants_tsne


def test_components_are_those_of_a_singular_value_decomposition(blobs):
    features = blobs[0]
    centred = (features - features.mean(0)).double()
    _, _, axes = torch.linalg.svd(centred, full_matrices=False)
    found = leading_directions(features)
    expected = centred @ axes.T
    signs = (found * expected).sum(0).sign()
    torch.testing.assert_close((found * signs).double(), expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(place_by_components(found), found[:, :2])


def test_one_column_is_a_line(blobs):
    places = place_by_components(leading_directions(blobs[0][:, :1]))
    assert places.shape == (120, 2)
    assert (places[:, 1] == 0).all()


@pytest.mark.parametrize(
    ("kind", "n", "wanted"),
    [
        ("auto", 99, False),
        ("auto", 100, True),
        ("auto", 100_001, False),
        ("pca", 500, False),
        ("tsne", 50, True),
    ],
)
def test_when_there_is_a_second_map(kind, n, wanted):
    assert wants_tsne(kind, n) == wanted


def test_tsne_keeps_blobs_apart(blobs):
    pytest.importorskip("openTSNE")
    told = []
    places = place_by_tsne(
        leading_directions(blobs[0]), lambda done, total, text="", **_: told.append((done, total))
    )
    assert told[-1][0] == told[-1][1]
    labels = blobs[1].numpy()
    middles = np.array([places[labels == label].mean(0) for label in range(3)])
    nearest = np.linalg.norm(places[:, None] - middles, axis=2).argmin(1)
    assert (nearest == labels).mean() > 0.9
