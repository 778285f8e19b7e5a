import io
import os
import zipfile

import numpy as np
import pytest
from table_files import kinds, make_file

from dahgnn.tables.table import read_table


def test_arrays_have_columns_by_place(pack):
    features = np.array([[0, 1, 5], [0, np.nan, 6], [0, 3, 7]])
    table = read_table(
        pack(data=features, y=np.array([2, -1, 0]), names=np.array(["a", "b", "c"])), label="y", id="names"
    )
    assert table.names == ("x1", "x2")
    assert kinds(table) == {"x0": "unused", "x1": "number", "x2": "number"}
    assert table.features.tolist() == [[1, 5], [2, 6], [3, 7]]
    assert table.labels == ("2", None, "0")
    assert table.ids == ("a", "b", "c")
    assert "The features are the array 'data'." in table.notes
    assert "The label -1 was taken for unlabelled, in 1 rows." in table.notes


@pytest.mark.parametrize("name", ["X", "features"])
def test_named_features_come_first(pack, name):
    table = read_table(pack(**{"other": np.zeros((2, 2)), name: np.array([[1], [2]]), "rest": np.zeros(5)}))
    assert table.features.tolist() == [[1], [2]]
    assert "Ignored arrays: 'other', 'rest'." in table.notes


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint64", "float16", "float32", ">f8", "longdouble"])
def test_images_are_flattened_and_keep_their_values(pack, dtype):
    images = np.arange(24).reshape(2, 3, 2, 2).astype(dtype)
    table = read_table(pack(images=images, y=np.array([-1, 1])), label="y")
    assert table.features.tolist() == images.reshape(2, 12).tolist()
    assert table.labels == (None, "1")
    assert "Each row of 3 × 2 × 2 numbers was flattened; the values are not scaled." in table.notes


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        (np.array(["a", "", "NA"]), ("a", None, "NA")),
        (np.array([b"a", b"b", b"\xc3\xa9"]), ("a", "b", "é")),
        (np.array([1.0, np.nan, -1.0]), ("1", None, None)),
        (np.array([0.5, np.inf, -1.0]), ("0.5", "inf", "-1.0")),
        (np.array([0.1, 1, 2], dtype=np.float32), ("0.1", "1.0", "2.0")),
        (np.array([True, False, True]), ("True", "False", "True")),
        (np.array([0, 255, 7], dtype=np.uint8), ("0", "255", "7")),
    ],
)
def test_labels_of_arrays(pack, labels, want):
    assert read_table(pack(X=np.eye(3), y=labels), label="y").labels == want


def test_flags_in_arrays(pack):
    table = read_table(pack(X=np.eye(3, dtype=bool)))
    assert set(kinds(table).values()) == {"flag"}
    assert np.array_equal(table.features, np.eye(3))


def test_the_width_of_new_arrays_must_agree(pack, write):
    columns = read_table(pack(X=np.array([[0, 1, 5], [0, 2, 6]]))).columns
    new = read_table(pack(X=np.array([[9, 8, np.nan]])), columns=columns)
    assert new.features.tolist() == [[8, 5.5]]
    for width in (2, 4):
        with pytest.raises(ValueError, match=f"must have 3 columns, as at the fit. Got {width}"):
            read_table(pack(X=np.ones((2, width))), columns=columns)
    assert read_table(write("x2,x1\n3,4\n"), columns=columns).features.tolist() == [[4, 3]]


def test_columns_of_arrays_can_be_dropped(pack):
    table = read_table(pack(X=np.array([[0, 1, 5], [1, 2, 6]])), drop=["x1"])
    assert table.names == ("x0", "x2")
    assert read_table(pack(X=np.array([[1, 2, 3]])), columns=table.columns).features.tolist() == [[1, 3]]


def test_npy_files_lie_beside_each_other(tmp_path):
    for name, array in {
        "x": np.array([[1, 2], [3, 4]]),
        "y": np.array([-1, 5]),
        "id": np.array(["p", "q"]),
    }.items():
        np.save(tmp_path / f"{name}.npy", array)
    table = read_table(tmp_path / "x.npy", label=str(tmp_path / "y.npy"), id=str(tmp_path / "id.npy"))
    assert table.features.tolist() == [[1, 2], [3, 4]]
    assert table.labels == (None, "5")
    assert table.ids == ("p", "q")
    with pytest.raises(ValueError, match="must be in NPY files. Got 'species'"):
        read_table(tmp_path / "x.npy", label="species")
    with pytest.raises(FileNotFoundError, match="There is no file .*z.npy"):
        read_table(tmp_path / "x.npy", label=str(tmp_path / "z.npy"))
    with pytest.raises(
        ValueError, match=r"one value for each of the 2 rows of features. Got the shape \(2, 2\)"
    ):
        read_table(tmp_path / "x.npy", label=str(tmp_path / "x.npy"))


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"X": np.ones(3)}, r"must have the shape \(n, d\), .* Got \(3,\)"),
        ({"X": np.ones((3, 0))}, r"Got \(3, 0\)"),
        ({"X": np.ones((0, 3))}, r"Got \(0, 3\)"),
        ({"X": np.array(3.0)}, r"Got \(\)"),
        ({"X": np.ones((2, 2), dtype=complex)}, "must be numbers. Got an array of complex128"),
        ({"X": np.array([["a", "b"]])}, "must be numbers. Got an array of <U1"),
        ({"a": np.ones(3)}, "an array 'X' of features, or one alone .* Got none"),
        ({"a": np.ones((3, 2)), "b": np.ones((3, 2))}, "Got 'a', 'b'. Name it 'X'"),
        ({}, "Got none. Name it 'X'"),
        ({"X": np.array([[1, np.inf], [1, 2]])}, r"'x1' must hold finite numbers .* Got inf in row 1 "),
        ({"X": np.array([[1, 2], [1, -1e39]])}, r"'x1' must hold finite numbers .* Got -1e\+39 in row 2 "),
    ],
)
def test_arrays_that_are_no_features_are_refused(pack, arrays, match):
    with pytest.raises(ValueError, match=match):
        read_table(pack(**arrays))


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (np.ones(4), r"one value for each of the 3 rows of features. Got the shape \(4,\)"),
        (np.ones((3, 1)), r"Got the shape \(3, 1\)"),
        (np.ones(3, dtype=complex), "must hold numbers or text. Got an array of complex128"),
        (np.array(["2020", "2021", "2022"], dtype="M8[Y]"), "must hold numbers or text"),
        (np.array([b"\xff", b"a", b"b"]), r"must hold numbers or text. Got an array of \|S1"),
    ],
)
def test_arrays_that_are_no_labels_are_refused(pack, array, match):
    with pytest.raises(ValueError, match=match):
        read_table(pack(X=np.eye(3), y=array), label="y")


