import csv
import io
import os
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rights import plain_user

from dahgnn.tables.sources import MISSING_WORDS, Format, Source
from dahgnn.tables.table import read_table


def kinds(table):
    return {column.name: column.kind for column in table.columns}


def is_read_or_refused(path):
    try:
        table = read_table(path)
    except ValueError as error:
        return "must" in str(error) or "is cut, damaged" in str(error)
    return np.isfinite(table.features).all()


# Text files


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le-bom", "utf-16-be-bom"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_encodings_line_ends_and_delimiters(write, encoding, end, sign):
    text = end.join(["größe,c", '1.5,"a;,\tb"', '2.5,"x', 'y ""z"""', "", ""]).replace(",", sign)
    if encoding.endswith("-bom"):
        encoding, text = encoding.removesuffix("-bom"), "\ufeff" + text
    table = read_table(write(text, encoding=encoding))
    assert table.features.tolist() == [[1.5, 1, 0], [2.5, 0, 1]]
    assert table.names[0] == "größe"
    assert table.columns[1].categories == ("a;,\tb".replace(",", sign), f'x{end}y "z"')


def test_the_delimiter_is_that_of_the_header_outside_quotes(write):
    table = read_table(write('"a,b,c";d\n1;2\n3;4\n'))
    assert table.names == ("a,b,c", "d")
    assert read_table(write("a,b\t\n1\t2\n3\t4\n".replace("\t\n", "\tc\n"), "data.TSV")).names == ("a,b", "c")
    assert read_table(write("a\n1\n2\n")).names == ("a",)


def test_blank_lines_are_skipped_and_lines_of_blanks_refused(write):
    assert read_table(write("\n\na,b\n\n1,2\n\n\n3,4\n\n")).features.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(
        ValueError, match="must have 2 cells, as its header has. Got 1 in the row that ends in line 3"
    ):
        read_table(write("a,b\n1,2\n  \n3,4\n"))
    with pytest.raises(ValueError, match="no line of blanks alone among its rows. Got 1. Write"):
        read_table(write("a\n1\n  \n3\n"))
    assert read_table(write('a\n1\n""\n3\n')).features.tolist() == [[1], [2], [3]]


@pytest.mark.parametrize(
    ("text", "got", "line"),
    [
        ("a,b\n1,2\n1,2,3\n", 3, 3),
        ("a,b\n1,2,3\n4,5,6\n", 3, 2),
        ("a,b\n1,2\n3", 1, 3),
        ('a,b\n"x\ny",2\n1\n', 1, 4),
    ],
)
def test_rows_of_another_length_are_refused_with_their_line(write, text, got, line):
    with pytest.raises(
        ValueError, match=f"must have 2 cells, .* Got {got} in the row that ends in line {line}"
    ):
        read_table(write(text))


@pytest.mark.parametrize("text", ['a,b\n1,"2\n3,4\n', 'a,b\n"1"x,2\n', f"a,b\n1,{'x' * 200_000}\n"])
def test_malformed_text_is_refused(write, text):
    with pytest.raises(ValueError, match="must be a well-formed table. Got an error in line "):
        read_table(write(text))


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "must have content. Got an empty file"),
        (b"\n\n", "must begin with a line of column names"),
        (b"\xef\xbb\xbf", "must begin with a line of column names"),
        (b"a,b\n", "at least one row of data"),
        (b"a,b", "at least one row of data"),
        (b"a,a,b,b\n1,2,3,4\n", "different names. Got 'a', 'b' more than once"),
        (
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
            "text in UTF-8, or in UTF-16 with a byte order mark. .* Save it as UTF-8",
        ),
        ("größe,b\n1,2\n".encode("latin-1"), "text in UTF-8"),
        (b"a,b\n" + b"1,2\n" * 50_000 + "ä,2\n".encode("cp1252"), "text in UTF-8"),
        ("a,b\n1,2\n".encode("utf-16-le"), "holds zero bytes"),
        ("a,b\n1,2\n".encode("utf-32"), "holds zero bytes"),
        ("a,b\n1,2\n".encode("utf-16") + b"\n", "text in UTF-8"),
        (b"a,b\n1,2\n\0,3\n", "holds zero bytes"),
    ],
)
def test_text_files_of_another_kind_are_refused(write, content, match):
    with pytest.raises(ValueError, match=match):
        read_table(write(content))


