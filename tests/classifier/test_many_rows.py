"""The ways of a fit that many rows take, on few of them: files, shards, batches, approximate neighbours."""

import errno
import os
from dataclasses import replace

import numpy as np
import pytest

from dahgnn import DAHGNNClassifier
from dahgnn.classifier import estimator, task
from dahgnn.classifier import plan as planning
from dahgnn.classifier.saving import load_classifier, save_classifier
from dahgnn.config import PRESETS, ResourceConfig
from dahgnn.files.scratch import Scratch
from dahgnn.graph import sharded

QUICK = replace(PRESETS["default"].training, max_epochs=8)


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    labels = np.arange(400) % 3
    rows = 2 * generator.normal(size=(3, 6))[labels] + generator.normal(size=(400, 6))
    return rows.astype(np.float32), np.where(np.arange(400) < 60, labels, -1), labels


@pytest.fixture
def on_disk(monkeypatch, tmp_path):
    """Let every array be large, and memory be full."""
    folder = tmp_path / "work"
    monkeypatch.setattr(planning, "_SHARE", 0.0)
    monkeypatch.setattr(planning.Plan, "scratch", lambda plan: Scratch(folder, large=1))
    return folder


def fit(table, **resources):
    rows, known, _ = table
    chosen = ResourceConfig(**resources) if resources else None
    return DAHGNNClassifier(training=QUICK, networks=2, random_state=0, resources=chosen).fit(rows, known)


@pytest.fixture(scope="module")
def usual(table):
    return fit(table)


def right(classifier, table):
    return (classifier.transduction_ == table[2])[60:].mean()


def same(here, there, tolerance=1e-5):
    for name in ("label_distributions_", "embedding_", "density_", "held_out_distributions_"):
        np.testing.assert_allclose(getattr(here, name), getattr(there, name), atol=tolerance, err_msg=name)


def test_in_files_everything_is_as_in_memory(table, usual, on_disk):
    found = fit(table, batch=0)
    assert found.plan_.on_disk
    assert not usual.plan_.on_disk
    same(found, usual)
    assert found.combination_ == pytest.approx(usual.combination_, abs=1e-4)
    assert list(on_disk.iterdir()) == []
    new = table[0][:50] + 0.1
    np.testing.assert_allclose(found.predict_proba(new), usual.predict_proba(new), atol=1e-5)


def test_batches_are_as_right_as_all_at_once(table, usual, on_disk):
    found = fit(table, batch=16)
    assert found.plan_.batch == 16
    assert right(found, table) > right(usual, table) - 0.03
    assert found.stopped_ in ("max_epochs", "held_out")


def test_one_batch_of_everything_is_all_at_once_but_for_what_is_sampled(table, usual):
    found = fit(table, batch=1000)
    assert not found.plan_.on_disk
    assert right(found, table) > right(usual, table) - 0.03


@pytest.mark.parametrize("search", ["ivf", "hnsw"])
def test_approximate_neighbours_serve_as_well(table, usual, search):
    pytest.importorskip("faiss")
    told = []
    found = DAHGNNClassifier(
        training=QUICK, networks=2, random_state=0, resources=ResourceConfig(search=search, recall=0.99)
    ).fit(*table[:2], progress=lambda done, total, *_, **__: told.append((done, total)))
    assert told[-1] == (1, 1)  # of its shards
    assert found.plan_.search == found.search_.backend == search
    assert found.search_.recall >= 0.98  # which is measured on all rows, being few
    assert f"neighbours come from {found.search_.describe()}" in found.decision_
    assert right(found, table) > right(usual, table) - 0.02
    surroundings = DAHGNNClassifier(resources=ResourceConfig(search=search)).surroundings(table[0])
    assert surroundings.report.backend == search
    assert surroundings.report.recall >= 0.95


def test_where_lists_are_slow_an_automatic_fit_takes_links(monkeypatch):
    pytest.importorskip("faiss")
    for module in (planning, sharded):
        monkeypatch.setattr(module, "choose_search", lambda n, d, device, wanted: "ivf")
    rows = np.random.default_rng(0).normal(size=(3000, 60)).astype(np.float32)
    labels = np.where(np.arange(3000) < 60, rows[:, 0] > 0, -1)
    settings = {"training": QUICK, "networks": 1, "random_state": 0, "k": 2, "metric": "euclidean"}
    found = DAHGNNClassifier(**settings, resources=ResourceConfig(recall=0.9)).fit(rows, labels)
    assert found.plan_.search == "ivf"
    assert found.search_.backend == "hnsw"
    assert found.search_.recall >= 0.9


