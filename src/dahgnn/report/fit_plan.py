"""What a fit of a table would need, before anything is computed: its sizes, memory and time."""

from __future__ import annotations

from pathlib import Path

from dahgnn.classifier.plan import Plan
from dahgnn.files.scratch import Scratch, check_folder, say_bytes
from dahgnn.report.fit_folder import survey_fit
from dahgnn.report.fit_options import FitOptions, plan_fit
from dahgnn.report.large_fit import survey_large_fit, working_folder
from dahgnn.tables.large_tables import LargeSurvey, open_large
from dahgnn.tables.table import Survey

# Of a table that goes to the disk, what its features take there for each number.
_BYTES_A_NUMBER = 4


def survey_and_plan(
    path: Path, options: FitOptions, processes: int = 1
) -> tuple[Survey | LargeSurvey, list[str]]:
    """Return what was understood of a table, and in sentences what a fit of it would need.

    There is no plan where something is wrong with the table.

    Parameters
    ----------
    path : Path
        The table.
    options : FitOptions
        What the fit would do.
    processes : int
        How many processes would fit together.
    """
    source = open_large(path, options.reading) if path.exists() else None
    if source is None:
        survey = survey_fit(path, options)
        if survey.table is None:
            return survey, []
        labels = [label for label in survey.labels or () if label is not None]
        n, d = survey.table.features.shape
        return survey, _describe(plan_fit(n, d, len(set(labels)), len(labels), options, processes))
    with Scratch(working_folder(options)) as scratch:
        large = survey_large_fit(source, options, scratch)
    if large.problems or large.labels is None:
        return large, []
    known = large.labels
    plan = plan_fit(source.n_rows, large.width, len(known.classes), known.n_labelled, options, processes)
    size = source.n_rows * large.width * _BYTES_A_NUMBER
    check_folder(working_folder(options))
    kept = f"The features of the table, {say_bytes(size)}, are a file in {working_folder(options)}."
    return large, [*_describe(plan), kept]


def _describe(plan: Plan) -> list[str]:
    """Return a plan in sentences, if its folder can be written to."""
    if plan.is_large:
        check_folder(plan.folder)
    return plan.describe()