def test_an_unknown_array_is_refused_with_a_suggestion(pack):
    path = pack(X=np.eye(3), labels=np.arange(3))
    with pytest.raises(ValueError, match="an array 'label' for --label. Got none. Did you mean 'labels'?"):
        read_table(path, label="label")
    with pytest.raises(ValueError, match="an array 'q' for --id. Got none. It has 'X', 'labels'"):
        read_table(path, id="q")


class Evil:
    def __reduce__(self):
        return os.mkdir, ("loaded",)


def test_python_objects_are_never_loaded(pack, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evil = np.array([Evil(), Evil()], dtype=object)
    np.save("evil.npy", evil, allow_pickle=True)
    pack("named.npz", X=np.eye(2), y=evil)
    for path, arguments in (("evil.npy", {}), ("named.npz", {}), ("named.npz", {"label": "y"})):
        with pytest.raises(ValueError, match="or holds Python objects, which are never loaded"):
            read_table(path, **arguments)
    assert not (tmp_path / "loaded").exists()


def test_an_archive_of_other_files_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "book.npz", "w") as archive:
        archive.writestr("sheet.xml", "<a/>")
    with pytest.raises(ValueError, match="must have an array 'X' of features"):
        read_table(tmp_path / "book.npz")


def test_an_array_that_claims_to_be_huge_is_refused(write):
    content, claim = make_file(".npy"), b"(2000000000000, 3), }"
    start = content.index(b"(200, 3)")
    content = content[:start] + claim + content[start + len(claim) :]
    with pytest.raises(ValueError, match="is cut, damaged"):
        read_table(write(content, "data.npy"))


def claim(content, old, new):
    """Put another shape into the header of an array, which stays as long as it was."""
    start = content.index(old)
    return content[:start] + new + content[start + len(new) :]


@pytest.mark.parametrize("name", ["data.npy", "data.npz"])
def test_an_array_that_promises_more_than_it_has_is_refused(write, name, monkeypatch):
    content = claim(make_file(".npy"), b"(200, 3), }", b"(200, 9), }")
    if name.endswith("npz"):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("X.npy", content)
        content = file.getvalue()
    monkeypatch.setattr(np.lib.format, "read_array", None)
    with pytest.raises(ValueError, match=r"is cut, damaged, .*it ends before the \(200, 9\) values"):
        read_table(write(content, name))


def test_too_wide_arrays_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "wide.npz", X=np.zeros((1, 10**7), dtype=np.uint8))
    np.save(tmp_path / "wide.npy", np.zeros((2, 300, 500), dtype=np.uint8))
    monkeypatch.setattr(np.lib.format, "read_array", None)
    with pytest.raises(ValueError, match="must have at most 100,000 columns. Got 10,000,000. Keep those"):
        read_table(tmp_path / "wide.npz")
    with pytest.raises(ValueError, match="must have at most 100,000 columns. Got 150,000"):
        read_table(tmp_path / "wide.npy")


def test_more_numbers_than_memory_holds_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "long.npz", X=np.zeros((10**5, 2), dtype=np.uint8))
    monkeypatch.setattr("dahgnn.tables.memory.available_memory", lambda: 2**21)
    monkeypatch.setattr(np.lib.format, "read_array", None)
    with pytest.raises(ValueError, match="The array 'X' of .* must fit into memory 3 times"):
        read_table(tmp_path / "long.npz")


def test_arrays_that_are_not_used_are_not_unpacked(tmp_path, monkeypatch):
    np.savez(tmp_path / "data.npz", X=np.eye(3), other=np.zeros((1, 10**6)), y=np.arange(3))
    table = read_table(tmp_path / "data.npz", label="y")
    assert table.labels == ("0", "1", "2")
    assert "Ignored arrays: 'other'." in table.notes


def test_a_damaged_head_is_not_quoted_at_length(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, X=np.eye(3))
    content = bytearray(path.read_bytes())
    content[26:28] = (2000).to_bytes(2, "little")  # the length of the name that the head begins with
    path.write_bytes(bytes(content) + b"\0" * 3000)
    with pytest.raises(ValueError, match="is cut, damaged") as raised:
        read_table(path)
    assert len(str(raised.value)) < 600
