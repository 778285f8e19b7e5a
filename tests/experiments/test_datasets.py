"""Datasets: those of the registry, users' tables, and which of their nodes are taken."""

import numpy as np
import pytest
import torch
from small_experiment import write_mnist

from dahgnn.experiments.datasets import DATASETS, DatasetSpec, draw_nodes, load_task


def test_a_task_is_read_from_official_files(tmp_path):
    write_mnist(tmp_path)
    whole = load_task(DatasetSpec(name="mnist"), 4, tmp_path)
    assert whole.features.shape == (200, 784)
    some = load_task(DatasetSpec(name="mnist", per_class=7), 4, tmp_path)
    assert np.bincount(some.labels).tolist() == [7] * 10
    assert some.neighbours.shape == (70, 4)
    assert some != whole
    assert some == load_task(DatasetSpec(name="mnist", per_class=7), 4, tmp_path)


def test_nodes_behind_those_of_another_experiment_are_others():
    labels = torch.arange(60) % 3
    ours = draw_nodes(labels, DatasetSpec(name="mnist", per_class=8))
    behind = draw_nodes(labels, DatasetSpec(name="mnist", per_class=5, skip=8))
    assert not set(ours.tolist()) & set(behind.tolist())
    assert torch.bincount(labels[behind]).tolist() == [5, 5, 5]
    with pytest.raises(ValueError, match="at least 24 nodes. Got 20"):
        draw_nodes(labels, DatasetSpec(name="mnist", per_class=16, skip=8))
    with pytest.raises(ValueError, match="'skip' parameter of the dataset 'mnist' must be 0"):
        DatasetSpec(name="mnist", skip=8)


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("mnist-digits", (5000, 784), 10),
        ("digits", (1797, 64), 10),
        ("wine", (178, 13), 3),
        ("breast-cancer", (569, 30), 2),
        ("noise", (400, 10), 3),
    ],
)
def test_datasets_of_other_packages_need_no_folder(tmp_path, name, shape, classes):
    task = load_task(DatasetSpec(name=name), 4, tmp_path)
    assert task.features.shape == shape
    assert task.features.dtype == np.float32
    assert task.n_classes == classes
    assert DatasetSpec(name=name).title == DATASETS[name].title


def test_an_unknown_dataset_suggests_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'wine'"):
        DatasetSpec(name="wien")


def write_table(folder, name="mine.csv"):
    """Write 30 rows of three kinds and of very different sizes, and two rows without a label."""
    generator = np.random.default_rng(0)
    labels = ["pear"] * 6 + ["apple"] * 20 + ["fig"] * 4 + ["", ""]
    rows = generator.normal(size=(32, 2))
    text = "size,weight,fruit\n" + "".join(f"{a},{b},{c}\n" for (a, b), c in zip(rows, labels, strict=True))
    (folder / name).write_text(text)
    return rows, labels


def test_a_table_of_ones_own_becomes_a_task_without_its_unlabelled_rows(tmp_path):
    rows, labels = write_table(tmp_path)
    spec = DatasetSpec(name="fruit", file="mine.csv", label="fruit", folder=tmp_path)
    task = load_task(spec, 3, tmp_path / "elsewhere")
    assert task.classes == ("apple", "fig", "pear")
    assert [task.classes[label] for label in task.labels] == labels[:30]
    np.testing.assert_allclose(task.features, rows[:30], rtol=1e-6)
    assert spec.title == "fruit"
    absolute = DatasetSpec(name="fruit", file=str(tmp_path / "mine.csv"), label="fruit")
    assert load_task(absolute, 3, tmp_path / "elsewhere") == task


def test_a_file_of_a_built_in_spec_is_in_the_data_folder(tmp_path):
    write_table(tmp_path)
    assert load_task(DatasetSpec(name="fruit", file="mine.csv", label="fruit"), 3, tmp_path).n_classes == 3


def test_numbers_as_labels_are_in_the_order_of_numbers(tmp_path):
    labels = np.array([2, 10, 9] * 6)
    np.savez(tmp_path / "mine.npz", X=np.random.default_rng(0).normal(size=(18, 3)), y=labels)
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(18, 3)))
    np.save(tmp_path / "labels.npy", labels)
    for file, label in (("mine.npz", "y"), ("rows.npy", "labels.npy")):
        task = load_task(DatasetSpec(name="own", file=file, label=label, folder=tmp_path), 3, tmp_path)
        assert task.classes == ("2", "9", "10")
        assert task.labels[:3].tolist() == [0, 2, 1]


def test_labels_of_one_class_are_refused(tmp_path):
    np.savez(tmp_path / "mine.npz", X=np.eye(4), y=np.zeros(4, dtype=int))
    with pytest.raises(ValueError, match="of two classes or more. Got 1"):
        load_task(DatasetSpec(name="own", file="mine.npz", label="y"), 2, tmp_path)


def test_a_file_needs_the_column_of_its_labels():
    with pytest.raises(ValueError, match="'label' parameter of the dataset 'own' must be the column"):
        DatasetSpec(name="own", file="mine.npz")


def test_rows_are_drawn_first_and_then_so_many_of_each_class():
    labels = torch.arange(90) % 3
    rows = draw_nodes(labels, DatasetSpec(name="wine", rows=40))
    assert len(rows) == 40
    assert rows.equal(draw_nodes(labels, DatasetSpec(name="wine", rows=40)))
    some = draw_nodes(labels, DatasetSpec(name="wine", rows=40, per_class=5))
    assert set(some.tolist()) <= set(rows.tolist())
    assert labels[some].bincount().tolist() == [5, 5, 5]
    assert draw_nodes(labels, DatasetSpec(name="wine", rows=90)) is None
