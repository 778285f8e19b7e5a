import datetime
import io
import warnings
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pytest
from openpyxl.chart import BarChart

from dahgnn.tables import workbooks
from dahgnn.tables.sources import Reading, Wanted
from dahgnn.tables.table import read_table
from dahgnn.tables.workbooks import read_workbook


@pytest.fixture
def book(tmp_path):
    """Write rows to the sheets of a workbook."""

    def book(rows=(), change=lambda sheet: None, **sheets):
        workbook = openpyxl.Workbook()
        workbook.remove(workbook.active)
        for name, content in ({"Sheet": rows} | sheets if rows else sheets).items():
            sheet = workbook.create_sheet(name)
            for row in content:
                sheet.append(row)
            change(sheet)
        workbook.save(tmp_path / "data.xlsx")
        return tmp_path / "data.xlsx"

    return book


def replace_in(path, part, change):
    """Write a workbook again with one part of it changed."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[part] = change(parts[part])
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def test_a_sheet_is_a_table(book):
    path = book([["a", "b", "flag", "y"], [1, "x", True, "p"], [2.5, None, False], [None, "z", True, "q"]])
    table = read_table(path, label="y")
    assert table.names == ("a", "b=x", "b=z", "flag")
    assert table.features.tolist() == [[1, 1, 0, 1], [2.5, 0, 0, 0], [1.75, 0, 1, 1]]
    assert table.labels == ("p", None, "q")


def test_empty_rows_and_columns_around_the_table_are_skipped(book):
    path = book(
        [[], ["a", "b", None, None], [], [1, 2, None], [None, None], [3, 4], ["x", 5], [6, 7], [None] * 9]
    )
    with pytest.raises(ValueError, match="'a' must hold numbers, .* Got 'x' in row 7 of the sheet"):
        read_table(path)
    assert read_table(path, drop=["a"]).features.tolist() == [[2], [4], [5], [7]]


def test_a_sheet_can_be_chosen(book):
    path = book(Notes=[["read me"], [1]], Data=[["a"], [1], [2]])
    table = read_table(path, reading=Reading(sheet="Data"))
    assert table.features.tolist() == [[1], [2]]
    assert not any("sheet" in note for note in table.notes)
    first = read_workbook(path, Wanted())
    assert list(first.cells) == ["read me"]
    assert first.notes == ("The table is the first of 2 sheets, 'Notes'. --sheet chooses another.",)
    with pytest.raises(
        ValueError, match="must have a sheet 'data'. Got none of that name. Did you mean 'Data'?"
    ):
        read_table(path, reading=Reading(sheet="data"))
    with pytest.raises(ValueError, match="Got none of that name. It has 'Notes', 'Data'"):
        read_table(path, reading=Reading(sheet="q"))


def test_dates_are_dates(book):
    days = [datetime.datetime(2024, 1, 31, 10, 20, 30), datetime.date(2024, 2, 1)]
    path = book(
        [
            ["day", "time", "n"],
            [days[0], datetime.time(3), 1],
            [days[1], datetime.time(4), 2],
            [None, None, 3],
        ]
    )
    cells = read_workbook(path, Wanted()).cells
    assert cells["day"].dtype == "datetime64[s]"
    assert [str(day) for day in cells["day"]] == ["2024-01-31T10:20:30", "2024-02-01T00:00:00", "NaT"]
    assert cells["time"].type == "times of day or durations"
    assert read_workbook(path, Wanted(label="day")).labels.tolist()[0] == "2024-01-31 10:20:30"


def test_names_of_columns_become_text(book):
    path = book([[2020, 2021.5, True], [1, 2, 3], [4, 5, 6]])
    assert read_table(path).names == ("2020", "2021.5", "True")


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ([["a", None, "b"], [1, 2, 3]], "must name every column. Got empty cells: B1. Name these columns"),
        ([[None, "a"], [1, 2]], "Got empty cells: A1"),
        ([["a", "a"], [1, 2]], "different names. Got 'a' more than once"),
        (
            [["a", "b"], [1, 2], [1, 2, 3]],
            "must have 2 cells, as its header has. Got more in row 3 of the sheet",
        ),
        ([["a", "b"]], "at least one row of data"),
        ([[None]], "must begin with a row of names. Got it empty"),
    ],
)
def test_sheets_that_are_no_tables_are_refused(book, rows, match):
    with pytest.raises(ValueError, match=match):
        read_table(book(rows))


def test_merged_cells_are_refused(book):
    rows = [["a", "b"], [1, "x"], [2, None], [3, "y"]]
    path = book(rows, lambda sheet: sheet.merge_cells("B2:B3"))
    with pytest.raises(
        ValueError, match="must have no merged cells, as only the first .* Got B2:B3. Separate"
    ):
        read_table(path)


def test_formulas_count_as_their_stored_results(book):
    path = book([["a", "b"], [1, "=A2*2"], [2, "=A3*2"]])
    with pytest.raises(
        ValueError, match="must have the results of its formulas. Got none in B2, B3. Open it in"
    ):
        read_table(path)

    def compute(xml):
        return (
            xml.replace(b"<v />", b"<v>4</v>", 1)
            .replace(b"<v></v>", b"<v>4</v>", 1)
            .replace(b"<v />", b"<v>8.5</v>")
            .replace(b"<v></v>", b"<v>8.5</v>")
        )

    replace_in(path, "xl/worksheets/sheet1.xml", compute)
    assert read_table(path).features.tolist() == [[1, 4], [2, 8.5]]


def test_errors_of_cells_are_text(book):
    with pytest.raises(ValueError, match="'a' must hold numbers, .* Got '#N/A' in row 3 of the sheet"):
        read_table(book([["a"], [1], ["#N/A"], [2]]))


def test_a_cell_far_away_costs_nothing(book):
    def far(sheet):
        sheet.cell(1_000_000, 2, "")

    table = read_table(book([["a", "b"], [1, 2], [3, 4]], far))
    assert table.features.tolist() == [[1, 2], [3, 4]]


def test_what_a_sheet_says_of_its_size_is_not_believed(book):
    path = book([["a", "b"], [1, 2], [3, 4]])
    for size in (b'ref="A1:XFD1048576"', b'ref="A1:A1"'):
        replace_in(path, "xl/worksheets/sheet1.xml", lambda xml, size=size: xml.replace(b'ref="A1:B3"', size))
        assert read_table(path).features.tolist() == [[1, 2], [3, 4]]


def test_workbooks_that_unpack_to_too_much_are_refused(book, monkeypatch):
    path = book([["a"], *([0] for _ in range(5000))])
    monkeypatch.setattr(workbooks, "_MOST_BYTES", 2**16)
    with pytest.raises(ValueError, match="must unpack to at most 0 MiB. Got 0 MiB. Save it as .csv"):
        read_table(path)


def test_entities_that_unfold_without_end_are_refused(book):
    lol = b"".join(b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10) for n in range(1, 12))
    head = b'<!DOCTYPE w [<!ENTITY l0 "lololololololololol">' + lol + b"]>"

    def change(xml):
        start = xml.index(b"<worksheet")
        return xml[:start] + head + xml[start:].replace(b"<v>1</v>", b"<v>&l11;</v>")

    path = replace_in(book([["a"], [1], [2]]), "xl/worksheets/sheet1.xml", change)
    with pytest.raises(ValueError, match="is cut, damaged, locked by a password, or no Excel workbook"):
        read_table(path)


def test_sheets_of_charts_are_left_out(tmp_path):
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    workbook.create_chartsheet("Chart").add_chart(BarChart())
    sheet = workbook.create_sheet("Data")
    for row in (["a"], [1], [2]):
        sheet.append(row)
    workbook.save(tmp_path / "data.xlsx")
    assert read_table(tmp_path / "data.xlsx").features.tolist() == [[1], [2]]


def test_what_pandas_writes_is_read(tmp_path):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pd.DataFrame({"a": [1.5, np.nan], "b": ["x", None]}).to_excel(file)
    (tmp_path / "data.xlsx").write_bytes(file.getvalue())
    with pytest.raises(ValueError, match="Got empty cells: A1"):
        read_table(tmp_path / "data.xlsx")
