import json

import numpy as np
import pytest

from dahgnn.tables.columns import Column
from dahgnn.tables.keeping import encoder_from_parts, pack_columns, unpack_columns
from dahgnn.tables.picture_encoder import PictureEncoder
from dahgnn.tables.table import read_table
from dahgnn.tables.texts import SentenceEncoder, learn_words

COLUMNS = (
    Column(name="a", kind="number", fill=1.5, missing=("?",)),
    Column(name="c", kind="category", categories=("x", "y")),
    Column(name="d", kind="date", fill=3.0, parts=("days", "year")),
    Column(name="v", kind="vector", mean=(1.0, 2.0)),
    Column(name="u", kind="unused"),
)


def test_columns_survive_json():
    packed, arrays = pack_columns(COLUMNS)
    assert arrays == {}
    assert packed[4] == {"name": "u", "kind": "unused", "categories": []}
    assert unpack_columns(json.loads(json.dumps(packed)), arrays) == COLUMNS


def test_columns_of_an_earlier_version_are_read():
    packed = [{"name": "a", "kind": "number", "fill": 1.0, "categories": []}]
    assert unpack_columns(packed, {}) == (Column(name="a", kind="number", fill=1.0),)


def test_text_keeps_its_words_and_arrays(write):
    path = write(
        "a,x\n" + "".join(f"{row},{'red apple' if row % 2 else 'green pear'} {row}\n" for row in range(30))
    )
    table = read_table(path, text=["x"], keep=["a"])
    packed, arrays = pack_columns(table.columns)
    assert set(arrays) == {"column.1.weights", "column.1.components"}
    columns = unpack_columns(json.loads(json.dumps(packed)), arrays)
    assert np.array_equal(read_table(path, columns=columns).features, table.features)


def test_every_encoder_is_kept_in_parts():
    texts = ["red apple", "red pear", "apple pear"]
    words = learn_words(texts)
    assert np.array_equal(encoder_from_parts("words", *words.parts()).encode(texts), words.encode(texts))
    sentences = encoder_from_parts("sentences", *SentenceEncoder(model="here", width=3).parts())
    assert (sentences.model, sentences.width) == ("here", 3)
    pictures = PictureEncoder(shape=(1, 2), mean=np.array([0.25, 0.5], dtype=np.float32))
    again = encoder_from_parts("pictures", *pictures.parts())
    assert (again.shape, again.mean.tolist()) == ((1, 2), [0.25, 0.5])
    with pytest.raises(ValueError, match="'kind' .* one of 'words', 'sentences', 'pictures'. Got 'x'"):
        encoder_from_parts("x", {}, {})
