"""Files of tables, whole and damaged, that the tests of several modules share."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dahgnn.tables.table import read_table


def kinds(table):
    return {column.name: column.kind for column in table.columns}


def is_read_or_refused(path):
    try:
        table = read_table(path)
    except ValueError as error:
        return "must" in str(error) or "is cut, damaged" in str(error)
    return np.isfinite(table.features).all()


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
