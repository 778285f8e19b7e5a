"""What a fit makes of its arguments; `test_fit` has those that it refuses."""

import pytest
import torch

from dahgnn import HGNN, Split, TrainingConfig
from dahgnn.training.inputs import FitInputs, FitRequest


@pytest.fixture
def request_of(blobs, blob_hypergraph, blob_split):
    def make(**changes):
        features, labels = blobs
        given = {
            "owner": "fit",
            "models": [HGNN(6, 3)],
            "features": features,
            "hypergraph": blob_hypergraph,
            "labels": labels,
            "splits": [blob_split],
            "seeds": [5],
        }
        return FitRequest(**(given | changes))

    return make


def test_without_a_config_the_schedule_is_the_papers(request_of):
    assert request_of().schedule == TrainingConfig()
    config = TrainingConfig(max_epochs=3)
    assert request_of(config=config).schedule is config


def test_an_error_names_the_function_that_was_called(request_of):
    for owner in ("fit", "fit_many"):
        with pytest.raises(
            ValueError, match=f"'splits' parameter of {owner} must be one for each of 1 models"
        ):
            request_of(owner=owner, splits=[])


def test_without_seeds_they_are_the_numbers_of_the_models(request_of):
    models = [HGNN(6, 3) for _ in range(3)]
    splits = request_of().splits * 3
    assert list(request_of(models=models, splits=splits, seeds=None).seeds_of_runs) == [0, 1, 2]
    assert list(request_of(models=models, splits=splits, seeds=[7, 5, 3]).seeds_of_runs) == [7, 5, 3]


def test_inputs_have_the_precision_of_the_network(request_of):
    request = request_of(models=[HGNN(6, 3).double()], features=request_of().features.float())
    assert FitInputs.make(request).features.dtype == torch.float64


def test_a_run_has_the_labels_and_weights_of_its_own_nodes(request_of):
    request = request_of()
    split, labels = request.splits[0], request.labels
    weights = torch.arange(len(labels)).float()
    request = request_of(weights=weights)
    (run,) = FitInputs.make(request).make_runs(request)
    assert (run.number, run.seed, run.model) == (0, 5, request.models[0])
    for part, nodes in zip(run.parts, (split.train, split.validation), strict=True):
        assert torch.equal(part.nodes, nodes)
        assert torch.equal(part.labels, labels[nodes])
        assert torch.equal(part.weights, weights[nodes])


def test_without_validation_nodes_the_training_nodes_choose_the_epoch(request_of):
    whole = request_of().splits[0]
    request = request_of(splits=[Split(train=whole.train, validation=[], test=whole.test)])
    (run,) = FitInputs.make(request).make_runs(request)
    assert torch.equal(run.parts.validation.nodes, run.parts.train.nodes)
    assert run.parts.validation.weights is None
