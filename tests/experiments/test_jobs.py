"""Jobs: what each fit is, and which lines are of it."""

from dataclasses import replace

import pytest
from small_experiment import small_spec, small_task

from dahgnn.experiments.jobs import Experiment, Job, plan


@pytest.fixture(scope="module")
def task():
    return small_task()


def test_a_plan_can_be_a_part(task):
    assert plan(small_spec(), methods=["hgnn"]) == [
        Job("mnist", "hgnn", count, run) for count in (3, 6) for run in (0, 1)
    ]
    assert plan(small_spec(), datasets=[]) == []


def test_a_key_is_of_everything_that_matters(task):
    spec = small_spec()
    job = Job("mnist", "hgnn", 3, 0)
    experiment = Experiment(spec, {"mnist": task})
    keys = {
        experiment.key(job),
        experiment.key(replace(job, run=1)),
        experiment.key(replace(job, labels_per_class=6)),
        experiment.key(replace(job, method="laplace")),
    }
    keys.add(Experiment(spec, {"mnist": small_task(seed=1)}).key(job))
    keys.add(Experiment(small_spec(k=4), {"mnist": task}).key(job))
    assert len(keys) == 6
    assert experiment.key(job) == Experiment(spec, {"mnist": small_task()}).key(job)


def test_a_dataset_may_have_counts_of_its_own(task):
    spec = small_spec(dataset={"mnist": {"labels": [4], "validation": 2}}, published={})
    assert {job.labels_per_class for job in plan(spec)} == {4}
    split = Experiment(spec, {"mnist": task}).split("mnist", 4, 0)
    assert (len(split.train), len(split.validation), len(split.test)) == (12, 6, 90 - 18)


def test_without_validation_nodes_the_rest_is_tested(task):
    split = Experiment(small_spec(validation=0), {"mnist": task}).split("mnist", 3, 0)
    assert (len(split.train), len(split.validation), len(split.test)) == (9, 0, 81)


def test_counts_are_refused_for_the_dataset_that_they_are_too_many_for(task):
    spec = small_spec(dataset={"mnist": {}, "wine": {"labels": [25]}}, published={})
    tasks = {"mnist": task, "wine": replace(task, name="wine")}
    with pytest.raises(
        ValueError, match="every class of 'wine' to test. Got 25 labelled and 5 for validation of 30"
    ):
        Experiment(spec, tasks).check()
    Experiment(spec, {"mnist": task}).check()


def test_the_keys_of_earlier_lines_are_still_found(task):
    """The identity of a job is that of version 0.1, whose settings had no parameters."""
    experiment = Experiment(small_spec(), {"mnist": task})
    identity = experiment.identity(Job("mnist", "laplace", 3, 0))
    assert identity["settings"] == {
        "kind": "LaplaceLearning",
        "model": {},
        "training": {},
        "networks": 1,
        "scale": "none",
        "k": 5,
    }
