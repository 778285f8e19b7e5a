"""Make the tables of an experiment beside the paper's, and write them as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dahgnn.report.summary import Cell, Comparison, Summary

ABSENT = "–"
# A page holds so many rows of a table in LaTeX, with its caption.
_ROWS_A_PAGE = 36


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of plain text that each format escapes in its own way.

    ``strong`` holds (row, column) of what is set in bold, ``lesser`` the rows that belong to the one above,
    and ``folded`` those that a page begins without.
    """

    title: str
    note: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: frozenset[tuple[int, int]] = frozenset()
    lesser: frozenset[int] = frozenset()
    folded: frozenset[int] = frozenset()

    def row_kind(self, row: int) -> str:
        """Say how a page sets a row: as "lesser", "folded", both, or in no special way."""
        kinds = {"lesser": row in self.lesser, "folded": row in self.folded}
        return " ".join(name for name, holds in kinds.items() if holds)

    def cell_kind(self, column: int, text: str = "") -> str:
        """Say how a page sets a cell or a heading: as "text", "good", "far", or in no special way."""
        if self.head[column] in ("Remark", "Printed row of"):
            return "text"
        return {"≈": "good", "≠": "far"}.get(text[-1:], "")


def accuracy_tables(summary: Summary) -> list[Table]:
    """Return a table a dataset: methods by label counts, the paper's rows and the differences below ours."""
    return [_accuracy_table(summary, dataset) for dataset in summary.datasets]


def _accuracy_table(summary: Summary, dataset: str) -> Table:
    columns = summary.label_counts[dataset]
    rows: list[tuple[str, ...]] = []
    strong: set[tuple[int, int]] = set()
    lesser: set[int] = set()
    folded: set[int] = set()
    best = [_best(summary, dataset, count) for count in columns]
    for method in summary.methods:
        start = len(rows)
        row = [summary.cells.get((dataset, method.name, count)) for count in columns]
        strong |= {
            (start, place + 1)
            for place, cell in enumerate(row)
            if cell and round(cell.mean, 2) == best[place]
        }
        rows.append((method.title, *(_spread(cell, summary.runs) for cell in row)))
        printed = [summary.printed.get((dataset, method.name, count)) for count in columns]
        if any(printed):
            lesser |= {len(rows), len(rows) + 1}
            rows.append(("in the paper", *(f"{p[0]:.2f} ± {p[1]:.2f}" if p else ABSENT for p in printed)))
            rows.append(("difference", *(_difference(cell) for cell in row)))
        if method.hidden_at_first:
            folded |= set(range(start, len(rows)))
    return Table(
        title=f"{summary.datasets[dataset]}: test accuracy in %",
        note=(
            f"Mean ± standard deviation of {summary.runs} runs by number of labelled nodes; the best of ours "
            "in a complete column is bold. Differences are in points; ≈ marks those within two joint "
            "standard deviations of the printed mean, ≠ those beyond."
        ),
        head=("Method", *(f"{count:,}" for count in columns)),
        rows=tuple(rows),
        strong=frozenset(strong),
        lesser=frozenset(lesser),
        folded=frozenset(folded),
    )


def _best(summary: Summary, dataset: str, count: int) -> float | None:
    """Return the highest mean of a column as it is written, or None while some of its runs are missing."""
    places = ((dataset, method.name, count) for method in summary.methods)
    cells = [summary.cells[place] for place in places if place in summary.cells]
    if not cells or any(cell.n < summary.runs for cell in cells):
        return None
    return max(round(cell.mean, 2) for cell in cells)


def _spread(cell: Cell | None, runs: int) -> str:
    if cell is None:
        return ABSENT
    deviation = "" if cell.deviation is None else f" ± {cell.deviation:.2f}"
    return f"{cell.mean:.2f}{deviation}" + ("" if cell.n == runs else f" ({cell.n} of {runs})")


def _difference(cell: Cell | None) -> str:
    if cell is None or cell.difference is None:
        return ABSENT
    return signed(cell.difference) + {True: " ≈", False: " ≠", None: ""}[cell.agrees]


def signed(value: float) -> str:
    """Write a difference in points with its sign.

    Examples
    --------
    >>> signed(-0.312), signed(2), signed(-0.001)
    ('−0.31', '+2.00', '0.00')
    """
    text = f"{value:+.2f}".replace("-", "−")
    return "0.00" if text[1:] == "0.00" else text


def agreement_table(summary: Summary) -> Table | None:
    """Return how many printed cells our methods meet, or None where nothing is printed for them."""
    if not summary.agreements:
        return None
    rows = [
        (
            summary.title_of(entry.method),
            summary.title_of(entry.against),
            f"{entry.within} of {entry.cells} cells",
            f"{entry.above} of {entry.cells} cells",
            ABSENT if entry.ahead is None else f"{entry.ahead} of {entry.cells} cells",
            ABSENT if entry.measured == entry.cells else f"{entry.cells - entry.measured}",
        )
        for entry in summary.agreements
    ]
    return Table(
        title="Our methods against the paper's printed rows",
        note="Within: |mean − printed| ≤ 2 √(s² + s_printed²). Above: our mean exceeds the printed one, or "
        "that of each baseline of ours.",
        head=(
            "Method",
            "Printed row of",
            "Within two joint deviations",
            "Above it",
            "Above all baselines",
            "Not yet run",
        ),
        rows=tuple(rows),
    )