cells = st.one_of(st.none(), st.floats(width=32, allow_nan=False, allow_infinity=False))
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    numbers=st.lists(cells, min_size=3, max_size=12),
    texts=st.lists(words.filter(lambda word: word not in MISSING_WORDS), min_size=12, max_size=12),
    sign=st.sampled_from(",;\t"),
)
def test_what_is_read_is_what_was_written(tmp_path, numbers, texts, sign):
    n = len(numbers)
    frame = pd.DataFrame(
        {"text": [f"t{text}" for text in texts[:n]], "y": texts[:n], "number": numbers, "row": range(n)}
    )
    frame["number"] = frame["number"].astype(float)
    frame.to_csv(tmp_path / "data.csv", sep=sign, index=False, quoting=csv.QUOTE_ALL)
    frame.to_parquet(tmp_path / "data.parquet")
    table, same = (read_table(tmp_path / f"data.{kind}", label="y") for kind in ("csv", "parquet"))
    assert list(table.features[:, -1]) == list(range(n))
    present = [number for number in numbers if number is not None]
    if "number" in table.names:
        want = [np.median(present) if number is None else number for number in numbers]
        assert np.array_equal(table.features[:, table.names.index("number")], want)
    else:
        assert len(set(present)) <= 1
    if len(set(frame["text"])) > 1:
        hot = table.features[:, : len(set(frame["text"]))].argmax(1)
        assert [table.columns[0].categories[place] for place in hot] == list(frame["text"])
    assert np.array_equal(table.features, same.features)
    assert (table.names, table.columns, table.labels) == (same.names, same.columns, same.labels)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(words.filter(bool), min_size=2, max_size=8, unique=True))
def test_ids_are_read_as_written(tmp_path, texts):
    frame = pd.DataFrame({"id": texts, "row": range(len(texts))})
    frame.to_csv(tmp_path / "data.csv", index=False, quoting=csv.QUOTE_ALL)
    assert read_table(tmp_path / "data.csv", id="id").ids == tuple(texts)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=60), suffix=st.sampled_from(["csv", "tsv", "parquet", "npz", "npy"]))
def test_any_bytes_are_read_or_refused(tmp_path, content, suffix):
    path = tmp_path / f"data.{suffix}"
    path.write_bytes(content)
    assert is_read_or_refused(path)


# Parquet


def test_parquet_reads_as_csv_does(store, write):
    columns = {
        "whole": pa.array([1, None, 3], pa.int64()),
        "part": pa.array([1.5, None, 2.5], pa.float32()),
        "flag": [True, None, False],
        "colour": pa.array(["red", "", "blue"]).dictionary_encode(),
        "money": pa.array(["1.50", "2.25", None]).cast(pa.decimal128(5, 2)),
        "digits": ["1", "2", "NA"],
        "none": pa.nulls(3),
        "view": pa.array(["a", "b", "a"], pa.large_string()),
        "y": pa.array([3.0, None, 4.0]),
    }
    path = store(columns)
    table = read_table(path, label="y")
    pq.read_table(path).to_pandas(ignore_metadata=True).to_csv(path.with_suffix(".csv"), index=False)
    same = read_table(path.with_suffix(".csv"), label="y")
    assert np.array_equal(table.features, same.features)
    assert (table.names, table.columns, table.labels) == (same.names, same.columns, same.labels)
    assert table.labels == ("3", None, "4")
    assert table.features[:, 0].tolist() == [1, 2, 3]


