import numpy as np
import pytest
import torch

from dahgnn.graph.copies import digest_of_rows, first_copies, hash_rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rows_have_the_same_number_and_no_others(dtype):
    rows = torch.randint(-2, 3, (2000, 5), generator=torch.Generator().manual_seed(0)).to(dtype)
    hashes = hash_rows(rows)
    groups: dict[tuple, set] = {}
    for row, number in zip(rows.tolist(), hashes.tolist(), strict=True):
        groups.setdefault(tuple(row), set()).add(number)
    assert all(len(each) == 1 for each in groups.values())
    assert len(set.union(*groups.values())) == len(groups)


def test_a_digest_sees_every_number_and_the_order_of_rows():
    rows = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    other = rows.clone()
    other[41, 2] = other[41, 2].nextafter(torch.tensor(9.0))
    digests = {digest_of_rows(each, hash_rows(each)) for each in (rows, other, rows.flip(0), rows.double())}
    assert len(digests) == 4


@pytest.mark.parametrize("most", [1, 3, 40])
def test_only_late_copies_are_left_out(most):
    rows = torch.randint(0, 3, (60, 2), generator=torch.Generator().manual_seed(0)).float()
    seen: dict[tuple, int] = {}
    expected = []
    for number, row in enumerate(map(tuple, rows.tolist())):
        seen[row] = seen.get(row, 0) + 1
        if seen[row] <= most:
            expected.append(number)
    kept = first_copies(rows, hash_rows(rows), most)
    assert (list(range(60)) if kept is None else kept.tolist()) == expected


def test_rows_that_share_a_number_by_chance_stay():
    rows = torch.arange(6.0).unsqueeze(1)
    assert first_copies(rows, np.zeros(6, np.uint64), 2).tolist() == list(range(6))