def test_rows_of_a_file_are_not_copied_into_memory(table, usual, tmp_path, on_disk):
    np.save(tmp_path / "rows.npy", table[0])
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    found = DAHGNNClassifier(training=QUICK, networks=2, random_state=0, resources=ResourceConfig(batch=0))
    same(found.fit(mapped, table[1]), usual)
    assert found.ensemble_.features.numpy().flags.writeable  # scaled rows are others than the given ones
    np.testing.assert_array_equal(mapped, table[0])


def test_a_mapped_file_that_changes_while_it_is_scaled_ends_the_fit(table, tmp_path, monkeypatch):
    np.save(tmp_path / "rows.npy", table[0])
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    scale = task.choose_scaling

    def change(*given):
        os.utime(tmp_path / "rows.npy", ns=(1, 1))
        return scale(*given)

    monkeypatch.setattr(task, "choose_scaling", change)
    with pytest.raises(ValueError, match=r"rows.npy must stay the same while it is read"):
        DAHGNNClassifier(training=QUICK, networks=1, random_state=0).fit(mapped, table[1])
    os.truncate(tmp_path / "rows.npy", 1000)
    with pytest.raises(ValueError, match=r"rows.npy must have .* bytes, as when it was opened. Got 1,000"):
        DAHGNNClassifier(training=QUICK, networks=1, random_state=0).fit(mapped, table[1])


def test_what_lies_in_files_can_be_saved(table, on_disk, tmp_path):
    found = fit(table, batch=16)
    save_classifier(found, tmp_path / "model.safetensors")
    again = load_classifier(tmp_path / "model.safetensors")
    assert again.resources is None  # which are of the machine that fitted it
    np.testing.assert_array_equal(again.label_distributions_, found.label_distributions_)
    new = table[0][:20] - 0.1
    np.testing.assert_allclose(again.predict_proba(new), found.predict_proba(new), atol=1e-6)


def test_a_full_disk_leaves_the_last_fit(table, on_disk, monkeypatch):
    classifier = fit(table, batch=16)
    before = classifier.transduction_

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"must have room for .* Remove something, or name another folder"):
        classifier.fit(table[0], table[1])
    assert classifier.transduction_ is before
    assert list(on_disk.iterdir()) == []


def test_the_plan_is_told_where_it_matters(table, caplog, monkeypatch):
    with caplog.at_level("INFO", logger=estimator.logger.name):
        DAHGNNClassifier(training=QUICK, networks=1, verbose=1).fit(*table[:2])
        assert "columns: neighbours by" not in caplog.text
        DAHGNNClassifier(training=QUICK, networks=1, verbose=1, resources=ResourceConfig(batch=32)).fit(
            *table[:2]
        )
    assert (
        "400 rows of 6 columns: neighbours by an exact search; networks trained in batches of 32"
        in caplog.text
    )


def test_other_resources_are_refused(table):
    with pytest.raises(TypeError, match="'resources' parameter of DAHGNNClassifier must be a ResourceConfig"):
        DAHGNNClassifier(resources={"search": "ivf"}).fit(*table[:2])


def test_a_fit_that_was_ended_goes_on_and_one_with_other_settings_does_not(table, tmp_path):
    def classifier(folder, **changes):
        resources = ResourceConfig(batch=16, folder=str(tmp_path / folder))
        settings = {"training": QUICK, "networks": 1, "random_state": 0, "resources": resources}
        return DAHGNNClassifier(**settings | changes)

    def end(_, update):
        if update.epoch == 3:
            raise RuntimeError("ended")

    with pytest.raises(RuntimeError, match="ended"):
        classifier("work").fit(*table[:2], callback=end)
    assert list((tmp_path / "work").rglob("network-*.safetensors"))
    for changes in ({"k": 5}, {"model": replace(PRESETS["default"].model, dropout=0.1)}):
        epochs = []
        found = classifier("work", **changes).fit(*table[:2], callback=lambda _, u: epochs.append(u.epoch))  # noqa: B023
        assert epochs[0] == 1
        same(found, classifier("other", **changes).fit(*table[:2]), 0)
    epochs = []
    # Where it works and with how many processes makes no difference to it.
    elsewhere = ResourceConfig(batch=16, folder=str(tmp_path / "work"), jobs=2, memory=4)
    found = classifier("work", resources=elsewhere).fit(
        *table[:2], callback=lambda _, update: epochs.append(update.epoch)
    )
    assert epochs[0] == 4  # the third was kept before it was told
    same(found, classifier("other").fit(*table[:2]), 0)
    assert list((tmp_path / "work").iterdir()) == []
