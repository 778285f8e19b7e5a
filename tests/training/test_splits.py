import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dahgnn.training.splits import Split, sample_per_class, split_per_class


@given(
    sizes=st.lists(st.integers(5, 12), min_size=1, max_size=4),
    train=st.integers(1, 3),
    validation=st.integers(1, 2),
    seed=st.integers(0, 1000),
    unknown=st.integers(0, 4),
)
def test_a_split_has_the_counts_and_covers_the_known_nodes(sizes, train, validation, seed, unknown):
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    labels = torch.cat([labels, torch.full((unknown,), -1)])
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))]
    split = split_per_class(labels, train=train, validation=validation, seed=seed)
    assert labels[split.train].bincount().tolist() == [train] * len(sizes)
    assert labels[split.validation].bincount().tolist() == [validation] * len(sizes)
    every = torch.cat([split.train, split.validation, split.test]).sort().values
    assert every.tolist() == (labels >= 0).nonzero().squeeze(1).tolist()


def test_a_seed_repeats_and_another_differs():
    labels = torch.arange(100) % 2
    first, again, other = (split_per_class(labels, train=5, validation=5, seed=seed) for seed in (0, 0, 1))
    assert first.digest == again.digest != other.digest


def test_the_digest_sees_the_parts_and_not_the_order():
    assert Split([0, 1], [2], [3]).digest == Split([1, 0], [2], [3]).digest
    assert Split([0, 1], [2], [3]).digest != Split([0], [1, 2], [3]).digest


def test_drawing_is_global_random_state_neutral():
    before = torch.random.get_rng_state()
    split_per_class(torch.arange(10) % 2, train=1, validation=1, seed=0)
    assert torch.equal(before, torch.random.get_rng_state())


def test_sample_per_class_draws_from_every_class():
    labels = torch.tensor([0, 1, 0, 1, 0, 1, -1])
    drawn = sample_per_class(labels, 2, seed=0)
    assert labels[drawn].bincount().tolist() == [2, 2]
    assert drawn.tolist() == sorted(set(drawn.tolist()))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([0, 0, 0, 1, 1], "every class has at least 3 nodes. Got 2 nodes of class 1"),
        ([0, 0, 0, 2, 2, 2], "Got 0 nodes of class 1"),
        ([-1, -1], "known for some nodes"),
        ([], "non-empty"),
    ],
)
def test_labels_that_cannot_be_split_are_refused(labels, words):
    with pytest.raises(ValueError, match=words):
        split_per_class(torch.tensor(labels, dtype=torch.int64), train=2, validation=1, seed=0)


@pytest.mark.parametrize(("train", "validation"), [(0, 1), (1, 0), (-1, 1)])
def test_parts_must_not_be_empty(train, validation):
    with pytest.raises(ValueError, match="at least 1"):
        split_per_class([0, 0, 0, 1, 1, 1], train=train, validation=validation, seed=0)


def test_overlapping_parts_are_refused():
    with pytest.raises(ValueError, match="disjoint. Got node 2 more than once"):
        Split([0, 2], [1, 2], [3])


def test_negative_nodes_are_refused():
    with pytest.raises(
        ValueError, match="'validation' parameter of Split must be indices of at least 0. Got -1"
    ):
        Split([0], [-1], [])