def test_exact_integers_and_dates_can_be_ids_and_labels(store):
    big = [2**60 + 1, 2**60 + 3]
    days = pa.array([0, 1], pa.date32())
    table = read_table(store({"id": big, "day": days, "n": [1, 2]}), id="id", label="day")
    assert table.ids == (str(big[0]), str(big[1]))
    assert table.labels == ("1970-01-01", "1970-01-02")


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pa.array([0, 1], pa.timestamp("ns")), "Got dates or times"),
        (pa.array([0, 1], pa.date32()), "Got dates or times"),
        (pa.array([0, 1], pa.duration("s")), "Got dates or times"),
        (pa.array([[1.0], [2.0]]), "Got values of type list"),
        (pa.array([b"a", b"b"]), "Got values of type binary"),
        (pa.array([{"a": 1}, {"a": 2}]), "Got values of type struct"),
    ],
)
def test_values_of_other_types_are_refused(store, column, match):
    path = store({"x": column, "n": [1, 2]})
    with pytest.raises(ValueError, match=f"The column 'x' must hold numbers, flags or text. {match}"):
        read_table(path)
    assert read_table(path, drop=["x"]).names == ("n",)


def test_lists_are_no_labels(store):
    with pytest.raises(ValueError, match="The column 'x' must hold text or numbers. Got values of type list"):
        read_table(store({"x": [[1.0], [2.0]], "n": [1, 2]}), label="x")


def test_the_index_of_pandas_is_no_feature(tmp_path):
    path = tmp_path / "data.parquet"
    pd.DataFrame({"a": [1, 2]}, index=pd.Index([7, 9], name="key")).to_parquet(path)
    table = read_table(path)
    assert table.names == ("a",)
    assert "1 column ('key') was left out: the index of a pandas table." in table.notes
    assert read_table(path, id="key").ids == ("7", "9")


@pytest.mark.parametrize("metadata", [b"{", b"[]", b'{"index_columns": 3}', b'{"index_columns": [3, "q"]}'])
def test_damaged_words_of_pandas_are_ignored(tmp_path, metadata):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"a": [1, 2]}).replace_schema_metadata({b"pandas": metadata}), path)
    assert read_table(path).names == ("a",)


def test_parquet_without_rows_or_with_names_twice_is_refused(store, tmp_path):
    with pytest.raises(ValueError, match="at least one row of data"):
        read_table(store({"a": pa.array([], pa.int64())}))
    with pytest.raises(ValueError, match="at least one row of data"):
        read_table(store({}))
    path = tmp_path / "twice.parquet"
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), path)
    with pytest.raises(ValueError, match="different names. Got 'a' more than once"):
        read_table(path)


# Arrays


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
        (np.array(["a", "", "NA"]), ("a", None, None)),
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
        ({"X": np.array([[1, np.inf], [1, 2]])}, r"'x1' must hold finite numbers .* Got inf in row 0"),
        ({"X": np.array([[1, 2], [1, -1e39]])}, r"'x1' must hold finite numbers .* Got -1e\+39 in row 1"),
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


# Files


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


def make_parquet():
    file = io.BytesIO()
    pq.write_table(pa.table({"a": list(range(200)), "b": [str(n % 3) + "x" for n in range(200)]}), file)
    return file.getvalue()


def make_npz():
    file = io.BytesIO()
    np.savez_compressed(file, X=np.arange(600.0).reshape(200, 3))
    return file.getvalue()


def make_npy():
    file = io.BytesIO()
    np.save(file, np.arange(600.0).reshape(200, 3))
    return file.getvalue()


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize(
    ("suffix", "make"), [("parquet", make_parquet), ("npz", make_npz), ("npy", make_npy)]
)
def test_cut_files_are_refused(write, suffix, make, share):
    content = make()
    with pytest.raises(ValueError, match="is cut, damaged"):
        read_table(write(content[: max(1, int(share * len(content)))], f"data.{suffix}"))


@pytest.mark.parametrize(
    ("suffix", "make"), [("parquet", make_parquet), ("npz", make_npz), ("npy", make_npy)]
)
def test_damaged_files_are_read_or_refused(write, suffix, make):
    content = make()
    for place in np.linspace(0, len(content) - 1, 60).astype(int):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        assert is_read_or_refused(write(bytes(damaged), f"data.{suffix}"))


