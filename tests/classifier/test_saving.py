"""Classifiers in files."""

import json
from dataclasses import replace
from decimal import Decimal
from enum import Enum
from fractions import Fraction

import numpy as np
import pytest
import torch
from safetensors import safe_open
from sklearn.exceptions import NotFittedError

from dahgnn import DAHGNNClassifier, Hypergraph
from dahgnn.classifier import fitting
from dahgnn.classifier.saving import (
    FORMAT,
    load_classifier,
    load_saved,
    load_with_notes,
    save_classifier,
)
from dahgnn.classifier.stacking import CANDIDATES, SECOND_CANDIDATES, Stack
from dahgnn.config import PRESETS, ModelConfig, TrainingConfig
from dahgnn.files.tensors import read_tensors, write_tensors

QUICK = replace(PRESETS["default"].training, max_epochs=8)

GENERATOR = np.random.default_rng(0)
LABELS = np.arange(60) % 3
FEATURES = (3 * GENERATOR.normal(size=(3, 4))[LABELS] + GENERATOR.normal(size=(60, 4))).astype(np.float32)


def fitted(names=None, hypergraph=None, **changes):
    given = np.where(np.arange(60) < 30, LABELS, -1)
    if names is not None:
        given = np.array([names[label] if label >= 0 else None for label in given], dtype=object)
    defaults = {"k": 5, "networks": 2, "training": QUICK, "random_state": 0}
    classifier = DAHGNNClassifier(**defaults | changes)
    return classifier.fit(FEATURES, given, hypergraph=hypergraph)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"names": ["ä", "</script>", "c"]},
        {"names": [True, False, True]},
        {"model": ModelConfig(density=False, hidden=8), "scale": "none", "metric": "euclidean"},
        {"validation": np.array([1, 2, 3])},
        {"validation": np.array([], dtype=int), "training": TrainingConfig(max_epochs=3)},
        {"class_prior": [0.6, 0.3, 0.1]},
        {"class_weight": {0: 1, 1: 2, 2: 3}, "random_state": None, "networks": "auto"},
        {"class_weight": "balanced", "random_state": np.random.RandomState(0)},
        {"hypergraph": Hypergraph.from_hyperedges([range(i, i + 6) for i in range(0, 60, 6)], n_nodes=60)},
        {
            "hypergraph": Hypergraph.from_hyperedges(
                [[0, 1], range(1, 60)], n_nodes=60, weights=[2.0, 0.5], centres=[0, 5]
            )
        },
        {
            "hypergraph": Hypergraph.from_hyperedges(
                [[1, 0], range(1, 60)], n_nodes=60, incidence_weights=[[3, 0.1], np.linspace(0.2, 5, 59)]
            )
        },
    ],
)
def test_a_classifier_comes_back(tmp_path, changes):
    before = fitted(**changes)
    path = tmp_path / "new" / "model.safetensors"
    save_classifier(before, path, {"note": ["ß", None, 1]})
    after, notes = load_with_notes(path)
    assert notes == {"note": ["ß", None, 1]}
    rows = FEATURES + 0.1
    np.testing.assert_array_equal(after.predict_proba(rows), before.predict_proba(rows))
    np.testing.assert_array_equal(after.predict(FEATURES), before.transduction_)
    assert after.classes_.tolist() == before.classes_.tolist()
    for name in (
        "transduction_",
        "label_distributions_",
        "embedding_",
        "density_",
        "labelled_indices_",
        "held_out_indices_",
        "held_out_distributions_",
    ):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    np.testing.assert_equal(after.history_, before.history_)  # NaN without held-out rows
    for name in ("n_iter_", "best_epoch_", "stopped_", "k_", "n_features_in_", "estimate_"):
        assert getattr(after, name) == getattr(before, name)
    assert after.combination_ == pytest.approx(before.combination_)
    for name in ("k", "metric", "model", "training", "networks", "scale"):
        assert after.get_params()[name] == before.get_params()[name]
    for name in ("weights", "incidence_weights", "centres"):
        saved, loaded = (getattr(each.hypergraph_, name) for each in (before, after))
        assert (saved is None and loaded is None) or torch.equal(saved, loaded)
    again = after.fit(FEATURES, np.where(np.arange(60) < 30, LABELS, -1))  # it is still an estimator
    assert again.score(FEATURES, LABELS) > 0.3


@pytest.fixture
def all_candidates(monkeypatch):
    """Every candidate counts, whatever the labels say."""

    def everybody(candidates, *_):
        return Stack(tuple(candidates), tuple(np.linspace(0.05, 0.3, len(candidates)).tolist()))

    monkeypatch.setattr(fitting, "learn_stack", everybody)


