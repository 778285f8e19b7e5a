"""Tables that are sound files and odd all the same: their labels, their numbers and their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from hostile.results import FIT, PREDICTIONS, demand_agreement, demand_written, read_metrics, read_predictions
from hostile.sheets import LABEL, Sheet, csv_text, sound_sheet
from hostile.trial import OK, REFUSED, Trial

# Words that other programs take for "nothing"; as labels they are classes like any other.
WORDS_LIKE_NOTHING = (
    "None", "NA", "N/A", "NaN", "nan", "null", "NULL", "?", "-", "-1", "0", "False", "none", "#N/A",
)  # fmt: skip
HOSTILE_NAMES = (
    "<script>alert(1)</script>", "=1+1", "+cmd|' /C calc'!A0", "@SUM(1)", "a,b", 'say "hi"',
    "it's", "näive", "日本語", "\u202eevil", "\u200b", "zero\u200bwidth", "a\tb", "x" * 300,
    "{{ 7 * 7 }}", "${HOME}", "%s%n", "../../etc", "🙂", "\u2066left\u2069", "</title>", "-->",
    "\\n", "e\u0301", "a;b", " edge ", "None", "nan", "1e5", "ﬁ", "\x7f", "\u0085",
)  # fmt: skip
ODD_NUMBERS = (
    "inf", "-inf", "1e308", "-1e308", "-0.0", "1e-308", "5e-324", "1e400", "nan", "1_000", "0x10", "１２",
    "1, 5",
)  # fmt: skip


def odd_table(trial: Trial) -> None:
    """Fit one of the tables below."""
    trick = trial.in_turn(TRICKS)
    trial.tell(trick.__name__.strip("_").replace("_", " "))
    trick(trial)


def _fit(trial: Trial, sheet: Sheet, *words: str, text: str | None = None) -> bool:
    """Fit a table; tell whether it was taken. What was taken must hold together and keep every label."""
    (trial.folder / "data.csv").write_text(csv_text(sheet) if text is None else text, "utf-8", newline="")
    ended = trial.command("fit", "data.csv", "--label", LABEL, "--out", "out", *FIT, *words)
    if ended.status != OK:
        return False
    demand_written(trial, ended)
    demand_agreement(trial, trial.folder / "out")
    _demand_labels(trial, sheet)
    return True


def _demand_labels(trial: Trial, sheet: Sheet) -> None:
    """Demand that each given label is a class, and stands in the predictions as it was given."""
    metrics = read_metrics(trial.folder / "out")
    given = [row["given"].strip() for row in read_predictions(trial.folder / "out" / PREDICTIONS)]
    expected = [label.strip() for label in sheet.labels]
    lost = Counter(expected) - Counter(given)
    trial.demand(not lost, "wrong result", f"the given labels {dict(lost)} are not in the predictions")
    missing = {label for label in expected if label} - set(metrics["classes"])
    trial.demand(not missing, "wrong result", f"the classes {missing} are gone")


def _demand_refused(trial: Trial, sheet: Sheet, why: str) -> None:
    taken = _fit(trial, sheet)
    trial.demand(not taken, "wrong result", f"{why} was taken")


def _demand_word(trial: Trial, word: str) -> None:
    trial.demand(
        word in trial.last.said, "wrong result", f"nothing was said of {word!r}: {trial.last.err[-400:]}"
    )


def _one_row(trial: Trial) -> None:
    _demand_refused(trial, sound_sheet(trial.random).first(1), "one row")


def _one_class(trial: Trial) -> None:
    _demand_refused(trial, sound_sheet(trial.random, classes=("only",)), "one class")


def _no_label(trial: Trial) -> None:
    _demand_refused(trial, sound_sheet(trial.random, labelled=0), "a table without a label")


def _few_rows(trial: Trial) -> None:
    _fit(trial, sound_sheet(trial.random, rows=int(trial.random.integers(2, 8))))


def _one_label_a_class(trial: Trial) -> None:
    _fit(trial, sound_sheet(trial.random, labelled=3))


def _a_class_like_nothing(trial: Trial) -> None:
    """Call a class "None" or the like: it must stay, and be told of."""
    word = trial.pick(WORDS_LIKE_NOTHING)
    taken = _fit(trial, sound_sheet(trial.random, classes=(word, "some", "marked")))
    trial.demand(taken, "wrong result", f"a class called {word!r} was refused: {trial.last.err[-300:]}")


def _all_classes_like_nothing(trial: Trial) -> None:
    words = [str(word) for word in trial.random.permutation(WORDS_LIKE_NOTHING)[:3]]
    taken = _fit(trial, sound_sheet(trial.random, classes=words))
    trial.demand(taken, "wrong result", f"classes called {words} were refused: {trial.last.err[-300:]}")


def _every_row_its_class(trial: Trial) -> None:
    _fit(trial, sound_sheet(trial.random, rows=20, labelled=20, classes=[f"c{row}" for row in range(20)]))


def _numbers_as_labels(trial: Trial) -> None:
    """Give labels such as 01 and 1: they are different texts, and so are 1 and 1.0."""
    classes = trial.pick([("1", "01", "001"), ("1", "1.0", "1.00"), ("1e3", "1000"), ("-0", "0")])
    _fit(trial, sound_sheet(trial.random, classes=classes))


def _all_labelled(trial: Trial) -> None:
    _fit(trial, sound_sheet(trial.random, labelled=40))


def _hostile_classes(trial: Trial) -> None:
    classes = [str(name) for name in trial.random.permutation(HOSTILE_NAMES)[:3]]
    taken = _fit(trial, sound_sheet(trial.random, classes=classes))
    if taken:
        page = (trial.folder / "out" / "report.html").read_text(encoding="utf-8")
        trial.demand(
            "<script>alert(1)</script>" not in page, "wrong result", "a class name is markup on the page"
        )


def _hostile_columns(trial: Trial) -> None:
    sheet = sound_sheet(trial.random)
    names = [str(name) for name in trial.random.permutation(HOSTILE_NAMES)[:3]]
    _fit(trial, Sheet((*names, LABEL), sheet.rows))


def _hostile_ids(trial: Trial) -> None:
    """Name rows as an attacker would; `explain` and `suggest` show the names."""
    sheet = sound_sheet(trial.random)
    ids = [*HOSTILE_NAMES, *(f"id{row}" for row in range(len(sheet.rows) - len(HOSTILE_NAMES)))]
    if _fit(trial, sheet.with_column("name", ids), "--id", "name"):
        trial.command("suggest", "out", "-n", "100")
        trial.command("explain", "out", "--row", trial.pick(ids))


def _same_ids(trial: Trial) -> None:
    sheet = sound_sheet(trial.random)
    _fit(trial, sheet.with_column("name", ["twin"] * len(sheet.rows)), "--id", "name")


def _odd_number(trial: Trial) -> None:
    """Put one odd number into a column."""
    sheet = sound_sheet(trial.random)
    word = trial.pick(ODD_NUMBERS)
    cells = ["1.5"] * len(sheet.rows)
    cells[int(trial.random.integers(len(cells)))] = word
    trial.tell(word)
    _fit(trial, sheet.with_column("odd", cells))


def _one_constant_column(trial: Trial) -> None:
    sheet = sound_sheet(trial.random)
    _fit(trial, sheet.with_column("same", [trial.pick(["0", "1e300", "word", ""])] * len(sheet.rows)))


def _all_columns_constant(trial: Trial) -> None:
    sheet = sound_sheet(trial.random)
    _fit(trial, Sheet(sheet.names, tuple(("1", "2", "3", label) for label in sheet.labels)))


def _counting_column(trial: Trial) -> None:
    """Sort the rows by class, and number them: the number alone tells the class."""
    sheet = sound_sheet(trial.random, labelled=40)
    rows = sorted(sheet.rows, key=lambda row: row[-1])
    labels = [row[-1] if trial.random.random() < 0.7 else "" for row in rows]
    name = trial.pick(["Unnamed: 0", "Sample Number", "n", "row"])
    counted = Sheet(sheet.names, tuple(rows)).with_labels(labels)
    first = int(trial.pick([0, 1, 1001]))
    if _fit(trial, counted.with_column(name, [str(first + row) for row in range(len(rows))])):
        _demand_word(trial, name)


def _a_column_that_tells(trial: Trial) -> None:
    """Repeat the label in another column, in other words."""
    sheet = sound_sheet(trial.random, labelled=40)
    code = {"red": "7", "green": "9", "blue": "11"}
    cells = [code[label] for label in sheet.labels]
    if _fit(trial, sheet.with_column("code", cells)):
        _demand_word(trial, "code")


def _twins_with_two_labels(trial: Trial) -> None:
    """Let the same rows occur twice, with different labels."""
    sheet = sound_sheet(trial.random)
    twins = [(*row[:-1], "green" if row[-1] == "red" else "red") for row in sheet.rows[:6]]
    if _fit(trial, Sheet(sheet.names, (*sheet.rows, *twins))):
        told = any(word in trial.last.said for word in ("twice", "different labels", "alike", "equal"))
        trial.demand(told, "wrong result", f"nothing was said of twins: {trial.last.err[-400:]}")


def _all_rows_alike(trial: Trial) -> None:
    sheet = sound_sheet(trial.random)
    _fit(trial, Sheet(sheet.names, tuple((*sheet.rows[0][:-1], label) for label in sheet.labels)))


def _many_missing_cells(trial: Trial) -> None:
    sheet = sound_sheet(trial.random)
    rows = [
        (*("" if trial.random.random() < 0.7 else cell for cell in row[:-1]), row[-1]) for row in sheet.rows
    ]
    _fit(trial, Sheet(sheet.names, tuple(rows)))


def _scaled(trial: Trial) -> None:
    """Multiply all numbers by the same power of ten: the classes are as easy to tell as before."""
    sheet = sound_sheet(trial.random, labelled=30)
    power = trial.pick([-300, -150, -30, 30, 150, 290])
    factor = f"e{power}"
    rows = [(*(cell + factor for cell in row[:-1]), row[-1]) for row in sheet.rows]
    trial.tell(f"times 1e{power}")
    if not _fit(trial, sheet):
        return
    plain = [row["class"] for row in read_predictions(trial.folder / "out" / PREDICTIONS)]
    if _fit(trial, Sheet(sheet.names, tuple(rows))):
        scaled = [row["class"] for row in read_predictions(trial.folder / "out" / PREDICTIONS)]
        agree = np.mean([one == other for one, other in zip(plain, scaled, strict=True)])
        trial.demand(
            agree > 0.8, "wrong result", f"times 1e{power}, only {agree:.0%} of the rows keep their class"
        )


def _text_columns(trial: Trial) -> None:
    sheet = sound_sheet(trial.random)
    words = [trial.pick(["cat", "dog", "", "=2+2", "x" * 2000]) for _ in sheet.rows]
    _fit(trial, sheet.with_column("words", words))


def _free_text(trial: Trial) -> None:
    sheet = sound_sheet(trial.random)
    letters = list("abcdefgh \u202e\u0301日🙂<&")
    words = ["".join(trial.random.choice(letters, size=60)) for _ in sheet.rows]
    _fit(trial, sheet.with_column("note", words))


def _ragged(trial: Trial) -> None:
    """Leave cells out of one row, or add some."""
    sheet = sound_sheet(trial.random)
    lines = csv_text(sheet).splitlines()
    place = int(trial.random.integers(1, len(lines)))
    lines[place] = trial.pick([lines[place].rsplit(",", 2)[0], lines[place] + ",7,7", "", ","])
    _fit(trial, Sheet(sheet.names, sheet.rows[: place - 1]), text="\n".join(lines) + "\n")


def _odd_header(trial: Trial) -> None:
    """Give a header with names that are missing, doubled or only spaces."""
    sheet = sound_sheet(trial.random)
    names = trial.pick(
        [("", "", ""), ("a", "a", "a"), (" ", "  ", "a"), ("x0", "x0 ", "X0"), (LABEL, "a", "b")]
    )
    _fit(trial, Sheet((*names, LABEL), sheet.rows))


def _label_is_a_feature_name(trial: Trial) -> None:
    sheet = sound_sheet(trial.random)
    (trial.folder / "data.csv").write_text(csv_text(sheet), encoding="utf-8")
    trial.command("fit", "data.csv", "--label", "x0", "--id", LABEL, "--out", "out", *FIT)


def _dates(trial: Trial) -> None:
    sheet = sound_sheet(trial.random)
    shapes: Sequence[str] = ("2024-01-{:02d}", "{:02d}.01.2024", "2024-01-{:02d}T10:00:00Z", "0000-00-{:02d}")
    shape = trial.pick(shapes)
    _fit(trial, sheet.with_column("day", [shape.format(row % 31 + 1) for row in range(len(sheet.rows))]))


def _missing_word(trial: Trial) -> None:
    """Name a word for "unlabelled"; where there is no such option yet it is refused."""
    sheet = sound_sheet(trial.random, classes=("None", "some", "marked"))
    (trial.folder / "data.csv").write_text(csv_text(sheet), encoding="utf-8")
    ended = trial.command("fit", "data.csv", "--label", LABEL, "--out", "out", "--missing", "None", *FIT)
    if ended.status == OK:
        classes = read_metrics(trial.folder / "out")["classes"]
        trial.demand(sorted(classes) == ["marked", "some"], "wrong result", f"the classes are {classes}")


def _header_alone(trial: Trial) -> None:
    sheet = sound_sheet(trial.random).first(0)
    (trial.folder / "data.csv").write_text(csv_text(sheet), encoding="utf-8")
    ended = trial.command("fit", "data.csv", "--label", LABEL, "--out", "out", *FIT)
    trial.demand(ended.status == REFUSED, "wrong result", "a header alone was taken")


TRICKS: list[Callable[[Trial], None]] = [
    _one_row, _one_class, _no_label, _few_rows, _one_label_a_class, _a_class_like_nothing,
    _all_classes_like_nothing, _every_row_its_class, _numbers_as_labels, _all_labelled, _hostile_classes,
    _hostile_columns, _hostile_ids, _same_ids, _odd_number, _one_constant_column, _all_columns_constant,
    _counting_column, _a_column_that_tells, _twins_with_two_labels, _all_rows_alike, _many_missing_cells,
    _scaled, _text_columns, _free_text, _ragged, _odd_header, _label_is_a_feature_name, _dates,
    _missing_word, _header_alone,
]  # fmt: skip
