"""Neighbours by centre and by sharing; `test_hypergraph` tries them on whole hypergraphs, too."""

import torch

from dahgnn.graph.assembly import sort_both_ways
from dahgnn.graph.neighbourhoods import centred_neighbours, shared_neighbours

PAIRS = torch.tensor([[0, 0, 0, 1, 1], [0, 1, 2, 2, 4]])  # hyperedges {0, 1, 2} and {2, 4} of five nodes


def lists(segments):
    return [part.tolist() for part in segments.indices.split(segments.offsets.diff().tolist())]


def test_neighbours_of_a_centre():
    both = sort_both_ways(*PAIRS, 2, 5)
    forward, backward = centred_neighbours(both.by_row, torch.tensor([1, 2]), 5)
    assert lists(forward) == [[], [0, 2], [4], [], []]
    assert lists(backward) == [[1], [], [1], [], [2]]


def test_neighbours_that_share_a_hyperedge():
    both = sort_both_ways(*PAIRS, 2, 5)
    forward, backward = shared_neighbours(both.by_row, both.by_column)
    assert lists(forward) == lists(backward) == [[1, 2], [0, 2], [0, 1, 4], [], [2]]