def comparison_tables(summary: Summary) -> list[Table]:
    """Return a table of paired tests for each dataset that has any."""
    found = []
    for dataset, title in summary.datasets.items():
        mine = [entry for entry in summary.comparisons if entry.dataset == dataset]
        if mine:
            found.append(_comparison_table(summary, title, mine))
    return found


def _comparison_table(summary: Summary, title: str, entries: Sequence[Comparison]) -> Table:
    head = ("Labels", "n", "Difference", "95 % interval", "Wilcoxon p", "Holm", "t-test p", "Holm")
    remarks = any(entry.note for entry in entries)
    rows: list[tuple[str, ...]] = []
    strong: set[tuple[int, int]] = set()
    pair = None
    for entry in entries:
        if pair != (entry.first, entry.second):
            pair = (entry.first, entry.second)
            strong.add((len(rows), 0))
            names = " less ".join(summary.title_of(name) for name in pair)
            rows.append((names, *[""] * (len(head) - 1 + remarks)))
        rows.append((*_comparison_row(entry), *([entry.note] if remarks else [])))
    return Table(
        title=f"{title}: paired differences",
        note=(
            "First less second in points, over n runs that share a split, with the 95 % interval of the t "
            "distribution. p-values are two-sided: Wilcoxon's signed-rank test and the paired t-test, each "
            "as computed and corrected by Holm's method over the label counts of a pair. The splits draw "
            "from the same nodes, so the runs are not independent and p-values tend to be too small."
        ),
        head=(*head, *(["Remark"] if remarks else [])),
        rows=tuple(rows),
        strong=frozenset(strong),
    )


def _comparison_row(entry: Comparison) -> tuple[str, ...]:
    interval = ABSENT
    if entry.low is not None and entry.high is not None:
        interval = f"{signed(entry.low)} to {signed(entry.high)}"
    return (
        f"{entry.n_labelled:,}",
        f"{entry.n}",
        ABSENT if entry.difference is None else signed(entry.difference),
        interval,
        *(_p(p) for p in (entry.wilcoxon, entry.wilcoxon_holm, entry.t_test, entry.t_test_holm)),
    )


def _p(value: float | None) -> str:
    if value is None:
        return ABSENT
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def time_tables(summary: Summary) -> list[Table]:
    """Return the mean seconds and epochs of a fit, a table a dataset."""
    return [_time_table(summary, dataset) for dataset in summary.datasets]


def _time_table(summary: Summary, dataset: str) -> Table:
    columns = summary.label_counts[dataset]
    rows = [
        (method.title, *(_duration(summary.cells.get((dataset, method.name, count))) for count in columns))
        for method in summary.methods
    ]
    return Table(
        title=f"{summary.datasets[dataset]}: time of a fit",
        note=f"Mean seconds / epochs, if it has any, by number of labelled nodes. {summary.hardware}.",
        head=("Method", *(f"{count:,}" for count in columns)),
        rows=tuple(rows),
    )


def _duration(cell: Cell | None) -> str:
    if cell is None:
        return ABSENT
    # This keeps three digits with their zeros; "100." loses its point.
    seconds = f"{cell.seconds:#.3g}".removesuffix(".")
    return f"{seconds} s" + ("" if cell.epochs is None else f" / {cell.epochs:.0f}")


def state(summary: Summary) -> str:
    """Say how much of the experiment is there, and where it ran."""
    absent = f" No runs yet: {', '.join(summary.absent)}." if summary.absent else ""
    versions = ", ".join(f"{name} {version}" for name, version in summary.versions.items())
    cnn = "".join(
        f" The CNN behind the features of {title} is right for {100 * accuracy:.2f} % of the test images."
        for title, accuracy in summary.cnn.items()
    )
    return (
        f"{summary.n_lines:,} of {summary.expected:,} runs.{absent}{cnn} Finished between {summary.first} "
        f"and {summary.last} on {summary.hardware}, with {versions}."
    )


def sections(summary: Summary) -> list[tuple[str, list[Table]]]:
    """Return the tables under their headings, in the order of the report."""
    agreement = agreement_table(summary)
    found = [
        ("Accuracy", [*accuracy_tables(summary), *([agreement] if agreement else [])]),
        ("Ablation and significance", comparison_tables(summary)),
        ("Times", time_tables(summary)),
    ]
    return [(heading, tables) for heading, tables in found if tables]


