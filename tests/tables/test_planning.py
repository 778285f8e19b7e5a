import re

import numpy as np
import pytest

from dahgnn.tables.table import read_table

COUNTED = "Unnamed: 0,Sample Number,size\n" + "".join(
    f"{row},{(7 * row) % 12 + 1},{row**2}\n" for row in range(12)
)


def kinds(table):
    return {column.name: column.kind for column in table.columns}


def test_columns_that_count_the_rows_are_left_out_unless_kept(write):
    table = read_table(write(COUNTED))
    assert kinds(table) == {"Unnamed: 0": "unused", "Sample Number": "unused", "size": "number"}
    assert (
        "2 columns ('Unnamed: 0', 'Sample Number') were left out: they count the rows. "
        "To use one all the same, say --keep with its name." in table.notes
    )
    kept = read_table(write(COUNTED), keep=["Sample Number"])
    assert kept.names == ("Sample Number", "size")
    assert kept.features[:3, 0].tolist() == [1, 8, 3]
    with pytest.raises(ValueError, match="must have a column 'Sample' for --keep. .* Did you mean"):
        read_table(write(COUNTED), keep=["Sample"])


def test_few_rows_may_be_counted_by_a_measure(write):
    assert read_table(write("dose\n1\n2\n3\n")).names == ("dose",)


def test_a_column_of_an_array_that_counts_is_left_out(pack):
    features = np.column_stack([np.arange(12), np.arange(12) ** 2])
    assert read_table(pack(X=features)).names == ("x1",)
    assert read_table(pack(X=features), keep=["x0"]).names == ("x0", "x1")


def test_the_index_of_pandas_is_left_out_though_it_has_no_name(write):
    path = write(",a\n0,5\n1,6\n")
    table = read_table(path)
    assert table.names == ("a",)
    assert "1 column ('') was left out: it counts the rows." in " ".join(table.notes)
    assert read_table(path, drop=[""]).names == ("a",)
    assert read_table(path, id="").ids == ("0", "1")


@pytest.mark.parametrize("index", [("3", "7", "8"), ("Mazda", "Fiat 128", "Fiat 126")])
@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_the_index_of_a_part_of_a_pandas_table_is_left_out(write, index, name):
    path = write(f"{name},a\n" + "".join(f"{each},{place**2}\n" for place, each in enumerate(index)))
    table = read_table(path)
    assert table.names == ("a",)
    assert f"1 column ('{name}') was left out: the index of a pandas table." in table.notes
    assert read_table(path, columns=table.columns).names == ("a",)


@pytest.mark.parametrize("cells", [("0", "7", "7"), ("0.5", "7", "8"), ("0", "", "8")])
def test_another_column_without_a_name_must_be_put_somewhere(write, cells):
    with pytest.raises(
        ValueError, match="Every column must have a name. .* --id '', or drop it with --drop ''"
    ):
        read_table(write(",a\n" + "".join(f"{cell},{place}\n" for place, cell in enumerate(cells))))


@pytest.mark.parametrize("name", ["id", "ID", "user_id", "Sample ID", "customerId", "person.ID"])
def test_columns_that_are_called_ids_are_left_out_unless_kept(write, name):
    rows = [f"{1000 + 37 * (5 * row % 31) % 4000},{row % 3}\n" for row in range(40)]
    path = write(f"{name},size\n" + "".join(rows))
    table = read_table(path)
    assert table.names == ("size",)
    assert (
        f"1 column ('{name}') was left out: called an id, and of many values. "
        "To name rows by a column, say --id with its name, and to use it all the same, --keep." in table.notes
    )
    assert read_table(path, keep=[name]).names == (name, "size")


def test_names_and_values_unlike_ids_stay(write):
    rows = [f"{row * 37 % 41 * 3},{row % 20},{row / 4},{row**2}\n" for row in range(41)]
    table = read_table(write("humid,id,ID,valid\n" + "".join(rows)))
    assert table.names == ("humid", "id", "ID", "valid")


@pytest.mark.parametrize("cell", ["{}.50 EUR", "${}", "{} %", "{}.5%", "€ {}", " {} kg "])
def test_numbers_with_a_unit_are_refused_unless_they_are_to_be_text(write, cell):
    path = write("price,size\n" + "".join(f"{cell.format(row)},{row % 3}\n" for row in range(10, 40)))
    got = cell.format(10)
    with pytest.raises(
        ValueError, match=re.escape(f"'price' must hold numbers, such as 1234.5. Got '{got}' in line 2")
    ):
        read_table(path)
    assert read_table(path, drop=["price"]).names == ("size",)


def test_many_rows_are_counted_with_commas(write):
    table = read_table(write("size\n" + "".join(f"{row % 7}\n" for row in range(1200))))
    assert table.notes[0] == "data.csv has 1,200 rows, and 1 column becomes 1 feature."


def test_numbers_with_a_unit_can_be_text(write):
    path = write("price,size\n" + "".join(f"{row} EUR,{row % 3}\n" for row in range(30)))
    assert len(read_table(path, text=["price"]).names) > 1


@pytest.mark.parametrize("cell", ["T-{}", "{}A", "{} Main Street", "{} {:c}oad"])
def test_codes_and_addresses_are_no_numbers_with_a_unit(write, cell):
    cells = [cell.format(row, 65 + row % 25) for row in range(30)]
    path = write("where,size\n" + "".join(f"{cell},{row % 3}\n" for row, cell in enumerate(cells)))
    assert "size" in read_table(path).names


def test_few_amounts_with_a_unit_are_categories(write):
    path = write("pack,size\n" + "".join(f"{row % 4} kg,{row % 3}\n" for row in range(30)))
    assert read_table(path).names[:2] == ("pack=0 kg", "pack=1 kg")


def test_ids_of_text_are_left_out_though_they_come_again(write):
    path = write("id,size\n" + "".join(f"player{row % 25},{row**2}\n" for row in range(100)))
    assert read_table(path).names == ("size",)
    assert len(read_table(path, text=["id"]).names) > 1


def test_a_table_whose_columns_all_count_is_refused(write):
    with pytest.raises(
        ValueError, match="can be a feature. Got 0 that are dropped, 0 with .* and 1 that count"
    ):
        read_table(write("row\n" + "".join(f"{row}\n" for row in range(12))))


def test_the_index_of_a_pandas_table_can_be_kept(tmp_path):
    import pandas as pd

    pd.DataFrame({"a": [1, 2]}, index=pd.Index([7, 9], name="key")).to_parquet(tmp_path / "data.parquet")
    assert read_table(tmp_path / "data.parquet", keep=["key"]).names == ("a", "key")
