"""Files of hypergraphs, and specs of them."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from dahgnn.experiments.datasets import DatasetSpec, load_task
from dahgnn.experiments.fit_jobs import fit_jobs, given_hypergraph
from dahgnn.experiments.hypergraph_files import FOLDER, Incidences, read_hypergraph
from dahgnn.experiments.jobs import Experiment, Job, plan
from dahgnn.experiments.spec import load_spec, parse_spec

N = 60
LABELS = np.arange(N) % 3


def arrays(**changes):
    """Sixty nodes of noise, whose hyperedges are of one class each; the last six are in none."""
    generator = np.random.default_rng(0)
    node = [row for label in range(3) for row in np.flatnonzero(LABELS[:54] == label)]
    whole = {
        "node": np.array(node, np.int32),
        "hyperedge": np.repeat(np.arange(6), 9).astype(np.int32),
        "labels": LABELS.astype(np.int16),
        "features": generator.integers(0, 3, size=(N, 5)).astype(np.float32),
        "train": np.stack([np.arange(6), np.arange(6, 12)]).astype(np.int32),
    } | changes
    return {name: value for name, value in whole.items() if value is not None}


def write(folder, name="cocitation_cora.npz", **changes):
    path = folder / FOLDER / name
    path.parent.mkdir(exist_ok=True)
    np.savez(path, **arrays(**changes))
    return path


def spec_of(methods=None, **dataset):
    return parse_spec(
        {
            "name": "small",
            "runs": 2,
            "labels": [2],
            "validation": dataset.pop("validation", 0),
            "k": 3,
            "dataset": {"cocitation-cora": dataset},
            "method": methods or {"spreading": {"kind": "HypergraphSpreading"}},
        }
    )


def test_a_file_is_read_with_dense_and_with_sparse_features(tmp_path):
    features, labels, incidences = read_hypergraph(write(tmp_path))
    np.testing.assert_array_equal(labels, LABELS)
    assert features.dtype == np.float32
    assert incidences.published.tolist() == [list(range(6)), list(range(6, 12))]
    sparse = csr_array(features)
    parts = {
        "features": None,
        "feature_data": sparse.data,
        "feature_indices": sparse.indices,
        "feature_indptr": sparse.indptr,
        "feature_shape": np.array(sparse.shape),
    }
    np.testing.assert_array_equal(read_hypergraph(write(tmp_path, **parts))[0], features)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node": None}, "must have an array 'node'. Got features, hyperedge, labels, train"),
        ({"features": None}, "must have an array 'features', or feature_data"),
        ({"features": np.full((N, 2), np.nan)}, "finite numbers"),
        ({"labels": LABELS[:7]}, "60 classes 0, 1, … as 'labels'"),
        ({"labels": LABELS - 1}, "classes 0, 1, …"),
        ({"hyperedge": np.zeros(3)}, "of one length"),
        ({"node": np.full(54, N)}, "nodes between 0 and 59. Got 60 to 60"),
        ({"train": np.array([[0, N]])}, "between 0 and 59 in rows of 'train'"),
        ({"labels": np.array(["a", {}], dtype=object)}, "must be an .npz file of numbers"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        read_hypergraph(write(tmp_path, **changes))


def test_a_missing_file_is_named_with_what_it_should_hold(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"cocitation_cora.npz must hold the hypergraph: 'node'.*--data"
    ):
        load_task(DatasetSpec(name="cocitation-cora"), 3, tmp_path)


def test_a_damaged_file_is_refused(tmp_path):
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="must be an .npz file"):
        read_hypergraph(path)


def test_some_nodes_keep_the_hyperedges_among_them():
    whole = Incidences(node=np.array([0, 1, 2, 3, 3, 4]), hyperedge=np.array([0, 0, 1, 1, 2, 2]))
    some = whole.subset(np.array([4, 3, 0]), 5)
    assert some.node.tolist() == [1, 0]  # of nodes 3 and 4; the others are left with one node
    assert some.hyperedge.tolist() == [0, 0]


def test_a_task_has_the_hypergraph_and_is_told_apart_by_it(tmp_path):
    write(tmp_path)
    task = load_task(DatasetSpec(name="cocitation-cora"), 3, tmp_path)
    hypergraph = given_hypergraph(task)
    assert hypergraph.n_hyperedges == 6 + 6
    write(tmp_path, hyperedge=np.arange(54) % 18)
    assert load_task(DatasetSpec(name="cocitation-cora"), 3, tmp_path) != task


def test_published_splits_are_those_of_the_file(tmp_path):
    write(tmp_path)
    spec = spec_of(draw="published")
    experiment = Experiment(spec, {"cocitation-cora": load_task(spec.datasets[0], 3, tmp_path)})
    experiment.check()
    split = experiment.split("cocitation-cora", 2, 1)
    assert split.train.tolist() == list(range(6, 12))
    assert len(split.validation) == 0
    assert split.test.tolist() == [*range(6), *range(12, N)]
    with pytest.raises(ValueError, match="has 2 published splits. Got a run 2"):
        experiment.split("cocitation-cora", 2, 2)
    with pytest.raises(ValueError, match="have 6 labelled nodes of 3 classes and no validation nodes. Got 3"):
        experiment.split("cocitation-cora", 3, 0)
    with pytest.raises(ValueError, match="must be 'per-class' or 'anywhere' where some rows are drawn"):
        DatasetSpec(name="cocitation-cora", draw="published", rows=20)
    with pytest.raises(ValueError, match="'draw' parameter of the dataset 'cocitation-cora' must be one of"):
        DatasetSpec(name="cocitation-cora", draw="somehow")


def test_nodes_are_drawn_anywhere(tmp_path):
    write(tmp_path)
    spec = spec_of(draw="anywhere", validation=3)
    experiment = Experiment(spec, {"cocitation-cora": load_task(spec.datasets[0], 3, tmp_path)})
    splits = [experiment.split("cocitation-cora", 10, run) for run in (0, 0, 1)]
    assert [len(splits[0].train), len(splits[0].validation), len(splits[0].test)] == [30, 9, 21]
    assert splits[0].digest == splits[1].digest != splits[2].digest
    counts = np.bincount(LABELS[splits[0].train.numpy()])
    assert counts.sum() == 30
    assert len(set(counts.tolist())) > 1


METHODS = {
    "spreading": {"kind": "HypergraphSpreading", "title": "a"},
    "hgnn": {"kind": "HGNN", "title": "b", "model": {"hidden": 16}, "training": {"max_epochs": 60}},
    "smooth": {
        "kind": "HGNN",
        "title": "c",
        "training": {"max_epochs": 60},
        "smoothing": "correct-and-smooth",
    },
    "mlp": {"kind": "MLP", "title": "d", "training": {"max_epochs": 30}},
    "logistic": {"kind": "LogisticRegression", "title": "e"},
}


def test_methods_get_the_hypergraph_and_others_do_without(tmp_path):
    write(tmp_path)
    spec = spec_of(METHODS, draw="published")
    experiment = Experiment(spec, {"cocitation-cora": load_task(spec.datasets[0], 3, tmp_path)})
    lines = {job.method: fit_jobs(experiment, [job], "cpu")[0] for job in plan(spec) if job.run == 0}
    right = {name: line["metrics"]["test_accuracy"] for name, line in lines.items()}
    # Features are noise. Six labels reach one hyperedge of each class, which has half of its nodes.
    assert min(right["hgnn"], right["smooth"]) > max(right["mlp"], right["logistic"])
    assert right["spreading"] > max(right["mlp"], right["logistic"])
    cut = replace(experiment.tasks["cocitation-cora"], digest="another", incidences=None)
    with pytest.raises(ValueError, match="must be that of the dataset. Got none"):
        fit_jobs(
            Experiment(spec_of(METHODS), {"cocitation-cora": cut}),
            [Job("cocitation-cora", "spreading", 2, 0)],
            "cpu",
        )


@pytest.mark.parametrize("name", ["given", "given-random"])
def test_the_specs_that_come_with_the_package_are_whole(name):
    pytest.importorskip("torch_geometric")
    spec = load_spec(name)
    assert [each.name for each in spec.datasets] == [
        "cocitation-cora",
        "cocitation-citeseer",
        "coauthorship-cora",
    ]
    assert spec.runs == 10
    assert {first for first, _ in spec.comparisons} == {"ours"}
    assert {method.name for method in spec.methods} == {"ours", *(second for _, second in spec.comparisons)}


@pytest.mark.parametrize(
    ("name", "nodes", "hyperedges", "covered", "labelled"),
    [
        ("cocitation_cora", 2708, 1579, 1434, 140),
        ("cocitation_citeseer", 3312, 1079, 1458, 138),
        ("coauthorship_cora", 2708, 1072, 2388, 140),
    ],
)
def test_the_files_are_those_that_were_published(name, nodes, hyperedges, covered, labelled):
    if "DAHGNN_TEST_HYPERGRAPHS" not in os.environ:
        pytest.skip("DAHGNN_TEST_HYPERGRAPHS names no folder")
    features, labels, incidences = read_hypergraph(
        Path(os.environ["DAHGNN_TEST_HYPERGRAPHS"]) / f"{name}.npz"
    )
    assert len(features) == len(labels) == nodes
    assert incidences.hyperedge.max() + 1 == hyperedges
    assert len(np.unique(incidences.node)) == covered
    assert incidences.published.shape == (10, labelled)
    counts = [np.bincount(labels[split]) for split in incidences.published]
    assert all(len(set(each.tolist())) == 1 for each in counts)