@pytest.mark.usefixtures("all_candidates")
@pytest.mark.parametrize("metric", ["local-scale", "euclidean"])
def test_every_candidate_comes_back(tmp_path, metric):
    before = fitted(metric=metric)
    save_classifier(before, tmp_path / "model")
    after = load_classifier(tmp_path / "model")
    stack = after.ensemble_.combined.stack
    absent = ("around",) if metric == "local-scale" else ("around", "plain-poisson")
    assert stack == before.ensemble_.combined.stack
    everybody = (*CANDIDATES, *SECOND_CANDIDATES)
    assert stack.candidates == tuple(each for each in everybody if each.expert not in absent)
    assert after.combination_ == before.combination_
    rows = FEATURES + 0.1
    np.testing.assert_array_equal(after.predict_proba(rows), before.predict_proba(rows))
    # It says so by the potentials that the file holds.
    for name in after.ensemble_.combined.potentials:
        change(tmp_path / "model", tmp_path / "other", **{f"potentials.{name}": torch.ones(60, 3)})
        other = load_classifier(tmp_path / "other").predict_proba(rows)
        assert not np.allclose(other, before.predict_proba(rows), atol=1e-4)


@pytest.mark.usefixtures("all_candidates")
def test_a_file_says_its_layout_and_names_its_potentials(tmp_path):
    classifier = fitted()
    save_classifier(classifier, tmp_path / "model")
    with safe_open(tmp_path / "model", "pt") as file:
        header = json.loads(file.metadata()["header"])
        potentials = {
            name: file.get_tensor(name)
            for name in file.keys()  # noqa: SIM118
            if name.startswith("potentials")
        }
    assert header["layout"] == 3
    assert set(potentials) == {"potentials.poisson", "potentials.plain-poisson"}
    for name, values in classifier.ensemble_.combined.potentials.items():
        np.testing.assert_array_equal(potentials[f"potentials.{name}"], values)


@pytest.mark.usefixtures("all_candidates")
def test_words_and_surroundings_come_back(tmp_path):
    generator = np.random.default_rng(0)
    rows = (generator.random((60, 40)) < np.where(np.arange(40) % 3 == LABELS[:, None], 0.12, 0.04)).astype(
        float
    )
    hypergraph = Hypergraph.from_hyperedges([range(i, i + 4) for i in range(0, 40, 4)], n_nodes=60)
    before = DAHGNNClassifier(training=QUICK, networks=2, random_state=0, scale="words")
    before.fit(rows, np.where(np.arange(60) < 30, LABELS, -1), hypergraph=hypergraph)
    save_classifier(before, tmp_path / "model")
    with safe_open(tmp_path / "model", "pt") as file:
        assert json.loads(file.metadata()["header"])["layout"] == 4
    after = load_classifier(tmp_path / "model")
    assert after.decision_ == before.decision_ != ""
    assert {"around"} <= set(after.combination_)
    new = 2 * generator.integers(0, 2, size=(7, 40))
    np.testing.assert_array_equal(after.predict_proba(new), before.predict_proba(new))
    change(tmp_path / "model", tmp_path / "other", **{"potentials.around": torch.rand(60, 3)})
    other = load_classifier(tmp_path / "other").predict_proba(new)
    assert not np.allclose(other, before.predict_proba(new), atol=1e-4)
    change(tmp_path / "model", tmp_path / "other", **{"scaling.words": torch.ones(39).double()})
    with pytest.raises(ValueError, match="'scaling.words' of another shape"):
        load_classifier(tmp_path / "other")


def test_categories_come_back(tmp_path):
    codes = np.stack([np.roll(np.arange(5), shift)[(np.arange(60) * 7) % 5] for shift in range(3)], 1)
    rows = np.concatenate([FEATURES[:, :1], codes], 1)
    before = DAHGNNClassifier(training=QUICK, networks=2, random_state=0, scale="categories")
    before.fit(rows, np.where(np.arange(60) < 30, LABELS, -1))
    save_classifier(before, tmp_path / "model")
    with safe_open(tmp_path / "model", "pt") as file:
        assert json.loads(file.metadata()["header"])["layout"] == 5
    after = load_classifier(tmp_path / "model")
    assert after.decision_ == before.decision_ != ""
    assert after.n_features_in_ == 4
    new = rows[:7] + np.array([0.1, 0, 0, 0])
    new[0, 1] = 17  # which no fitted row had
    np.testing.assert_array_equal(after.predict_proba(new), before.predict_proba(new))
    prefix = "scaling.categories."
    for name, values, words in (
        ("measured", [1], "categories of other columns"),
        ("columns", [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3], "other codes than categories"),
        ("codes", [1.0], "other codes than categories"),
    ):
        change(tmp_path / "model", tmp_path / "other", **{f"{prefix}{name}": torch.tensor(values)})
        with pytest.raises(ValueError, match=words):
            load_classifier(tmp_path / "other")


