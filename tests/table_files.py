"""Files of tables, whole and damaged, that the tests of several modules share."""

import gzip
import io

import numpy as np
import pandas as pd

from dahgnn.tables.formats import FORMATS
from dahgnn.tables.table import read_table

# The formats that hold arrays, not named columns.
ARRAYS = (".npz", ".npy")
TABLES = tuple(ending for ending in FORMATS if ending not in ARRAYS)
# Those of which every cut is seen.
CHECKED = (".parquet", ".arrow", ".feather", ".npz", ".npy", ".xlsx", ".csv.gz", ".tsv.gz")


def kinds(table):
    return {column.name: column.kind for column in table.columns}


def is_read_or_refused(path):
    try:
        table = read_table(path)
    except ValueError as error:
        return "must" in str(error) or "is cut, damaged" in str(error)
    return np.isfinite(table.features).all()


def pack_frame(frame, ending):
    """Return the bytes of a file with the columns of a frame, as pandas writes it."""
    if ending.endswith(".gz"):
        return gzip.compress(pack_frame(frame, ending.removesuffix(".gz")), mtime=0)
    file = io.BytesIO()
    if ending in (".csv", ".tsv"):
        frame.to_csv(file, sep={".csv": ",", ".tsv": "\t"}[ending], index=False)
    elif ending in (".json", ".jsonl", ".ndjson"):
        frame.to_json(file, orient="records", lines=ending != ".json", force_ascii=False, date_format="iso")
    elif ending == ".parquet":
        frame.to_parquet(file)
    elif ending in (".arrow", ".feather"):
        frame.to_feather(file)
    elif ending == ".xlsx":
        frame.to_excel(file, index=False)
    elif ending == ".npz":
        np.savez_compressed(file, X=frame.to_numpy(dtype=float))
    else:
        np.save(file, frame.to_numpy(dtype=float))
    return file.getvalue()


def make_file(ending):
    """Return the bytes of a small file of 200 rows."""
    numbers = pd.DataFrame(
        {"a": np.arange(200) ** 2, "b": np.arange(200.0) % 7, "c": np.arange(200) % 3 + 0.5}
    )
    return pack_frame(numbers, ending)
