import math
from pathlib import Path

import numpy as np
import pytest

from dahgnn.tables.texts import (
    SentenceEncoder,
    WordEncoder,
    learn_sentences,
    learn_words,
    looks_like_text,
)

TEXTS = ["Red apple, red!", "apple pie", None, "a pie", "", "Red car"]


def test_words_are_weighed_by_tf_idf():
    encoder = learn_words(TEXTS)
    assert encoder.words == ("apple", "pie", "red")
    weight = math.log(6 / 3) + 1  # two of five texts that are there have the word
    assert np.allclose(encoder.weights, weight)
    assert encoder.width == 2  # the root of six rows
    plain = WordEncoder(words=encoder.words, weights=encoder.weights, components=np.eye(3, dtype=np.float32))
    twice = 1 + math.log(2)
    length = math.hypot(1, twice)
    root = math.sqrt(0.5)
    assert np.allclose(
        plain.encode(TEXTS),
        [[1 / length, 0, twice / length], [root, root, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]],
    )


def test_components_are_those_of_the_decomposition():
    draw = np.random.default_rng(0)
    texts = [" ".join(f"w{word}" for word in draw.integers(0, 30, size=12)) for _ in range(100)]
    encoder = learn_words(texts)
    assert encoder.width == 10
    plain = WordEncoder(words=encoder.words, weights=encoder.weights, components=np.eye(30, dtype=np.float32))
    matrix = plain.encode(texts)
    _, values, right = np.linalg.svd(matrix, full_matrices=False)
    lengths = np.linalg.norm(matrix @ encoder.components.T, axis=0)
    assert np.allclose(lengths[:5], values[:5], rtol=0.02)
    assert np.allclose(np.abs(encoder.components[0]), np.abs(right[0]), atol=1e-3)
    assert np.array_equal(encoder.encode(texts), learn_words(texts).encode(texts))


def test_few_words_are_features_of_their_own():
    encoder = learn_words(["a b", "b a", "a", "b"] * 10)
    assert encoder.words == ("a", "b")
    assert encoder.components.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("texts", [[None, None], ["", " "], ["a", "b"], ["one"]])
def test_texts_without_a_word_in_common_teach_nothing(texts):
    assert learn_words(texts) is None


def test_damaged_parts_are_refused():
    encoder = learn_words(TEXTS)
    for change in (
        {"words": ("a",)},
        {"words": ("a", 3, "b")},
        {"words": ()},
        {"weights": np.full(3, np.nan, dtype=np.float32)},
        {"components": np.ones((2, 4), dtype=np.float32)},
        {"components": np.ones((2, 3), dtype=int)},
    ):
        values = {"words": encoder.words, "weights": encoder.weights, "components": encoder.components}
        with pytest.raises((TypeError, ValueError), match="parameter of WordEncoder"):
            WordEncoder(**values | change)
    with pytest.raises(ValueError, match="'width' parameter of SentenceEncoder"):
        SentenceEncoder(model="here", width=0)


@pytest.mark.parametrize(
    ("texts", "is_text"),
    [
        ([f"the quick fox {row}" for row in range(30)], True),
        ([["Paris", "Rome", "Oslo"][row % 3] + str(row % 12) for row in range(60)], True),
        ([f"user_{row}" for row in range(30)], False),
        ([f"first{row} last{row}" for row in range(30)], False),
        ([f"A-{row}" for row in range(30)], False),
        ([f"http://example.org/{row}" for row in range(30)], False),
    ],
)
def test_text_is_told_from_names_of_rows(texts, is_text):
    assert looks_like_text(texts) is is_text


def test_missing_texts_need_no_model_of_sentences():
    assert SentenceEncoder(model="nowhere", width=2).encode([None, " "]).tolist() == [[0, 0], [0, 0]]


def test_a_model_of_sentences_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match="The option --text-model (needs the package|must name a model on this)"
    ):
        learn_sentences(str(tmp_path / "model"))


def test_texts_of_the_same_words_do_without_a_warning():
    texts = [f"name{row} again and again in a long review of thing {row}" for row in range(20)]
    encoder = learn_words(texts)
    features = encoder.encode(texts, Path())
    np.testing.assert_allclose(features, features[:1].repeat(20, 0), atol=1e-6)
