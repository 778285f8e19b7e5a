import csv
import io
import os

import numpy as np
import pytest

from dahgnn.report.predictions import Predictions, as_csv, write_predictions

SAID = Predictions(
    ids=["r0", "r,1", "r2"],
    classes=["a", "id"],  # a class may have the name of a column
    probabilities=np.array([[0.75, 0.25], [0.1, 0.9], [0.6, 0.4]]),
    density=np.array([1.5, 2.0, 1 / 3]),
    given=["a", "a", None],
)


def test_given_labels_and_opinions_stand_beside_each_other():
    assert as_csv(SAID).splitlines() == [
        "id,class,predicted,probability,margin,density,given,p:a,p:id",
        "r0,a,a,0.75,0.5,1.5,a,0.75,0.25",
        '"r,1",a,id,0.9,0.8,2,a,0.1,0.9',
        "r2,a,a,0.6,0.2,0.333333,,0.6,0.4",
    ]


def test_new_rows_have_no_given_label():
    new = Predictions(
        ids=SAID.ids, classes=SAID.classes, probabilities=SAID.probabilities, density=SAID.density
    )
    assert as_csv(new).splitlines()[2] == '"r,1",id,id,0.9,0.8,2,0.1,0.9'


def test_a_carriage_return_in_a_name_ends_no_line():
    said = Predictions(
        ids=["r\r0", "r1", "r2"], classes=SAID.classes, probabilities=SAID.probabilities, density=SAID.density
    )
    rows = list(csv.DictReader(io.StringIO(as_csv(said), newline="")))
    assert [row["id"] for row in rows] == ["r\r0", "r1", "r2"]


def test_parquet_says_the_same(tmp_path):
    pandas = pytest.importorskip("pandas")
    write_predictions(tmp_path / "new.parquet", SAID)
    write_predictions(tmp_path / "new.csv", SAID)
    frame, text = pandas.read_parquet(tmp_path / "new.parquet"), pandas.read_csv(tmp_path / "new.csv")
    assert list(frame) == list(text)
    assert frame["class"].tolist() == ["a", "a", "a"]
    assert frame["given"].fillna("none").tolist() == ["a", "a", "none"]
    np.testing.assert_array_equal(frame[["p:a", "p:id"]].to_numpy(), SAID.probabilities)
    np.testing.assert_allclose(text["density"], frame["density"], rtol=1e-5)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_id_that_is_no_text_is_written_all_the_same(tmp_path, ending):
    pandas = pytest.importorskip("pandas")
    said = Predictions(
        ids=[os.fsdecode(b"\xff"), "é", "c"],
        classes=SAID.classes,
        probabilities=SAID.probabilities,
        density=SAID.density,
    )
    write_predictions(tmp_path / f"new.{ending}", said)
    frame = (pandas.read_csv if ending == "csv" else pandas.read_parquet)(tmp_path / f"new.{ending}")
    assert frame["id"].tolist() == ["\\udcff", "é", "c"]


def test_a_column_for_each_of_very_many_classes_is_in_parquet_alone(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    many = Predictions(
        ids=["r"],
        classes=[f"c{place}" for place in range(101)],
        probabilities=np.full((1, 101), 1 / 101),
        density=np.ones(1),
    )
    assert as_csv(many).splitlines()[0] == "id,class,predicted,probability,margin,density"
    write_predictions(tmp_path / "new.parquet", many)
    assert len(parquet.read_schema(tmp_path / "new.parquet").names) == 107
