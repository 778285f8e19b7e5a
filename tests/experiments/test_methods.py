"""Methods of a spec: where their settings come from."""

import json
from dataclasses import asdict, replace

import pytest
from small_experiment import TABLE, small_spec

from dahgnn.config import PRESETS
from dahgnn.experiments.methods import resolve_settings, vary
from dahgnn.experiments.spec import load_spec, parse_spec


def test_settings_come_from_preset_method_and_dataset_in_this_order():
    method = {
        "kind": "DAHGNN",
        "preset": "paper",
        "model": {"hidden": 8},
        "networks": 2,
        "on": {"mnist": {"model": {"hidden": 9}, "networks": 3}},
    }
    spec = parse_spec(
        TABLE
        | {
            "method": {"da-hgnn": method, "laplace": {"kind": "LaplaceLearning"}},
            "published": {},
            "comparisons": [],
        }
    )
    settings = spec.methods[0].settings["mnist"]
    assert settings.model["hidden"] == 9
    assert settings.model["heads"] == 4
    assert settings.training["patience"] == 100
    assert (settings.networks, settings.scale) == (3, "none")


def test_a_preset_says_how_many_networks_and_what_scale():
    preset = PRESETS["default"]
    default = method(kind="DAHGNN", preset="default").settings["mnist"]
    assert (default.networks, default.scale) == (preset.networks, preset.scale)
    assert default.model == asdict(preset.model)
    one = method(kind="DAHGNN", preset="default", networks=1).settings["mnist"]
    assert one == replace(default, networks=1)
    paper = method(kind="DAHGNN", preset="paper").settings["mnist"]
    assert (paper.networks, paper.scale) == (1, "none")


def test_both_tables_have_the_same_methods_of_ours():
    first, second = (
        {method.name: method.settings["mnist"] for method in load_spec(name).methods}
        for name in ("table2", "table3")
    )
    for name in ("ours", "ours-by-distance", "da-hgnn", "without-density"):
        assert first[name] == second[name]
    ours, by_distance = (first[name].parameters for name in ("ours", "ours-by-distance"))
    assert by_distance == ours | {"metric": "euclidean"}


def method(**entry):
    return small_spec(method={"it": entry}, published={}, comparisons=[]).methods[0]


def test_the_older_word_for_hidden_is_read():
    assert method(kind="HGNN", aside=True).hidden_at_first
    assert method(kind="HGNN", hidden_at_first=True).hidden_at_first
    assert not method(kind="HGNN").hidden_at_first


def test_parameters_are_those_of_the_method_and_then_of_the_dataset():
    on = {"mnist": {"parameters": {"n_estimators": 7}}}
    forest = method(kind="RandomForest", scale="auto", parameters={"max_depth": 3, "n_estimators": 5}, on=on)
    settings = forest.settings["mnist"]
    assert settings.parameters.items() >= {"max_depth": 3, "n_estimators": 7, "criterion": "gini"}.items()
    assert "random_state" not in settings.parameters
    assert settings.scale == "auto"
    assert not settings.is_network
    assert settings.as_json() == {
        "kind": "RandomForest",
        "scale": "auto",
        "parameters": settings.parameters,
    }
    assert "parameters" not in method(kind="LaplaceLearning").settings["mnist"].as_json()


def test_a_line_says_all_settings_of_the_classifier():
    entry = {"kind": "DAHGNNClassifier", "parameters": {"networks": 2, "model": {"hidden": 9}}}
    parameters = method(**entry).settings["mnist"].parameters
    assert parameters["model"] == asdict(replace(PRESETS["default"].model, hidden=9))
    assert parameters["training"] == asdict(PRESETS["default"].training)
    assert (parameters["networks"], parameters["validation_labels"]) == (2, "none")
    assert json.loads(json.dumps(parameters)) == parameters


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"kind": "RandomForst"}, "Did you mean 'RandomForest'"),
        (
            {"kind": "RandomForest", "parameters": {"n_estimator": 5}},
            "no parameter 'n_estimator'. Did you mean 'n_estimators'",
        ),
        ({"kind": "LaplaceLearning", "parameters": {"alpha": 5}}, "no parameter 'alpha'. It has: none"),
        ({"kind": "DAHGNNClassifier", "parameters": {"network": 1}}, "Did you mean 'networks'"),
        ({"kind": "DAHGNNClassifier", "parameters": {"model": {"hiden": 1}}}, "Did you mean 'hidden'"),
        ({"kind": "DAHGNNClassifier", "parameters": {"validation_labels": "tran"}}, "Did you mean 'train'"),
        ({"kind": "DAHGNNClassifier", "scale": "auto"}, "has none of metric, model, networks, preset, scale"),
        ({"kind": "HGNN", "parameters": {"hidden": 3}}, "a network, which has no 'parameters'"),
        ({"kind": "SVC", "parameters": 3}, "'parameters' parameter of The method 'it' must be a table"),
        ({"kind": "SVC", "scale": "colums"}, "Did you mean 'columns'"),
    ],
)
def test_what_is_wrong_is_named(entry, words):
    with pytest.raises((TypeError, ValueError), match=words):
        method(**entry)


def test_a_variant_has_other_settings_and_is_checked():
    settings = method(kind="HGNN", model={"hidden": 8}).settings["mnist"]
    assert vary(settings, {"model.hidden": 4}) == replace(settings, model=settings.model | {"hidden": 4})
    with pytest.raises(ValueError, match="no key 'hiden'. Did you mean 'hidden'"):
        vary(settings, {"model.hiden": 4})


def test_metric_and_smoothing_are_in_lines_only_where_they_are_unusual():
    entry = {"kind": "HGNN"}
    usual = resolve_settings(entry, {}, "The method 'it'").as_json()
    assert "metric" not in usual
    assert "smoothing" not in usual
    other = {"metric": "local-scale", "smoothing": "correct-and-smooth"}
    assert resolve_settings(entry, other, "The method 'it'").as_json() == usual | other


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"kind": "HGNN", "metric": "local"}, "Did you mean 'local-scale'"),
        ({"kind": "LaplaceLearning", "metric": "cosine"}, "'euclidean'"),
        ({"kind": "HGNN", "smoothing": "correct"}, "'correct-and-smooth'"),
        ({"kind": "LaplaceLearning", "smoothing": "correct-and-smooth"}, "has none of"),
        ({"kind": "LogisticRegression", "metric": "local-scale"}, "has none of metric"),
    ],
)
def test_a_wrong_metric_or_smoothing_is_refused(entry, words):
    with pytest.raises(ValueError, match=words):
        resolve_settings(entry, {}, "The method 'it'")
