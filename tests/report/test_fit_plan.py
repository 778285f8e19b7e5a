from dataclasses import replace

import pytest
from part_folders import write_animals

from dahgnn.config import ResourceConfig
from dahgnn.report import fit_plan
from dahgnn.report.fit_options import FitOptions, plan_fit
from dahgnn.report.fit_plan import survey_and_plan
from dahgnn.tables import large_tables

OPTIONS = FitOptions(label="kind", id="name", networks=1, resources=ResourceConfig(search="exact"))


@pytest.fixture
def folder(tmp_path):
    return write_animals(tmp_path / "animals")


def test_small_and_large_tables_have_a_plan_of_the_same_sizes(folder, monkeypatch):
    small, said = survey_and_plan(folder, OPTIONS)
    assert small.table is not None
    assert said[0].startswith("327 rows of 8 columns: neighbours by an exact search")
    monkeypatch.setattr(large_tables, "LARGE_ROWS", 100)
    large, also = survey_and_plan(folder, OPTIONS)
    assert also[0] == said[0]
    assert "are a file in" in also[-1]
    assert large.columns == small.columns


def test_the_plan_knows_how_many_rows_have_a_label(folder, monkeypatch):
    asked = []

    def plan(*sizes, **others):
        asked.append(sizes[:4])
        return plan_fit(*sizes, **others)

    monkeypatch.setattr(fit_plan, "plan_fit", plan)
    survey_and_plan(folder, OPTIONS)
    monkeypatch.setattr(large_tables, "LARGE_ROWS", 100)
    survey_and_plan(folder, OPTIONS)
    assert asked == [(327, 8, 3, 66)] * 2


def test_the_plan_of_several_processes_has_batches(folder, monkeypatch):
    assert "trained on all rows at once" in survey_and_plan(folder, OPTIONS)[1][0]
    assert "trained in batches of 128 labelled rows" in survey_and_plan(folder, OPTIONS, 2)[1][0]
    monkeypatch.setattr(large_tables, "LARGE_ROWS", 100)
    assert "trained in batches of 128 labelled rows" in survey_and_plan(folder, OPTIONS, 2)[1][0]


def test_there_is_no_plan_for_what_is_wrong(folder, monkeypatch):
    wrong = FitOptions(label="kind", class_weight={"dog": 2.0})
    assert survey_and_plan(folder, wrong)[1] == []
    monkeypatch.setattr(large_tables, "LARGE_ROWS", 100)
    survey, said = survey_and_plan(folder, wrong)
    assert said == []
    assert "--class-weight must name a class. Got 'dog'" in survey.problems[0]


def test_a_folder_for_large_arrays_that_cannot_be_one_is_told(folder, monkeypatch):
    options = replace(OPTIONS, resources=ResourceConfig(batch=16, folder=str(folder / "part-0.parquet")))
    for rows in (large_tables.LARGE_ROWS, 100):
        monkeypatch.setattr(large_tables, "LARGE_ROWS", rows)
        with pytest.raises(OSError, match="part-0.parquet must be one that files can be written to"):
            survey_and_plan(folder, options)


def test_hyperedges_that_are_given_have_an_exact_search_beside_them(tmp_path):
    options = replace(OPTIONS, resources=ResourceConfig(search="ivf"))
    assert plan_fit(1000, 4, 2, 50, options).search == "ivf"
    assert plan_fit(1000, 4, 2, 50, replace(options, hyperedges=tmp_path / "pairs.csv")).search == "exact"