def test_names_of_columns_come_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(FEATURES, columns=["a", "b", "c", "d"])
    classifier = DAHGNNClassifier(training=QUICK, networks=2, random_state=0).fit(frame, LABELS)
    save_classifier(classifier, tmp_path / "model")
    after = load_classifier(tmp_path / "model")
    assert after.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="feature names should match"):
        after.predict(frame[["b", "a", "c", "d"]])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    classifier = fitted()
    save_classifier(classifier, path)
    assert {"linear", "poisson"} <= set(classifier.combination_)  # which are damaged below
    return path


def change(path, target, header=None, **tensors):
    """Write the file anew with another header or other tensors; None removes one."""
    old, kept = read_tensors(path, FORMAT, "")
    kept = {name: tensor for name, tensor in {**kept, **tensors}.items() if tensor is not None}
    write_tensors(target, FORMAT, {**old, **(header or {})}, kept)


@pytest.mark.parametrize(
    ("header", "tensors"),
    [
        ({"stack": None}, {}),
        ({"stack": {}}, {}),
        ({"experts": ["oracle"]}, {}),
        ({"estimate": {"n": 3}}, {}),
        ({"estimate": 0.9}, {}),
        ({"experts": []}, {}),
        ({"classes": [0, 1]}, {}),
        ({"class_kind": "O"}, {}),
        ({"parameters": {"nonsense": 1}}, {}),
        ({"network": {"in_features": 4}}, {}),
        ({"k": 0}, {}),
        ({"networks": 0}, {}),
        ({"networks": 3}, {}),
        ({"networks": 1}, {}),
        ({"networks": 2.5}, {}),
        ({"best_epoch": [1]}, {}),
        ({"stopped": "nonsense"}, {}),
        ({"history": ["x"]}, {}),
        ({}, {"held_out_indices": torch.tensor([59])}),
        ({}, {"held_out_distributions": torch.full((12, 3), -7.0)}),
        ({"best_epoch": "first"}, {}),
        ({}, {"held_out_distributions": torch.zeros(2, 3, dtype=torch.float64)}),
        ({}, {"network.1.convolution.weight": None}),
        ({"k": float("inf")}, {}),
        ({"epochs": float("inf")}, {}),
        ({"classes": [10**30, 1, 2]}, {}),
        ({"feature_names": ["a"]}, {}),
        ({"parameters": {"n_jobs": "x"}}, {}),
        ({}, {"notes": torch.tensor([51], dtype=torch.uint8)}),
        ({}, {"notes": torch.tensor([255], dtype=torch.uint8)}),
        ({}, {"fitted.embedding": torch.full((60, 3), float("nan"))}),
        ({}, {"fitted.distributions": torch.full((60, 3), -1.0)}),
        ({}, {"fitted.distributions": None}),
        ({}, {"potentials.poisson": torch.zeros(60, 2)}),
        ({}, {"potentials.poisson": torch.full((60, 3), float("inf"))}),
        ({}, {"potentials.poisson": None}),
        ({}, {"potentials.oracle": torch.zeros(60, 3)}),
        ({}, {"scales": torch.zeros(3)}),
        ({}, {"expert.linear.coefficients": torch.zeros(4, 1, 2)}),
        ({}, {"expert.linear.coefficients": torch.zeros(7, 1, 3)}),
        ({}, {"expert.linear.coefficients": torch.zeros(4, 1, 3, dtype=torch.float64)}),
        ({}, {"expert.linear.intercepts": torch.zeros(1, 2)}),
        (
            {},
            {
                "expert.linear.coefficients": torch.zeros(4, 2, 3),
                "expert.linear.intercepts": torch.zeros(2, 3),
            },
        ),
        (
            {},
            {
                "expert.linear.coefficients": torch.zeros(4, 1, 2),
                "expert.linear.intercepts": torch.zeros(1, 2),
            },
        ),
        ({}, {"expert.linear.intercepts": None}),
        ({}, {"labelled_indices": torch.tensor([0.5])}),
        ({}, {"features": torch.zeros(60, 5, dtype=torch.float64)}),
        ({"n_hyperedges": 10**9}, {}),
        ({}, {"features": None}),
        ({}, {"features": torch.zeros(60, 4)}),
        ({}, {"fitted.embedding": torch.zeros(3, 3)}),
        ({}, {"fitted.density": torch.zeros(3)}),
        ({}, {"radius": torch.zeros(3)}),
        ({}, {"scaling.shift": torch.zeros(3)}),
        ({}, {"labelled_indices": torch.tensor([60])}),
        ({}, {"hypergraph.node": torch.full((360,), 60)}),
        ({}, {"hypergraph.incidence_weights": torch.ones(7)}),
        ({}, {"hypergraph.incidence_weights": torch.full((360,), -1.0)}),
        ({}, {"network.0.convolution.weight": torch.zeros(2, 2)}),
    ],
)
def test_a_damaged_file_is_named(tmp_path, path, header, tensors):
    change(path, tmp_path / "bad", header, **tensors)
    with pytest.raises(ValueError, match="The classifier file .*bad is damaged"):
        load_classifier(tmp_path / "bad")


