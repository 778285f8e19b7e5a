"""Decide how the columns of a new table become features.

The content decides, not the type it is stored as, so that CSV and Parquet read alike. A column with one value
throughout, or none at all, gives no feature; nor does the index of a pandas table, which has no name in a
text file, nor a column that counts the rows or is called an id, unless the user keeps it. Text of at most 20
distinct values is a category. Of more, it is free text if it looks like that; else its cells are taken for
names of rows, and left out. Paths of pictures that are there become their pixels. The user can say which
columns are free text or pictures. Refused are infinities, numbers beyond float32, dates of which nothing
tells whether the day or the month comes first, and text of which at least half the cells are numbers, also
when these have thousands separators, decimal commas or one unit. All that is refused is said at once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dahgnn.checks import bad_type, bad_value
from dahgnn.tables.cells import as_dates, as_texts, classify, first, no_number
from dahgnn.tables.columns import Column
from dahgnn.tables.dates import as_days, choose_parts, find_order
from dahgnn.tables.leaks import counts_rows
from dahgnn.tables.messages import Problems, counted, no_column, quoted
from dahgnn.tables.missing import NUMBER, Missing
from dahgnn.tables.picture_encoder import learn_pictures, look_like_pictures
from dahgnn.tables.sources import Source, Texts, text_array
from dahgnn.tables.texts import Encoder, learn_sentences, learn_words, looks_like_text

MOST_CATEGORIES = 20
# What is said of one column that counts the rows, and of several.
_COUNTS = (
    "it counts the rows. To use it all the same, say --keep with its name",
    "they count the rows. To use one all the same, say --keep with its name",
)
_NAMES = (
    "text of many values, such as names of rows. To use a column as free text, say --text with its name, "
    "and to name rows by it, --id"
)
# Said of columns such as id, user_id, Sample ID and customerId, of more values than a category has.
_IDS = (
    "called an id, and of many values. To name rows by a column, say --id with its name, "
    "and to use it all the same, --keep"
)
_ID_NAME = re.compile(r"(?:.*[\s_.-])?(?:id|ID|Id)|.*[a-z]I[dD]")
# pandas writes its index without a name, and calls such a column so when it reads it.
_INDEX_NAME = re.compile(r"|Unnamed: [0-9]+")
# From so many rows on, whole numbers that count up by the same step are hardly a measure.
_FEWEST_TO_COUNT = 10
_WITH_SEPARATORS = re.compile(
    r"\s*[+-]?(?:[0-9]{1,3}(?:[.,'’_ \u00a0\u202f][0-9]{3})+(?:[.,][0-9]+)?|[0-9]+,[0-9]+)\s*"
)
# A number and its unit, such as $12.50, 12.5 % and 70 kg. More letters than that may be words.
_WITH_UNIT = re.compile(r"\s*([€$£¥]?)\s*[+-]?[0-9][0-9.,]*\s*([€$£¥%]|(?<=\s)[^\W\d_]{1,4}|)\s*")
_DATE = re.compile(
    r"\s*(?:[0-9]{4}([-/.])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([-/.])[0-9]{1,2}\2(?:[0-9]{4}|[0-9]{2}))"
    r"(?:[T ].*)?"
)


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a user says of the columns of a table.

    Parameters
    ----------
    drop : sequence of str
        Columns to leave out.
    keep : sequence of str
        Columns that become features although they count or name the rows.
    missing : sequence of str
        Words that mean missing, in the labels as in the features.
    text, picture : sequence of str
        Columns that are free text, and columns of paths of pictures, whatever they look like.
    text_model : str or None
        A local model of ``sentence-transformers`` that turns free text into features; without it, words do.
    """

    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    missing: Sequence[str] = ()
    text: Sequence[str] = ()
    picture: Sequence[str] = ()
    text_model: str | None = None

    def __post_init__(self) -> None:
        for name in ("drop", "keep", "missing", "text", "picture"):
            value = getattr(self, name)
            if isinstance(value, str):
                wanted = "a sequence of words" if name == "missing" else "a sequence of column names"
                raise bad_type(name, "read_table", wanted, repr(value), f"Use ['{value}'].")
        for option in ("keep", "text", "picture"):
            both = [name for name in getattr(self, option) if name in self.drop]
            if both:
                raise bad_value(option, "read_table", "of other columns than 'drop'", repr(both[0]))

    @property
    def wanted(self) -> tuple[str, ...]:
        """The columns that become features although they may look like names of rows."""
        return (*self.keep, *self.text, *self.picture)


