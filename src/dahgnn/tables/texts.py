"""Free text as features: words and what they have in common, or a local model of sentences.

`WordEncoder` counts words, weighs them by tf-idf and brings them to few features by a truncated singular
value decomposition, so that texts are near each other if they have words in common, or words that occur in
the same texts. There are about as many features as the square root of the number of rows, and at most 64:
with more, few rows would lie far apart by chance alone. `SentenceEncoder` asks a model of
``sentence-transformers`` that is on this machine. Both give rows of length 1, and zeros for a text of which
they know nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from dahgnn.checks import bad_type, bad_value, check_count
from dahgnn.tables.sources import Texts

_MOST_FEATURES, _MOST_WORDS = 64, 20_000
_NOWHERE = Path()
_WORD = re.compile(r"\w+")
# Of rows that have a word of another row, where words say what rows have in common.
_LEAST_SHARED = 0.5


class Encoder(Protocol):
    """What turns texts into features; a fitted model keeps it."""

    kind: ClassVar[str]

    @property
    def width(self) -> int:
        """The number of features."""
        ...

    def encode(self, texts: Texts, folder: Path) -> np.ndarray:
        """Return the features of texts, (n, width), which may be paths relative to the folder."""
        ...

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return what JSON can hold of it, and its arrays."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class WordEncoder:
    """Weighted words, brought to few features.

    Parameters
    ----------
    words : sequence of v str
        The words that are known, in lower case.
    weights : ndarray of float32, (v,)
        How much a word counts: more if few texts have it.
    components : ndarray of float32, (d, v)
        What the words add to each feature.
    """

    kind: ClassVar[str] = "words"
    words: tuple[str, ...]
    weights: np.ndarray
    components: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(self.words))
        count = len(self.words)
        if not count or not all(isinstance(word, str) for word in self.words):
            raise bad_type("words", "WordEncoder", "a sequence of texts", f"{count} values")
        for name, shape in (("weights", (count,)), ("components", (len(self.components), count))):
            array = getattr(self, name)
            if array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
                raise bad_value(name, "WordEncoder", f"finite numbers of shape {shape}", array.shape)

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.components)

    def encode(self, texts: Texts, folder: Path = _NOWHERE) -> np.ndarray:  # noqa: ARG002, the seam
        """Return the features of texts; those without a known word are zeros."""
        from sklearn.preprocessing import normalize

        weighted = _weigh(_count(texts, self.words), self.weights)
        return np.asarray(normalize(weighted @ self.components.T.astype(np.float64)))

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the words, and the arrays."""
        return {"words": list(self.words)}, {"weights": self.weights, "components": self.components}


