import pytest

from dahgnn.tables.table import read_table, survey_table


def one_column(cells):
    """A table whose column 'x' holds the cells, beside a column of numbers."""
    return "x,n\n" + "".join(f"{cell},{place**2}\n" for place, cell in enumerate(cells))


def said(table):
    return " ".join(table.notes)


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["a", "", "NaN", "None", " b", "  "], ["a", None, "NaN", "None", "b", None]),
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
    with pytest.raises(ValueError, match="ids in 'x' must all be there. Got none in line 3 of the file."):
        read_table(write(one_column(["a", "", "a"])), id="x")
    with pytest.raises(
        ValueError, match="'x' must differ. Got 'a' in line 2 of the file and line 4 of the file."
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
    lines = [f"{row**2},{row * 0.37:.2f}" for row in range(60)]
    (tmp_path / "table.csv").write_text("\n".join(["a,weight", *lines]) + "\n")
    with pytest.raises(ValueError, match="'weight' must be classes. Got 60 different numbers in 60 rows"):
        read_table(tmp_path / "table.csv", label="weight")
    lines = [f"{row**2},{row % 5 / 2}" for row in range(60)]  # grades
    (tmp_path / "table.csv").write_text("\n".join(["a,grade", *lines]) + "\n")
    assert len(set(read_table(tmp_path / "table.csv", label="grade").labels)) == 5


def test_a_class_of_minus_one_is_mentioned(tmp_path):
    (tmp_path / "table.csv").write_text("a,mood\n1,-1\n2,0\n3,1\n4,\n")
    table = read_table(tmp_path / "table.csv", label="mood")
    assert table.labels == ("-1", "0", "1", None)
    assert "The label -1 was taken for a class." in table.notes


def test_a_class_that_sounds_like_missing_stays_one_and_is_named(write):
    cells = ["None"] * 3 + ["Some", "?", "?", "Marked", "", " "]
    table = read_table(write(one_column(cells)), label="x")
    assert table.labels == ("None", "None", "None", "Some", "?", "?", "Marked", None, None)
    assert "7 of 9 rows are labelled in 'x', with 4 classes: 'None' (3), '?' (2)" in said(table)
    assert "The label 'None' (3 rows) is a class. If it means unlabelled, say --missing None." in table.notes
    assert "The label '?' (2 rows) is a class. If it means unlabelled, say --missing '?'." in table.notes
    assert not any("'Some'" in note and "--missing" in note for note in table.notes)
    without = read_table(write(one_column(cells)), label="x", missing=["?", "None"])
    assert without.labels == (None, None, None, "Some", None, None, "Marked", None, None)
    assert not any("--missing" in note for note in without.notes)


def test_nulls_of_a_typed_file_are_unlabelled_and_its_words_are_not(store):
    table = read_table(store({"y": ["None", None, "a", "nan"], "n": [1, 2, 3, 5]}), label="y")
    assert table.labels == ("None", None, "a", "nan")
    numbers = read_table(
        store({"y": [1.0, float("nan"), 9.0, None], "n": [1, 2, 3, 5]}), label="y", missing=["9"]
    )
    assert numbers.labels == ("1", None, None, None)


def test_everything_wrong_with_a_table_is_said_at_once(write):
    path = write("id,y,when,a,b\n1,0.5,1/2/24,inf,1\n1,0.25,2/2/24,2,x\n", "bad.csv")
    with pytest.raises(ValueError, match=r"bad.csv has 5 problems\.") as raised:
        read_table(path, label="y", id="id", drop=["q"])
    found = str(raised.value)
    assert "\n- The ids in 'id' must differ. Got '1' in line 2 of the file and line 3 of the file." in found
    assert "must have a column 'q' for --drop." in found
    assert (
        "\n- The column 'when' must hold dates in which day, month and year are told apart, such as" in found
    )
    assert "\n- The column 'a' must hold finite numbers" in found
    assert "\n- The column 'b' must hold numbers, such as 1234.5. Got 'x' in line 3 of the file." in found


def test_a_survey_returns_what_was_understood_beside_the_problems(write):
    survey = survey_table(write("y,a,b\nu,inf,1\nv,2,3\n"), label="y")
    assert survey.table is None
    assert len(survey.problems) == 1
    assert "2 of 2 rows are labelled in 'y', with 2 classes: 'u' (1), 'v' (1)." in survey.notes
    good = survey_table(write("y,b\nu,1\nv,3\n"), label="y")
    assert good.table is not None
    assert good.problems == ()
    assert good.notes == good.table.notes


def test_rows_are_told_by_the_line_in_which_they_begin(write):
    path = write('x,y\n\n"a\nb",1\n\n"c",1\n"c",2\n')
    with pytest.raises(ValueError, match="Got 'c' in line 6 of the file and line 7 of the file."):
        read_table(path, id="x")


def test_the_labels_of_up_to_twelve_classes_are_counted(write):
    rows = [f"{place},{name}" for name in "abcdefghijkl" for place in range(3)]
    said = read_table(write("x,y\n" + "\n".join(rows) + "\n"), label="y").notes[1]
    assert said.endswith("'k' (3), 'l' (3).")


def test_ids_that_occur_twice_come_with_a_way_out(write):
    with pytest.raises(
        ValueError, match="Correct it, or leave --id out: rows are then named by their numbers"
    ):
        read_table(write("n,x,y\n7,1,a\n7,2,b\n"), label="y", id="n")