@dataclass
class _Plan:
    """The columns so far, and why some of them give no feature."""

    columns: list[Column] = field(default_factory=list)
    constant: list[str] = field(default_factory=list)
    counting: list[str] = field(default_factory=list)
    index: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    @property
    def n_of_rows(self) -> int:
        """How many columns tell which row it is, and nothing of it."""
        return sum(map(len, (self.counting, self.index, self.ids, self.names)))


def plan_columns(
    path: Path, source: Source, choices: Choices, problems: Problems
) -> tuple[list[Column], list[str]]:
    """Decide how the columns of a file become features, and say what is left out; gather what is refused."""
    for option in ("drop", "keep", "text", "picture"):
        for name in getattr(choices, option):
            if name not in source.cells:
                problems.add(no_column(path, name, source.cells, f"for --{option}"))
    n_problems = len(problems.sentences)
    left_out = {*choices.drop, *source.index} - {*choices.wanted}
    plan = _Plan()
    for name in source.cells:
        with problems.gathered():
            unused = Column(name=name, kind="unused")
            plan.columns.append(
                unused if name in left_out else _plan_column(path, name, source, choices, plan)
            )
    if len(problems.sentences) == n_problems and all(column.kind == "unused" for column in plan.columns):
        problems.add(_no_feature(path, plan, left_out))
    return plan.columns, _say_left_out(source, choices, plan)


def beside(path: Path) -> Path:
    """Return the folder that paths of pictures in a table are relative to."""
    return path if path.is_dir() else path.parent


def _no_feature(path: Path, plan: _Plan, left_out: set[str]) -> ValueError:
    return ValueError(
        f"The file {path} must have a column that can be a feature. Got {len(left_out)} that are dropped, "
        f"{len(plan.constant)} with one value or none, and {plan.n_of_rows} that count "
        "or name the rows."
    )


def _say_left_out(source: Source, choices: Choices, plan: _Plan) -> list[str]:
    stored = [name for name in source.index if name not in (*choices.drop, *choices.wanted)]
    said = (
        (list(choices.drop), "dropped, as asked"),
        ([*stored, *plan.index], "left out: the index of a pandas table"),
        (plan.constant, "left out: the same in all rows, or missing in all"),
        (plan.counting, f"left out: {_COUNTS[len(plan.counting) > 1]}"),
        (plan.ids, f"left out: {_IDS}"),
        (plan.names, f"left out: {_NAMES}"),
    )
    return [f"{counted(names)} {words}." for names, words in said if names]


def _plan_column(path: Path, name: str, source: Source, choices: Choices, plan: _Plan) -> Column:
    column, values = _plan_values(path, name, source, choices)
    reason = _reason_against(name, column, values, choices, plan)
    if reason is not None:
        reason.append(name)
        column = Column(name=name, kind="unused")
    if column is None or (not name and reason is None):
        raise ValueError(
            "Every column must have a name. Got one without. Use it as --id '', or drop it with --drop ''."
        )
    return replace(column, missing=tuple(choices.missing))


def _reason_against(
    name: str, column: Column | None, values: np.ndarray, choices: Choices, plan: _Plan
) -> list[str] | None:
    """Return the list of the plan for columns that give no feature, as this one does not, or None."""
    if column is not None and column.kind == "unused":
        return plan.constant
    if name not in choices.wanted:
        if column is not None and column.kind == "number" and _counts_rows(name, values):
            return plan.counting
        if _INDEX_NAME.fullmatch(name) and _all_differ(values):
            return plan.index
        if _ID_NAME.fullmatch(name) and _has_many_names(column, values):
            return plan.ids
    return plan.names if column is None else None


def _counts_rows(name: str, values: np.ndarray) -> bool:
    # pandas writes its index as a column without a name.
    fewest = _FEWEST_TO_COUNT if name else 2
    return len(values) >= fewest and counts_rows(values)


def _all_differ(values: np.ndarray) -> bool:
    """Whether values can be an index: whole numbers, texts or dates, all different and none missing."""
    if values.ndim > 1 or (values.dtype.kind == "f" and not np.all(np.trunc(values) == values)):
        return False
    cells = values.tolist()
    return None not in cells and len(set(cells)) == len(cells)


def _has_many_names(column: Column | None, values: np.ndarray) -> bool:
    """Whether there are more different whole numbers or texts than a category has."""
    if column is not None and column.kind == "number":
        present = values[~np.isnan(values)]
        return bool(np.all(np.trunc(present) == present)) and len(np.unique(present)) > MOST_CATEGORIES
    # Text of fewer values is a category.
    return column is None or column.kind == "text"