def test_files_of_another_kind_are_refused(write):
    for suffix in ("parquet", "npz", "npy"):
        for content in (
            b"\x89PNG\r\n\x1a\n" + bytes(100),
            b"a,b\n1,2\n",
            make_parquet(),
            make_npz(),
            make_npy(),
        ):
            if content == {"parquet": make_parquet, "npz": make_npz, "npy": make_npy}[suffix]():
                continue
            with pytest.raises(ValueError, match="is cut, damaged"):
                read_table(write(content, f"data.{suffix}"))


def test_an_archive_of_other_files_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "book.npz", "w") as archive:
        archive.writestr("sheet.xml", "<a/>")
    with pytest.raises(ValueError, match="must have an array 'X' of features"):
        read_table(tmp_path / "book.npz")


def test_an_array_that_claims_to_be_huge_is_refused(write):
    content, claim = make_npy(), b"(2000000000000, 3), }"
    start = content.index(b"(200, 3)")
    content = content[:start] + claim + content[start + len(claim) :]
    with pytest.raises(ValueError, match="is cut, damaged"):
        read_table(write(content, "data.npy"))


def test_a_format_is_an_entry_of_the_registry(write, monkeypatch):
    def read(path, wanted):
        numbers = np.array([float(word) for word in path.read_text().split()])
        return Source(n_rows=len(numbers), cells={"number": numbers})

    monkeypatch.setattr("dahgnn.tables.sources.FORMATS", {".txt": Format(read)})
    assert read_table(write("1 2 5", "data.TXT")).features.tolist() == [[1], [2], [5]]
    with pytest.raises(ValueError, match="must end in one of .txt. Got '.csv'"):
        read_table(write("a\n1\n"))


@pytest.mark.parametrize("name", ["data.xlsx", "data", "data.csv.gz"])
def test_an_unknown_suffix_is_refused(write, name):
    with pytest.raises(ValueError, match="must end in one of .csv, .tsv, .parquet, .npz, .npy. Got"):
        read_table(write("a,b\n1,2\n", name))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "npz", "npy"])
def test_what_is_no_readable_file_is_refused(tmp_path, suffix):
    path = tmp_path / f"data.{suffix}"
    with pytest.raises(FileNotFoundError, match="There is no file .*data"):
        read_table(path)
    os.mkfifo(path)
    with pytest.raises(OSError, match="must be a regular file"):
        read_table(path)
    path.unlink()
    path.touch()
    with pytest.raises(ValueError, match="must have content. Got an empty file"):
        read_table(path)
    path.chmod(0)
    with plain_user(), pytest.raises(PermissionError, match="cannot be read: permission denied"):
        read_table(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError, match="must be a file. Got a folder"):
        read_table(path)


def append(path):
    with path.open("a") as file:
        file.write("5,6\n")


def touch(path):
    os.utime(path, ns=(1, 1))


def swap(path):
    status = path.stat()
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


@pytest.mark.parametrize("change", [append, touch, swap, os.unlink])
def test_a_file_that_changes_while_it_is_read_is_refused(write, monkeypatch, change):
    path = write("a,b\n1,2\n3,4\n")
    read = pd.read_csv

    def read_and_change(*arguments, **settings):
        frame = read(*arguments, **settings)
        change(path)
        return frame

    monkeypatch.setattr(pd, "read_csv", read_and_change)
    with pytest.raises(OSError, match="data.csv changed while it was read"):
        read_table(path)


@pytest.mark.parametrize(
    ("suffix", "make", "module", "name"),
    [("npy", make_npy, np, "load"), ("parquet", make_parquet, pq, "ParquetFile")],
)
def test_other_files_that_change_are_refused(write, monkeypatch, suffix, make, module, name):
    path = write(make(), f"data.{suffix}")
    read = getattr(module, name)

    def read_and_change(*arguments, **settings):
        touch(path)
        return read(*arguments, **settings)

    monkeypatch.setattr(module, name, read_and_change)
    with pytest.raises(OSError, match=f"data.{suffix} changed while it was read"):
        read_table(path)
