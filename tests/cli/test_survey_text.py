import pytest

from dahgnn.cli.commands import main
from dahgnn.cli.survey_text import describe_survey
from dahgnn.tables.columns import Column
from dahgnn.tables.table import Survey


def survey_of(columns):
    return Survey(table=None, columns=tuple(columns), labels=None, notes=("One.", "Two\x1b[1m."), problems=())


def test_notes_and_columns_are_listed():
    columns = [
        Column(name="a", kind="number", fill=1.0),
        Column(name="c" * 60, kind="category", categories=("x", "y")),
        Column(name="u", kind="unused"),
    ]
    lines = describe_survey(survey_of(columns)).splitlines()
    assert lines[0] == "One."
    assert "\x1b" not in lines[1]
    assert lines[3].split() == ["column", "kind", "features"]
    assert [line.split() for line in lines[4:]] == [
        ["a", "number", "1"],
        ["c" * 39 + "…", "category", "2"],
        ["u", "unused", "0"],
    ]


def test_of_many_columns_the_first_are_listed():
    columns = [Column(name=f"x{place}", kind="unused") for place in range(1203)]
    lines = describe_survey(survey_of(columns)).splitlines()
    assert lines[-2].split() == ["x199", "unused", "0"]
    assert lines[-1] == "and 1,003 more"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_dry_run_says_what_is_understood_and_writes_nothing(here, write, capsys):
    write("a,b,y\n" + "".join(f"{row**2},{'uv'[row % 2]},{'pq'[row % 3 > 0]}\n" for row in range(30)))
    assert main(["fit", "data.csv", "--label", "y", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "data.csv has 30 rows, and 2 columns become 3 features." in said
    assert "30 of 30 rows are labelled in 'y', with 2 classes: 'q' (20), 'p' (10)." in said
    assert "Nothing is wrong: a fit could start. Nothing was written." in said
    assert [path.name for path in here.iterdir()] == ["data.csv"]


def test_what_is_said_of_columns_reaches_the_table(here, write, capsys):
    cells = [(row, row**2, "?5"[row % 2], ("red", "blue")[row % 2], "pq"[row % 3 > 0]) for row in range(30)]
    rows = [",".join(map(str, each)) + "\n" for each in cells]
    write("n,a,m,t,y\n" + "".join(rows))
    words = ["--keep", "n", "--drop", "a", "--missing", "?", "--text", "t", "--dry-run"]
    assert main(["fit", "data.csv", "--label", "y", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = [line.split() for line in lines[lines.index("column  kind      features") + 1 :][:4]]
    assert table == [["n", "number", "1"], ["a", "unused", "0"], ["m", "unused", "0"], ["t", "text", "2"]]


def test_a_dry_run_tells_every_problem_at_once(here, write, capsys):
    columns = ",".join(f"c{place}" for place in range(25))
    write(f"id,y,{columns}\n1,p,{','.join(['inf'] * 25)}\n1,p,{','.join(['2'] * 25)}\n")
    command = ["fit", "data.csv", "--label", "y", "--id", "id", "-k", "0", "--dry-run", "--drop", "q"]
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert "2 of 2 rows are labelled in 'y', with 1 classes: 'p' (2)." in out
    assert "has 29 problems." in err
    assert "The ids in 'id' must differ." in err
    assert "a column 'q' for --drop" in err
    assert "The labels in 'y' must be of at least two classes. Got one class alone, 'p'." in err
    assert "'c24' must hold finite numbers" in err
    assert "-k must be at least 1. Got 0." in err
    assert not (here / "runs").exists()


def test_a_fit_refuses_labels_in_the_words_of_the_table(here, write, capsys):
    write("a,y\n1,\n2,\n7,\n")
    assert main(["fit", "data.csv", "--label", "y"]) == 2
    assert (
        "The labels in 'y' must be of at least two classes. Got no label at all." in capsys.readouterr().err
    )
