from dahgnn.config import ResourceConfig
from dahgnn.report.fit_options import FitOptions, make_classifier, plan_fit


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
