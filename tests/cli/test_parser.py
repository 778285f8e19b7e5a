import subprocess
import sys
from pathlib import Path

import pytest

from dahgnn.cli.parser import make_parser
from dahgnn.config import BACKENDS, SCALES, SEARCH_NAMES
from dahgnn.experiments.spec import builtin_specs
from dahgnn.report.fit_contents import MAPS


def choices(command, option):
    parser = make_parser()._subparsers._group_actions[0].choices[command]
    return next(action.choices for action in parser._actions if option in action.option_strings)


def test_the_choices_of_a_fit_are_those_of_the_library():
    assert tuple(choices("fit", "--scale")) == SCALES
    assert tuple(choices("fit", "--map")) == MAPS
    assert tuple(choices("fit", "--search")) == SEARCH_NAMES
    for command in ("fit", "predict"):
        assert tuple(choices(command, "--backend")) == BACKENDS


def test_the_backends_of_an_experiment_are_those_of_the_library():
    assert tuple(choices("reproduce", "--backend")) == BACKENDS
    assert make_parser().parse_args(["reproduce", "x"]).backend == "processes"


def test_the_help_names_every_spec_of_the_package():
    help_text = make_parser()._subparsers._group_actions[0].choices["reproduce"].format_help()
    assert f"{', '.join(builtin_specs())} or a TOML file" in " ".join(help_text.split())


def test_a_fit_has_defaults_for_all_but_the_file_and_its_labels():
    options = make_parser().parse_args(["fit", "mine.csv", "--label", "kind"])
    assert vars(options) == {
        "command": "fit", "extra": "fit", "table": Path("mine.csv"), "label": "kind", "id": None, "hyperedges": None, "drop": [],
        "keep": [], "missing": [], "text": [], "picture": [], "text_model": None, "format": None, "encoding": None, "delimiter": None, "decimal": None, "sheet": None, "out": None, "k": 10, "seed": 0, "networks": "auto", "validation": 0.2, "scale": "auto",
        "map": "auto", "parquet": False, "class_weight": [], "class_prior": [], "json": False, "device": "auto", "dry_run": False, "search": "auto",
        "recall": 0.95, "batch": "auto", "memory": None, "work": None, "jobs": None, "backend": "processes",
    }  # fmt: skip


def test_options_of_columns_take_one_value_and_may_be_repeated():
    parse = make_parser().parse_args
    options = parse(["fit", "--drop", "a", "--drop", "b", "--missing", "-1", "mine.csv", "--label", "kind"])
    assert (options.drop, options.missing, options.table) == (["a", "b"], ["-1"], Path("mine.csv"))
    assert parse(["fit", "mine.csv", "--label", "kind", "--missing", "-", "--keep", "n"]).missing == ["-"]


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_a_number_of_networks_is_a_count_or_auto(text, capsys):
    with pytest.raises(SystemExit):
        make_parser().parse_args(["fit", "mine.csv", "--label", "kind", "--networks", text])
    assert f"must be a number from 1 on, or auto. Got '{text}'" in capsys.readouterr().err


def test_help_loads_neither_torch_nor_numpy():
    code = "import sys, dahgnn.cli.commands as cli; cli.make_parser().format_help()\n"
    code += "print([name for name in ('torch', 'numpy', 'sklearn', 'pandas', 'rich') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("words", [["fit", "a.csv", "--networks", "\u202e"], ["version", "\x1b[2J"]])
def test_no_quoted_word_steers_the_terminal(words, capsys):
    with pytest.raises(SystemExit):
        make_parser().parse_args(words)
    message = capsys.readouterr().err
    assert "\N{REPLACEMENT CHARACTER}" in message
    assert words[-1] not in message
