from dahgnn.classifier.plan import BATCH
from dahgnn.config import ResourceConfig
from dahgnn.report.fit_options import FitOptions, count_processes, make_classifier, plan_fit


def test_the_classifier_has_what_the_options_say():
    resources = ResourceConfig(search="exact", batch=64, memory=2.0)
    options = FitOptions(k=7, seed=3, networks=2, class_weight={"a": 2.0}, resources=resources)
    classifier = make_classifier(options)
    assert (classifier.k, classifier.random_state, classifier.networks) == (7, 3, 2)
    assert classifier.class_weight == {"a": 2.0}
    assert classifier.resources == resources
    assert make_classifier(FitOptions()).class_weight is None


def test_the_plan_is_that_of_the_classifier():
    plan = plan_fit(327, 8, 3, 90, FitOptions(networks=2, resources=ResourceConfig(search="exact", batch=16)))
    assert (plan.n, plan.d, plan.n_classes, plan.labels, plan.networks) == (327, 8, 3, 90, 2)
    assert (plan.search, plan.batch) == ("exact", 16)


def test_the_plan_of_several_processes_has_batches():
    ways = [plan_fit(327, 8, 3, 90, FitOptions(), processes).batch for processes in (1, 2)]
    assert ways == [0, BATCH]


def test_processes_are_counted_without_joining_them(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert count_processes() == 1
    monkeypatch.setenv("WORLD_SIZE", "4")  # a scheduler may say it of processes that are none of a fit
    assert count_processes() == 1
    for name, value in (("RANK", "1"), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", "1")):
        monkeypatch.setenv(name, value)
    assert count_processes() == 4
