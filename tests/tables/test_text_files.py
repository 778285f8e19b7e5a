import csv
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dahgnn.tables.sources import MISSING_WORDS, Reading
from dahgnn.tables.table import read_table


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
    with pytest.raises(ValueError, match="must have 2 cells, as its header has. Got 1 in line 3 of the file"):
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
    with pytest.raises(ValueError, match=f"must have 2 cells, .* Got {got} in line {line} of the file"):
        read_table(write(text))


@pytest.mark.parametrize(
    ("text", "line"),
    [('a,b\n1,2\n1,"2\n3,4\n', 3), ('a,b\n"1"x,2\n', 2), (f"a,b\n1,{'x' * 10_000_001}\n", 2)],
    ids=["open", "behind", "long"],
)
def test_malformed_text_is_refused(write, text, line):
    match = f"must be a well-formed table. Got an error in the row that begins in line {line}: "
    with pytest.raises(ValueError, match=match):
        read_table(write(text))


def test_cells_may_be_long(write):
    before = csv.field_size_limit()
    long = "word " * 100_000
    table = read_table(write(f"a,b\n1,{long}\n2,other\n"))
    assert table.names == ("a", "b=other", f"b={long}")
    assert csv.field_size_limit() == before


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


def test_too_many_columns_are_refused_at_the_header(write):
    header = ",".join(f"c{place}" for place in range(100_001))
    with pytest.raises(ValueError, match="must have at most 100,000 columns. Got 100,001. Keep those that"):
        read_table(write(f"{header}\n1,2\n"))


def test_more_cells_than_memory_holds_are_refused_before_they_are_read(write, monkeypatch):
    path = write("a,b\n" + "1,2\n" * 1000)
    monkeypatch.setattr("dahgnn.tables.memory.available_memory", lambda: 47_999)
    monkeypatch.setattr(pd, "read_csv", None)
    with pytest.raises(ValueError, match="The content of .* must fit into memory 3 times"):
        read_table(path)


def test_a_wide_table_takes_no_more_time_a_column_than_a_narrow_one(write):
    rows = [",".join(str(row * place % 7 + 0.5) for place in range(4000)) for row in range(1, 4)]
    path = write("\n".join([",".join(f"c{place}" for place in range(4000)), *rows]) + "\n")
    start = time.process_time()
    table = read_table(path)
    assert time.process_time() - start < 10
    assert table.source.cells["c3999"].tolist() == [3999 % 7 + 0.5, 2 * 3999 % 7 + 0.5, 3 * 3999 % 7 + 0.5]


# What users may say of a file


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "iso8859-15", "utf-16", "utf-8", "UTF-8"])
def test_the_encoding_can_be_named(write, encoding):
    path = write("größe,wort,y\n1.5,für,ä\n2.5,über,ö\n", encoding=encoding)
    table = read_table(path, label="y", reading=Reading(encoding=encoding))
    assert table.names == ("größe", "wort=für", "wort=über")
    assert table.labels == ("ä", "ö")


def test_a_byte_order_mark_is_no_part_of_a_name(write):
    path = write("a,b\n1,2\n2,3\n", encoding="utf-8-sig")
    assert read_table(path, reading=Reading(encoding="utf-8")).names == ("a", "b")


def test_bytes_of_another_encoding_are_refused_with_the_option(write):
    path = write("größe,b\n1,2\n".encode("cp1252"))
    with pytest.raises(ValueError, match="text in UTF-8, .* or name its encoding with --encoding, such as"):
        read_table(path)
    with pytest.raises(ValueError, match="must be text in ascii. Got other bytes"):
        read_table(path, reading=Reading(encoding="ascii"))


@pytest.mark.parametrize("sign", ["|", ":", " ", "^", "tab", "\\t", ";"])
def test_the_delimiter_can_be_named(write, sign):
    text = 'a#"b,;:|^ c"#d,e,f\n1#2#3\n4#5#"6"\n'.replace("#", {"tab": "\t", "\\t": "\t"}.get(sign, sign))
    for name in ("data.csv", "data.tsv"):
        table = read_table(write(text, name), reading=Reading(delimiter=sign))
        assert table.names == ("a", "b,;:|^ c", "d,e,f")
        assert table.features.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("sign", [";", "\t"])
def test_decimal_commas_are_found_where_they_can_be_nothing_else(write, sign):
    text = "a#b#c#d#y\n1,5#1,234#7#0.5#u,v\n-,25#2,5e3#8#NA#1,5\n#3,000#9#2.5#\n".replace("#", sign)
    table = read_table(write(text), label="y")
    assert table.features.tolist() == [[1.5, 1.234, 7, 0.5], [-0.25, 2500, 8, 1.5], [0.625, 3, 9, 2.5]]
    assert table.labels == ("u,v", "1,5", None)
    assert (
        "Numbers have decimal commas: 2 columns ('a', 'b') were read so. If not, say --decimal '.'."
        in table.notes
    )


def test_decimal_commas_can_be_named(write):
    text = 'a,b\n"1,234","x"\n"2,500","y"\n'
    table = read_table(write(text), reading=Reading(decimal=","))
    assert table.features.tolist() == [[1.234, 1, 0], [2.5, 0, 1]]
    assert not any("comma" in note for note in table.notes)
    with pytest.raises(ValueError, match="'a' must hold numbers, such as 1234.5. Got '1,234'"):
        read_table(write(text))


def test_a_comma_that_may_stand_before_thousands_is_refused(write):
    path = write("a;b\n1,234;1\n12,345;2\n99;3\n")
    with pytest.raises(ValueError, match=r"'a' must hold .* Got numbers such as '1,234', whose comma may be"):
        read_table(path)
    assert read_table(path, drop=["a"]).names == ("b",)
    assert read_table(path, reading=Reading(decimal=",")).features[:, 0].tolist() == [1.234, 12.345, 99]
    with pytest.raises(ValueError, match="'a' must hold numbers, such as 1234.5. Got '1,234'"):
        read_table(path, reading=Reading(decimal="."))


@pytest.mark.parametrize(
    "cells", [["1.234", "2.345"], ["1.234,5", "7,5"], ["1,5", "2.5"], ["1.234.567", "8"]]
)
def test_points_beside_decimal_commas_are_refused_where_they_may_mean_two_things(write, cells):
    path = write("a;b\n0,5;{}\n1,5;{}\n2,5;\n".format(*cells))
    with pytest.raises(ValueError, match=r"'b' must hold .* Got numbers such as '.*', whose point may be"):
        read_table(path)
    assert read_table(path, drop=["b"]).features.tolist() == [[0.5], [1.5], [2.5]]
    assert read_table(path, label="b").labels == (*cells, None)


def test_a_word_among_decimal_commas_is_what_is_refused(write):
    path = write("a;b\n0,5;1,5\n1,5;n.d.\n2,5;3,5\n")
    with pytest.raises(
        ValueError, match="'b' must hold numbers, such as 1234.5. Got 'n.d.' in line 3 of the file"
    ):
        read_table(path)


def test_text_with_commas_stays_text_in_the_fit_and_after_it(write):
    text = "a;b\n0,5;1,5\n1,5;low\n2,5;high\n3,5;low\n"
    table = read_table(write(text))
    assert table.names == ("a", "b=1,5", "b=high", "b=low")
    again = read_table(write(text), columns=table.columns)
    assert np.array_equal(again.features, table.features)


# Any text at all


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
    table, same = (
        read_table(tmp_path / f"data.{kind}", label="y", keep=["row"]) for kind in ("csv", "parquet")
    )
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
