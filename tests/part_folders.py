"""Folders of Parquet files that the tests of several modules share."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

KINDS = ("ant", "bee", "cat")
_CENTRES = 4 * np.random.default_rng(7).normal(size=(3, 4))


def animal_columns(rows, begin=0, labelled=5, seed=0):
    """Three kinds of animal by four measures, a colour, a vector and a name; one in so many is labelled."""
    numbers = np.arange(begin, begin + rows)
    generator = np.random.default_rng([seed, begin])
    measures = _CENTRES[numbers % 3] + generator.normal(size=(rows, 4))
    measures[generator.random((rows, 4)) < 0.02] = np.nan
    colours = [None if number % 31 == 30 else ("red", "blue")[number % 2] for number in numbers]
    return {
        **{f"m{place}": pa.array(measures[:, place], from_pandas=True) for place in range(4)},
        "colour": pa.array(colours, pa.string()),
        "point": pa.array(list(generator.normal(size=(rows, 2))), pa.list_(pa.float32())),
        "name": pa.array([f"x{number}" for number in numbers], pa.string()),
        "kind": pa.array([KINDS[n % 3] if n % labelled == 0 else None for n in numbers], pa.string()),
    }


def write_animals(folder, sizes=(120, 7, 0, 200), group=50, **others):
    """Write animals to several files, in row groups of one size or of the size that each file has."""
    folder.mkdir(parents=True, exist_ok=True)
    begin = 0
    for place, size in enumerate(sizes):
        groups = group if isinstance(group, int) else group[place]
        table = pa.table(animal_columns(size, begin, **others))
        pq.write_table(table, folder / f"part-{place}.parquet", row_group_size=groups)
        begin += size
    return folder


def write_whole(path, sizes=(120, 7, 0, 200), **others):
    """Write the same rows to one file."""
    begins = np.cumsum([0, *sizes])
    tables = [
        pa.table(animal_columns(size, int(begin), **others))
        for size, begin in zip(sizes, begins, strict=False)
    ]
    pq.write_table(pa.concat_tables(tables), path)
    return path


def change_column(path, name, values):
    """Write a file again with another column in the place of one."""
    table = pq.read_table(path)
    place = table.schema.get_field_index(name)
    pq.write_table(table.set_column(place, name, values), path)