def test_a_file_that_is_none(tmp_path, path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        load_classifier(tmp_path / "nowhere")
    with pytest.raises(NotFittedError):
        save_classifier(DAHGNNClassifier(), tmp_path / "model")
    cut = tmp_path / "cut"
    cut.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="cut, damaged or not safetensors"):
        load_classifier(cut)


def test_classes_that_json_cannot_hold_are_refused(tmp_path):
    classifier = fitted()
    classifier.classes_ = np.array([1j, 2j, 3j])
    with pytest.raises(TypeError, match="Classes must be numbers, words, flags, .* Got complex"):
        save_classifier(classifier, tmp_path / "model")
    colours = Enum("Colour", "RED GREEN BLUE")
    members = fitted(names=list(colours))
    assert members.classes_.tolist() == list(colours)
    with pytest.raises(TypeError, match="to be saved. Got Colour. Fit with words for them, such as"):
        save_classifier(members, tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "names",
    [
        [Fraction(1, 3), Fraction(1, 4), Fraction(2)],
        [Decimal(1) / Decimal(3), Decimal("0.25"), Decimal(2)],
        [10**30, 10**30 + 1, -(10**40)],
    ],
)
def test_fractions_decimals_and_large_integers_come_back(tmp_path, names):
    before = fitted(names=names)
    save_classifier(before, tmp_path / "model")
    after = load_classifier(tmp_path / "model")
    assert after.classes_.tolist() == sorted(names)
    assert {type(label) for label in after.predict(FEATURES)} == {type(names[0])}
    assert after.predict(FEATURES).tolist() == before.transduction_.tolist()


def test_words_that_are_no_fractions_are_refused(tmp_path, path):
    for kind in ("Fraction", "Decimal", "int"):
        change(path, tmp_path / "bad", {"class_kind": kind, "classes": ["1", "2", "x"]})
        with pytest.raises(ValueError, match="bad is damaged"):
            load_classifier(tmp_path / "bad")


@pytest.mark.parametrize("layout", [None, 1, 2])
def test_a_file_of_another_layout_is_of_an_earlier_version(tmp_path, path, layout):
    """Those files that say no layout are the oldest."""
    change(path, tmp_path / "old", {"layout": layout})
    with pytest.raises(
        ValueError, match=r"^The classifier file .*old is of another version of dahgnn\. Fit it anew\.$"
    ):
        load_classifier(tmp_path / "old")


def test_an_old_file_is_not_called_damaged(tmp_path, path):
    """What an earlier version wrote lacks other parts, too."""
    change(path, tmp_path / "old", {"layout": 2, "stack": None}, **{"fitted.density": None})
    with pytest.raises(ValueError, match=r"of another version of dahgnn\. Fit it anew\.$"):
        load_classifier(tmp_path / "old")


def test_notes_need_not_be_there(path):
    assert load_with_notes(path)[1] == {}


def test_tensors_come_back_from_beside_a_classifier(tmp_path):
    classifier = fitted()
    beside = {
        "text.idf": np.linspace(1, 2, 7),
        "features": torch.tensor([[1, 2], [3, 4]], dtype=torch.int32),  # not those of the classifier
        "notes": np.array([np.nan, np.inf], dtype=np.float32),
        "none": np.zeros((0, 3)),
    }
    save_classifier(classifier, tmp_path / "model", {"columns": ["text"]}, beside)
    saved = load_saved(tmp_path / "model")
    assert saved.notes == {"columns": ["text"]}
    assert saved.tensors.keys() == beside.keys()
    for name, values in beside.items():
        np.testing.assert_array_equal(saved.tensors[name], values)
        assert saved.tensors[name].dtype == torch.as_tensor(values).dtype
    np.testing.assert_array_equal(
        saved.classifier.predict_proba(FEATURES), classifier.predict_proba(FEATURES)
    )
    assert load_with_notes(tmp_path / "model")[1] == {"columns": ["text"]}


def test_classes_in_another_order_are_refused(tmp_path, path):
    content = path.read_bytes()
    assert content.count(rb"\"classes\": [0, 1, 2]") == 1
    (tmp_path / "changed").write_bytes(content.replace(rb"[0, 1, 2]", rb"[2, 1, 0]"))
    with pytest.raises(ValueError, match="changed is damaged, or was changed since it was written"):
        load_classifier(tmp_path / "changed")
    with pytest.raises(ValueError, match=r"since it was written\. Do that\.$"):
        load_with_notes(tmp_path / "changed", "Do that.")