@dataclass(frozen=True, kw_only=True, eq=False)
class SentenceEncoder:
    """A local model of sentences.

    Parameters
    ----------
    model : str
        The folder of a model of ``sentence-transformers``, or the name of one in the cache of this machine.
    width : int
        How many features it gives.
    """

    kind: ClassVar[str] = "sentences"
    model: str
    width: int

    def __post_init__(self) -> None:
        if not isinstance(self.model, str):
            raise bad_type("model", "SentenceEncoder", "text", repr(self.model))
        check_count("width", self.width, "SentenceEncoder")

    def encode(self, texts: Texts, folder: Path = _NOWHERE) -> np.ndarray:  # noqa: ARG002, the seam
        """Return the features of texts; missing ones are zeros."""
        there = [row for row, text in enumerate(texts) if text is not None and text.strip()]
        features = np.zeros((len(texts), self.width))
        if there:
            sentences = [texts[row] for row in there]
            model = load_sentence_model(self.model)
            found = np.asarray(model.encode(sentences, normalize_embeddings=True, show_progress_bar=False))
            if found.shape != (len(there), self.width):
                raise ValueError(
                    f"The model '{self.model}' must give {self.width} features, as at the fit. "
                    f"Got {found.shape[1:]}."
                )
            features[there] = found
        return features

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the name of the model and its width."""
        return {"model": self.model, "width": self.width}, {}


def load_sentence_model(name: str) -> Any:
    """Return a model of ``sentence-transformers`` that is on this machine; nothing is downloaded."""
    try:
        from sentence_transformers import SentenceTransformer
    except ModuleNotFoundError as error:
        raise ValueError(
            "The option --text-model needs the package sentence-transformers, which is not installed "
            f"({error}). Install it, or leave the option out: then words are counted."
        ) from error
    try:
        return SentenceTransformer(name, local_files_only=True)
    except Exception as error:  # whatever the package happens upon in the folder
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"The option --text-model must name a model on this machine: its folder, or one in the cache. "
            f"Got '{name}' ({reason})."
        ) from error


def learn_sentences(name: str) -> SentenceEncoder:
    """Return the encoder of a local model."""
    model = load_sentence_model(name)
    return SentenceEncoder(model=name, width=int(model.get_sentence_embedding_dimension()))


def learn_words(texts: Texts) -> WordEncoder | None:
    """Return an encoder of the words of texts, or None if no word is in two of them.

    The words that most texts have are kept, up to 20,000; the weight of a word is ln((1 + n) / (1 + m)) + 1
    if m of n texts have it.
    """
    from sklearn.decomposition import TruncatedSVD

    among = _texts_with(texts)
    words = sorted(word for word, _ in among.most_common(_MOST_WORDS) if among[word] > 1)
    if not words:
        return None
    n_texts = sum(text is not None for text in texts)
    have = np.array([among[word] for word in words])
    weights = (np.log((1 + n_texts) / (1 + have)) + 1).astype(np.float32)
    count = min(_MOST_FEATURES, max(2, round(len(texts) ** 0.5)))
    if count >= len(words):
        components = np.eye(len(words), dtype=np.float32)
    else:
        with np.errstate(divide="ignore", invalid="ignore"):  # texts of the same words do not vary
            found = TruncatedSVD(count, random_state=0).fit(_weigh(_count(texts, words), weights))
        components = found.components_.astype(np.float32)
    return WordEncoder(words=tuple(words), weights=weights, components=components)


def looks_like_text(texts: Texts) -> bool:
    """Whether cells are text whose words say what rows have in common, rather than names of rows.

    The cells have two words or more on average, or come twice on average; and half of them at least have a
    word that another cell has.
    """
    present = [text for text in texts if text is not None]
    several = sum(len(text.split()) for text in present) >= 2 * len(present)
    if not several and len(present) < 2 * len(set(present)):
        return False
    among = _texts_with(texts)
    shared = sum(any(among[word] > 1 for word in set(_words(text))) for text in present)
    return shared >= _LEAST_SHARED * len(present)


def _words(text: str | None) -> list[str]:
    return [] if text is None else _WORD.findall(text.lower())


def _texts_with(texts: Texts) -> Counter[str]:
    """Return how many texts have each word."""
    return Counter(word for text in texts for word in dict.fromkeys(_words(text)))


def _count(texts: Texts, words: Sequence[str]) -> Any:
    """Return how often each text has each word, as a sparse matrix (n, v)."""
    from scipy.sparse import csr_array

    places = {word: place for place, word in enumerate(words)}
    rows: list[int] = []
    columns: list[int] = []
    for row, text in enumerate(texts):
        found = [places[word] for word in _words(text) if word in places]
        columns += found
        rows += [row] * len(found)
    ones = np.ones(len(rows))
    counts = csr_array((ones, (rows, columns)), shape=(len(texts), len(words)))
    counts.sum_duplicates()
    return counts


def _weigh(counts: Any, weights: np.ndarray) -> Any:
    """Return rows of length 1 in which a word counts by its weight and the logarithm of its number."""
    from scipy.sparse import diags_array
    from sklearn.preprocessing import normalize

    counts.data = 1 + np.log(counts.data)
    return normalize(counts @ diags_array(weights.astype(np.float64)))
