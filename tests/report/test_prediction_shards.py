from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from dahgnn.report import prediction_shards
from dahgnn.report.prediction_shards import ManyPredictions, ShardNames, rows_of_a_shard, write_shards
from dahgnn.report.predictions import Predictions
from dahgnn.tables.coded_labels import CodedLabels
from dahgnn.tables.row_names import PlaceNames


@pytest.fixture
def predictions(monkeypatch):
    monkeypatch.setattr(prediction_shards, "SHARD_ROWS", 40)
    probabilities = np.random.default_rng(0).dirichlet([1, 1, 1], 100)
    codes = torch.arange(100, dtype=torch.int32) % 4 - 1
    return ManyPredictions(
        ids=PlaceNames(100, lambda row: f"row {row}"),
        classes=("a", "b", "c"),
        probabilities=probabilities,
        density=np.arange(100.0),
        given=CodedLabels(codes, ("a", "b", "c"), Counter()),
    )


def test_files_together_are_the_predictions(predictions, tmp_path):
    heard = []
    write_shards(tmp_path / "p", predictions, lambda *words: heard.append(words))
    files = sorted(path.name for path in (tmp_path / "p").iterdir())
    assert files == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    assert [pq.read_metadata(tmp_path / "p" / name).num_rows for name in files] == [40, 40, 20]
    whole = Predictions(
        ids=[f"row {row}" for row in range(100)],
        classes=predictions.classes,
        probabilities=predictions.probabilities,
        density=predictions.density,
        given=[[None, "a", "b", "c"][row % 4] for row in range(100)],
    )
    found = pq.read_table(tmp_path / "p").to_pydict()
    assert list(found) == list(whole.columns())
    for name, cells in whole.columns().items():
        assert found[name] == list(cells)
    assert heard[-1] == (3, 3, "3 of 3 files")


def test_the_digest_is_that_of_the_content(predictions, tmp_path):
    first, again = (write_shards(tmp_path / name, predictions) for name in "ab")
    assert first == again
    predictions.density[99] = -1
    assert write_shards(tmp_path / "c", predictions) != first


def test_labels_that_are_missing_in_a_whole_file_stay_text(predictions, tmp_path):
    predictions.given.codes.fill_(-1)
    write_shards(tmp_path / "p", predictions)
    for path in (tmp_path / "p").iterdir():
        assert str(pq.read_schema(path).field("given").type) == "string"


def test_files_of_many_classes_have_fewer_rows():
    assert rows_of_a_shard(3) == prediction_shards.SHARD_ROWS
    assert rows_of_a_shard(1000) == (1 << 24) // 1000


def test_names_are_read_back_from_the_predictions(predictions, tmp_path):
    write_shards(tmp_path / "p", predictions)
    names = ShardNames(tmp_path / "p", 100, 40)
    assert (len(names), names[0], names[39], names[40], names[99]) == (
        100, "row 0", "row 39", "row 40", "row 99",
    )  # fmt: skip
    assert list(names) == [f"row {row}" for row in range(100)]
    for begin, end in ((0, 100), (30, 90), (80, 100), (5, 6)):
        assert names.block(begin, end) == [f"row {row}" for row in range(begin, end)]