def _plan_values(path: Path, name: str, source: Source, choices: Choices) -> tuple[Column | None, np.ndarray]:
    """Return how a column becomes features, or None if it names the rows, and its values."""
    missing = Missing(choices.missing)
    if name in choices.text:
        texts = missing.in_features(as_texts(source.cells[name], name))
        return _plan_free_text(name, texts, choices), text_array(texts)
    if name in choices.picture:
        texts = missing.in_features(as_texts(source.cells[name], name))
        return _plan_pictures(path, name, texts), text_array(texts)
    kind, values = classify(source, name, missing)
    if kind == "text" and look_like_pictures(values.tolist(), beside(path)):
        return _plan_pictures(path, name, values.tolist()), values
    if kind == "text":
        return _plan_text(name, source, values.tolist(), choices), values
    if kind == "date":
        return _plan_dates(name, values), values
    if kind == "vector":
        return _plan_vectors(name, values), values
    present = values[~np.isnan(values)]
    if not present.size or present.min() == present.max():
        return Column(name=name, kind="unused"), values
    return Column(name=name, kind=kind, fill=float(np.median(present))), values


def _plan_dates(name: str, dates: np.ndarray, order: str = "year") -> Column:
    present = dates[~np.isnat(dates)]
    parts = choose_parts(present) if present.size else ()
    if not parts:
        return Column(name=name, kind="unused")
    fill = float(np.median(as_days(present)))
    return Column(name=name, kind="date", fill=fill, parts=parts, order=order)


def _plan_vectors(name: str, vectors: np.ndarray) -> Column:
    there = ~np.isnan(vectors)
    counts = there.sum(0)
    mean = np.where(there, vectors, 0).sum(0) / np.maximum(counts, 1)
    if not np.any(there & (vectors != mean)):
        return Column(name=name, kind="unused")
    return Column(name=name, kind="vector", mean=tuple(mean.tolist()))


def _plan_text(name: str, source: Source, texts: Texts, choices: Choices) -> Column | None:
    counts = Counter(text for text in texts if text is not None)
    half = counts.total() / 2
    numbers = [text for text in counts if NUMBER.fullmatch(text) or _WITH_SEPARATORS.fullmatch(text)]
    if sum(counts[text] for text in numbers) >= half:
        raise no_number(source, name, texts)
    if sum(counts[text] for text in counts if _DATE.fullmatch(text)) >= half:
        order = find_order(counts)
        if order is None:
            raise _undecided_dates(name, source, texts)
        return _plan_dates(name, as_dates(source, name, texts, order), order)
    if len(counts) > MOST_CATEGORIES:
        _refuse_units(name, source, texts)
        return _plan_free_text(name, texts, choices) if looks_like_text(texts) else None
    if len(counts) == 1 and None not in texts:
        return Column(name=name, kind="unused")
    return Column(name=name, kind="category", categories=tuple(sorted(counts)))


def _undecided_dates(name: str, source: Source, texts: Texts) -> ValueError:
    """Return the error of dates of which no cell tells whether the day or the month comes first."""
    row, text = first(texts, _DATE.fullmatch)
    return ValueError(
        f"The column '{name}' must hold dates in which day, month and year are told apart, such as "
        f"2024-01-31. Got {quoted(text)} in {source.at(row)}, and no other cell tells which is which. Write "
        "them so, or drop the column with --drop."
    )


def _refuse_units(name: str, source: Source, texts: Texts) -> None:
    """Refuse numbers of which at least half have the same unit, as their words would tell nothing of them."""
    units = [match and match.groups() for match in (_WITH_UNIT.fullmatch(text or "") for text in texts)]
    most = Counter(unit for unit in units if unit and any(unit)).most_common(1)
    if most and most[0][1] >= sum(text is not None for text in texts) / 2:
        row = units.index(most[0][0])
        raise ValueError(
            f"The column '{name}' must hold numbers, such as 1234.5. Got {quoted(texts[row] or '')} in "
            f"{source.at(row)}, with a unit. Write them without it, drop the column with --drop, "
            "or use it as free text with --text."
        )


def _plan_free_text(name: str, texts: Texts, choices: Choices) -> Column:
    encoder: Encoder | None
    encoder = learn_words(texts) if choices.text_model is None else learn_sentences(choices.text_model)
    if encoder is None:
        raise ValueError(
            f"The column '{name}' must have words that are in two rows at least, to be used as text. "
            "Got none. Leave it out with --drop, or name rows by it with --id."
        )
    return Column(name=name, kind="text", encoder=encoder)


def _plan_pictures(path: Path, name: str, texts: Texts) -> Column:
    if not any(text and text.strip() for text in texts):
        return Column(name=name, kind="unused")
    return Column(name=name, kind="picture", encoder=learn_pictures(texts, beside(path)))
