"""Specs: those of the paper, one's own, and what is wrong with a bad one."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_experiment import TABLE, small_spec

from dahgnn.baselines.ours import complete_parameters
from dahgnn.config import PRESETS
from dahgnn.experiments.datasets import load_task
from dahgnn.experiments.runner import run_experiment
from dahgnn.experiments.spec import builtin_specs, load_spec, parse_spec


def test_the_paper_has_two_tables_and_a_figure():
    assert {"figure1", "search-regularised", "table2", "table3"} <= set(builtin_specs())
    table = load_spec("table2")
    assert [dataset.title for dataset in table.datasets] == ["MNIST", "CIFAR-10", "SVHN"]
    assert table.labels_per_class == (50, 100, 200, 300, 400)
    assert table.runs == 10
    assert table.published["mnist"]["da-hgnn"]["500"] == (92.09, 1.03)
    assert load_spec("table3").published["mnist"]["without-density"]["4000"] == (94.21, 0.38)
    assert load_spec("figure1").figure == ("gat", "da-hgnn")


def test_the_spec_of_few_labels_leaves_rows_to_test_and_tunes_nobody():
    spec = load_spec("few")
    assert {spec.validation_on(dataset.name) for dataset in spec.datasets} == {0}
    assert spec.labels_on("wine") == (1, 5, 20)
    assert [dataset.file for dataset in spec.datasets if dataset.file] == [
        "hypergraphs/20newsw100.npz",
        "hypergraphs/mushroom.npz",
    ]
    classifier = spec.methods[0]
    assert classifier.kind == "DAHGNNClassifier"
    assert classifier.settings["wine"].parameters == complete_parameters({})


def test_every_printed_row_has_five_counts():
    for name in ("table2", "table3"):
        for rows in load_spec(name).published.values():
            assert all(list(row) == ["500", "1000", "2000", "3000", "4000"] for row in rows.values())


def test_the_preset_paper_is_the_paper():
    methods = {method.name: method for method in load_spec("table2").methods}
    paper = methods["da-hgnn"].settings
    assert paper["mnist"].model["hidden"] == 256
    assert paper["cifar10"].model["hidden"] == paper["svhn"].model["hidden"] == 64
    assert paper["mnist"].training["learning_rate"] == PRESETS["paper"].training.learning_rate
    assert not methods["without-density"].settings["svhn"].model["density"]


def test_a_spec_of_ones_own_is_read_from_a_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'name = "mine"\nruns = 1\nlabels = [5]\n[dataset.svhn]\npart = "test"\nfeatures = "cnn"\n'
        '[method.lr]\nkind = "LogisticRegression"\n'
    )
    spec = load_spec(file)
    assert (spec.name, spec.title, spec.validation, spec.k) == ("mine", "mine", 100, 10)
    assert spec.as_json()["datasets"][0]["title"] == "SVHN"


def search(**entries):
    return {"search": {"method": "hgnn", "trials": 3, "space": {"model.hidden": [4, 8]}, **entries}}


def method(**entries):
    return {"method": {"hgnn": {"kind": "HGNN", **entries}}, "published": {}, "comparisons": []}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lables": [3]}, "A spec has no key 'lables'. Did you mean 'labels'"),
        ({"labels": []}, "a list of different counts"),
        ({"labels": [3, 3]}, "a list of different counts"),
        ({"labels": [0]}, "'labels' parameter of a spec must be at least 1"),
        ({"runs": 0}, "'runs' parameter of a spec must be at least 1"),
        ({"dataset": {"mnits": {}}}, "Did you mean 'mnist'"),
        ({"dataset": {"mnits": {"part": "test"}}}, "Did you mean 'mnist'"),
        ({"dataset": {"wine": {"part": "test"}}}, "The dataset 'wine' has no key 'part'"),
        (
            {"dataset": {"wine": {"labels": [0]}}},
            "'labels' parameter of the dataset 'wine' must be at least 1",
        ),
        ({"dataset": {"wine": {"validation": -1}}}, "'validation' parameter of the dataset 'wine'"),
        ({"dataset": {"own": {"file": "x.csv"}}}, "'label' parameter of the dataset 'own'"),
        (
            {"dataset": {"own": {"file": 3, "label": "y"}}},
            "'file' parameter of the dataset 'own' must be a text",
        ),
        ({"labels_per_class": [3]}, "two names of one key"),
        (
            {"dataset": {"wine": {}}, "figure": ["hgnn"], "runs": 1, "labels": [3], "published": {}},
            "a dataset of images. Got 'wine'",
        ),
        ({"dataset": {"mnist": {"par": "train"}}}, "has no key 'par'. Did you mean 'part'"),
        (
            {"dataset": {"cifar10": {"features": "cnn"}}, **method()},
            "'test' where the features are those of the CNN",
        ),
        (method(kind="HGN"), "Did you mean 'HGNN'"),
        (method(model={"hidden": 99999999999}), "must be at most 65536. Got 99999999999"),
        (method(networks=99999999999), "'networks' .* must be at most 1000. Got 99999999999"),
        (method(model={"hiden": 3}), "has no key 'hiden'. Did you mean 'hidden'"),
        (method(training={"learning_rat": 3}), "Did you mean 'learning_rate'"),
        (method(preset="paper"), "presets are of DAHGNN"),
        (method(networks=0), "'networks'"),
        (method(networks="many"), "'networks'"),
        (method(scale="hole"), "Did you mean 'whole'"),
        (method(kind="DAHGNN", preset="papr"), "Did you mean 'paper'"),
        (method(on={"svhn": {}}), "has no key 'svhn'"),
        (method(kind="LabelSpreading", model={"hidden": 3}), "has none of model, networks"),
        (method(kind="LabelSpreading", preset="nonsense"), "has none of model, networks"),
        (
            method(kind="LaplaceLearning", on={"mnist": {"model": {}}}),
            "has none of model, networks",
        ),
        ({"dataset": 3}, "tables such as"),
        ({"method": {}}, "tables such as"),
        ({"name": 3}, "'name' parameter of a spec must be letters, digits"),
        ({"name": "../elsewhere"}, "'name' parameter of a spec must be letters, digits"),
        ({"title": " "}, "'title' parameter of a spec must be a text"),
        (method(title=5), "'title'"),
        (method(ours="no"), "'ours'"),
        (method(aside=1), "'aside'"),
        (method(model=[1]), "'model' parameter of The method 'hgnn' must be a table"),
        ({"runs": 10**20}, "'runs' parameter of a spec must be at most"),
        ({"comparisons": 5}, "'comparisons' parameter of a spec must be a list"),
        ({"published": {"mnist": {"hgnn": {"9": [float("nan"), 1.0]}}}}, "in percent"),
        ({"published": {"mnist": {"hgnn": {"9": [101.0, 1.0]}}}}, "in percent"),
        ({"published": {"mnist": {"hgnn": {"09": [1.0, 1.0]}}}}, "must have label counts as keys"),
        ({"dataset": {"mnist": {"features": "cnn", "part": "test"}}}, "the CNN is for pictures in colour"),
        (
            {"labels": list(range(1, 1002))},
            "'labels' parameter of a spec must be at most 1000 counts. Got 1001",
        ),
        ({"runs": 100_000, "labels": [1, 2, 3, 4]}, "at most 1,000,000 fits .* Got 1,200,000"),
        ({"runs": -3}, "'runs' parameter of a spec must be at least 1. Got -3"),
        (
            method(model={"hidden": 99999999999}),
            "'hidden' parameter of HGNN must be at most 65536",
        ),
        (method(networks=10**6), "'networks' parameter of The method 'hgnn' must be .*1000"),
        (method(training={"learning_rate": 10**400}), "'learning_rate' parameter .* a finite number"),
        (search(trials=10**9), "'trials' parameter of 'search' must be at most 100000"),
        (search(space={"model.hidden": [8, 0]}), "'search' for 'model.hidden' cannot try 0. .* at least 1"),
        (search(space={"model.hidden": {"low": 4.0, "high": 9.0}}), "cannot try 4.0. .* must be an integer"),
        (search(space={"model.dropout": {"low": 0.1, "high": 1.5}}), "cannot try 1.5"),
        (search(space={"training.patience": {"low": 1, "high": 9, "step": 0.5}}), "must have a step above 0"),
        (search(space={"training.patience": {"low": 1, "high": 9, "step": 0}}), "must have a step above 0"),
        (search(seed="x"), "seed"),
        (search(space={"model.hidden": [[1]]}), "a list of values or a table"),
        (search(space={"model.hidden": {"low": 3, "high": 2}}), "low ≤ high"),
        (search(space={"model.hidden": {"low": 0, "high": 2, "log": True}}), "low > 0"),
        ({"k": "10"}, "'k' parameter of a spec must be an integer"),
        ({"validation": -1}, "'validation' parameter of a spec must be at least 0"),
        ({"published": {"mnist": {"hgnn": 3}}}, "must have label counts as keys"),
        ({"published": {"mnist": {"hgnn": {"5O0": [1.0, 2.0]}}}}, "must have label counts as keys"),
        ({"figure": ["laplace"], "runs": 1, "labels": [3]}, "'figure'"),
        ({"figure": ["hgnn"]}, "one dataset, one label count and one run"),
        (search(space={"model.hiden": [1]}), "no key 'model.hiden'. Did you mean 'model.hidden'"),
        (search(space=[1]), "'search.space' must be a table"),
        ({"comparisons": [["da-hgnn"]]}, "pairs of methods"),
        ({"comparisons": [["da-hgnn", "hgn"]]}, "Did you mean 'hgnn'"),
        ({"published": {"mnist": {"hgnn": {"9": [90]}}}}, r"\[mean, deviation\]"),
        ({"published": {"mnist": {"hgn": {}}}}, "has no key 'hgn'. Did you mean 'hgnn'"),
        ({"figure": ["gat"]}, "'figure'"),
        (search(method="laplace"), "'method'"),
        (search(trials=0), "'trials'"),
        (search(space={"hidden": [1]}), "'search.space' has no key 'hidden'"),
        (search(space={"model.hidden": {"low": 1}}), "needs the key 'high'"),
        (search(space={"model.hidden": 3}), "must be a list of values or a table. Got 3"),
        (search(space={"model.hidden": {"lo": 1, "high": 2}}), "no key 'lo'. Did you mean 'low'"),
    ],
)
def test_what_is_wrong_is_named(change, words):
    with pytest.raises((TypeError, ValueError), match=words):
        small_spec(**change)


def test_a_missing_key_is_named():
    with pytest.raises(ValueError, match="A spec needs the key 'runs'"):
        parse_spec({key: value for key, value in TABLE.items() if key != "runs"})


def test_an_unknown_spec_suggests_the_nearest(tmp_path):
    with pytest.raises(FileNotFoundError, match="no spec or TOML file 'tabel2'. Did you mean 'table2'"):
        load_spec("tabel2")
    file = tmp_path / "bad.toml"
    file.write_text("name = ")
    with pytest.raises(ValueError, match="is not TOML"):
        load_spec(file)
    file.write_text('name = "x"\nrnus = 3')
    with pytest.raises(
        ValueError, match=r"bad.toml' cannot be used. A spec has no key 'rnus'. Did you mean 'runs'"
    ):
        load_spec(file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a = " + b"[" * 5000, "must be TOML. Got too many brackets in brackets"),
        (b"name = '\xff'", "must be a text in UTF-8. Got other bytes"),
        (b"#" * 1_000_001, "must be a file of at most 1,000,000 bytes. Got 1,000,001 bytes"),
        (b"k = " + b"9" * 5000, "cannot be used"),
        (b"a = 1\na = 2", "is not TOML"),
    ],
    ids=range(5),
)
def test_a_file_that_is_no_spec_is_named(tmp_path, content, words):
    (tmp_path / "mine.toml").write_bytes(content)
    with pytest.raises(ValueError, match=f"The spec '.*mine.toml' {words}") as refused:
        load_spec(tmp_path / "mine.toml")
    assert len(str(refused.value)) < 500


def test_counts_have_a_newer_name():
    table = {key: value for key, value in TABLE.items() if key != "labels"} | {"labels_per_class": [4, 8]}
    assert parse_spec(table).labels_per_class == (4, 8)
    assert parse_spec(table).as_json()["labels"] == (4, 8)


def test_a_file_is_looked_for_beside_the_spec(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'name = "mine"\nruns = 1\nlabels = [5]\n[dataset.fruit]\nfile = "fruit.csv"\nlabel = "fruit"\n'
        'labels = [2]\nvalidation = 0\n[method.lr]\nkind = "LogisticRegression"\n'
    )
    spec = load_spec(file)
    assert spec.datasets[0].folder == tmp_path
    assert (spec.labels_on("fruit"), spec.validation_on("fruit")) == ((2,), 0)
    entry = spec.as_json()["datasets"][0]
    assert (entry["file"], entry["labels"], entry["validation"]) == ("fruit.csv", (2,), 0)
    assert "folder" not in entry


def test_the_spec_of_the_docs_runs(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "how-to.md").read_text(encoding="utf-8")
    (tmp_path / "fruit.toml").write_text(re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1])
    spec = load_spec(tmp_path / "fruit.toml")
    assert [method.kind for method in spec.methods] == ["DAHGNNClassifier", "RandomForest", "SVC"]
    generator = np.random.default_rng(0)
    rows = [f"{x},{x + generator.normal()},{'fig' if x > 0 else 'pear'}" for x in generator.normal(size=90)]
    (tmp_path / "fruit.csv").write_text("\n".join(["size,weight,species", *rows]))
    task = load_task(spec.datasets[0], spec.k, tmp_path)
    quick = replace(spec, runs=1)
    assert run_experiment(quick, tmp_path / "out", {"fruit": task}, jobs=1) == 6