def merge_notes(tables: Sequence[Table]) -> list[Table]:
    """Keep a note that follows several tables in a row below the last of them only."""
    following = [table.note for table in tables[1:]] + [""]
    return [
        replace(table, note="") if table.note == after else table
        for table, after in zip(tables, following, strict=False)
    ]


def markdown(summary: Summary) -> str:
    """Write the report in Markdown."""
    parts = [f"# {_for_markdown(summary.title)}", _for_markdown(state(summary))]
    for heading, tables in sections(summary):
        parts.append(f"## {heading}")
        for table in merge_notes(tables):
            parts += [f"### {_for_markdown(table.title)}", _markdown_table(table)]
            parts += [_for_markdown(table.note)] if table.note else []
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    rows = [[_for_markdown(text) for text in table.head], ["---"] + ["---:"] * (len(table.head) - 1)]
    for place, row in enumerate(table.rows):
        cells = [_for_markdown(text) for text in row]
        cells = [
            f"**{text}**" if (place, column) in table.strong else text for column, text in enumerate(cells)
        ]
        if place in table.lesser:
            cells[0] = f"*{cells[0]}*"
        rows.append(cells)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _for_markdown(text: str) -> str:
    """Escape what Markdown or the HTML within it would read as more than text."""
    plain = _one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\|_*`\[\]#~$])", r"\\\1", plain)


def _one_line(text: str) -> str:
    """Replace line ends and other control characters, which no table can hold."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "[": "{[}",  # which after a line break would be its argument
    "*": "{*}",
    "±": r"$\pm$",
    "≈": r"$\approx$",
    "≠": r"$\neq$",
    "≤": r"$\leq$",
    "√": r"$\surd$",
    "²": r"$^2$",
    "−": "$-$",
    "–": "--",
}


def latex(summary: Summary) -> str:
    r"""Write the tables in LaTeX, to be read by \input; the packages are booktabs and graphicx."""
    parts = [r"% Needs \usepackage{booktabs,graphicx}."]
    for _, tables in sections(summary):
        parts += [_latex_table(part) for table in tables for part in _parts(table)]
    return "\n\n".join(parts) + "\n"


def _parts(table: Table) -> list[Table]:
    """Cut a table that no page could hold, where a group of rows begins."""
    groups = [place for place, (_, *rest) in enumerate(table.rows) if not any(rest)]
    starts = [0]
    for place, after in itertools.pairwise([*groups, len(table.rows)]):
        if after - starts[-1] > _ROWS_A_PAGE and place > starts[-1]:
            starts.append(place)
    ends = [*starts[1:], len(table.rows)]
    return [
        replace(
            table,
            title=table.title if start == 0 else f"{table.title}, continued",
            note=table.note if end == len(table.rows) else "",
            rows=table.rows[start:end],
            strong=frozenset((place - start, column) for place, column in table.strong),
            lesser=frozenset(place - start for place in table.lesser),
        )
        for start, end in zip(starts, ends, strict=True)
    ]


def _latex_table(table: Table) -> str:
    body = [_latex_row(table, place) for place in range(len(table.rows))]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
            rf"\caption{{{_for_latex(f'{table.title}. {table.note}'.strip())}}}",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}",
            r"\toprule",
            " & ".join(_for_latex(text) for text in table.head) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
        ]
    )


def _latex_row(table: Table, place: int) -> str:
    cells = [
        rf"\textbf{{{_for_latex(text)}}}" if (place, column) in table.strong else _for_latex(text)
        for column, text in enumerate(table.rows[place])
    ]
    if not any(cells[1:]):
        return rf"\multicolumn{{{len(cells)}}}{{l}}{{{cells[0]}}} \\"
    if place in table.lesser:
        cells[0] = rf"\quad\textit{{{cells[0]}}}"
    return " & ".join(cells) + r" \\"


def _for_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in _one_line(text))


_CSV_HEAD = (
    "dataset",
    "method",
    "labels",
    "runs",
    "expected_runs",
    "mean",
    "deviation",
    "printed_mean",
    "printed_deviation",
    "difference",
    "within_two_joint_deviations",
    "seconds",
    "epochs",
    "values",
)


def csv_text(summary: Summary) -> str:
    """Write one row a cell with unrounded numbers; accuracies in percent, ``values`` by run with spaces."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV_HEAD)
    for dataset in summary.datasets:
        for method in summary.methods:
            for n_labelled in summary.label_counts[dataset]:
                cell = summary.cells.get((dataset, method.name, n_labelled))
                if cell is not None:
                    writer.writerow(_csv_row(cell, summary.runs))
    return text.getvalue()


def _csv_row(cell: Cell, runs: int) -> list[object]:
    """Return the fields of a cell; csv writes None as nothing."""
    return [
        cell.dataset,
        cell.method,
        cell.n_labelled,
        cell.n,
        runs,
        cell.mean,
        cell.deviation,
        *(cell.published or (None, None)),
        cell.difference,
        cell.agrees,
        cell.seconds,
        cell.epochs,
        " ".join(repr(value) for value in cell.values),
    ]
