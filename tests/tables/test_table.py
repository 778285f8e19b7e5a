import pytest

from dahgnn.tables.table import read_table


def one_column(cells):
    """A table whose column 'x' holds the cells, beside a column of numbers."""
    return "x,n\n" + "".join(f"{cell},{place}\n" for place, cell in enumerate(cells))


def said(table):
    return " ".join(table.notes)


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["a", "", "NaN", "None", " b"], ["a", None, None, None, "b"]),
        (["3", "4.0", ""], ["3", "4", None]),
        (["3.0", "x"], ["3.0", "x"]),
        (["007", "7"], ["007", "7"]),
        (["0.5", "1.0"], ["0.5", "1.0"]),
        (["True", "False"], ["True", "False"]),
        (["-1", "0", "1", "-1"], [None, "0", "1", None]),
        (["-1.0", "0.0", "5.0"], [None, "0", "5"]),
        (["-1", "1", "-1"], ["-1", "1", "-1"]),
        (["-1", "0", "1", ""], ["-1", "0", "1", None]),
        (["-1", "0", "1", "-2"], ["-1", "0", "1", "-2"]),
        (["-1", "0", "a"], ["-1", "0", "a"]),
    ],
)
def test_labels_are_text_and_some_are_missing(write, cells, labels):
    table = read_table(write(one_column(cells)), label="x")
    assert list(table.labels) == labels
    assert table.names == ("n",)
    known = sum(label is not None for label in labels)
    assert f"{known} of {len(labels)} rows are labelled in 'x'" in said(table)
    taken = "-1" in [cell.removesuffix(".0") for cell in cells] and "-1" not in labels
    assert ("The label -1 was taken for unlabelled" in said(table)) == taken


def test_the_note_on_labels_names_the_classes(write):
    table = read_table(write(one_column(["a", "b", "a", ""])), label="x")
    assert "3 of 4 rows are labelled in 'x', with 2 classes: 'a' (2), 'b' (1)." in table.notes
    none = read_table(write(one_column(["", ""])), label="x")
    assert none.labels == (None, None)
    assert "0 of 2 rows are labelled in 'x', with 0 classes: none." in none.notes


def test_ids_are_text_as_it_stands(write):
    table = read_table(write(one_column(["007", "7", "NA", "1.0", " "])), id="x")
    assert table.ids == ("007", "7", "NA", "1.0", " ")
    assert table.names == ("n",)


def test_missing_and_repeated_ids_are_refused(write):
    with pytest.raises(
        ValueError, match=r"ids in 'x' must all be there. Got none in row 1 \(counted from 0\)"
    ):
        read_table(write(one_column(["a", "", "a"])), id="x")
    with pytest.raises(
        ValueError, match=r"ids in 'x' must differ. Got 'a' in rows 0 and 2 \(counted from 0\)"
    ):
        read_table(write(one_column(["a", "b", "a", "b"])), id="x")


@pytest.mark.parametrize("role", ["label", "id"])
def test_an_unknown_column_is_refused_with_a_suggestion(write, role):
    path = write("species,a\nx,1\ny,2\n")
    with pytest.raises(ValueError, match=f"a column 'specis' for --{role}. .* Did you mean 'species'?"):
        read_table(path, **{role: "specis"})
    with pytest.raises(ValueError, match="It has 'species', 'a'"):
        read_table(path, **{role: "qqq"})


def test_measured_numbers_are_no_classes(tmp_path):
    lines = [f"{row},{row * 0.37:.2f}" for row in range(60)]
    (tmp_path / "table.csv").write_text("\n".join(["a,weight", *lines]) + "\n")
    with pytest.raises(ValueError, match="'weight' must be classes. Got 60 different numbers in 60 rows"):
        read_table(tmp_path / "table.csv", label="weight")
    lines = [f"{row},{row % 5 / 2}" for row in range(60)]  # grades
    (tmp_path / "table.csv").write_text("\n".join(["a,grade", *lines]) + "\n")
    assert len(set(read_table(tmp_path / "table.csv", label="grade").labels)) == 5


def test_a_class_of_minus_one_is_mentioned(tmp_path):
    (tmp_path / "table.csv").write_text("a,mood\n1,-1\n2,0\n3,1\n4,\n")
    table = read_table(tmp_path / "table.csv", label="mood")
    assert table.labels == ("-1", "0", "1", None)
    assert "The label -1 was taken for a class." in table.notes
