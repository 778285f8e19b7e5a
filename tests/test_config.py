import dataclasses

import pytest

from dahgnn.config import PRESETS, ModelConfig, TrainingConfig


def test_the_preset_paper_states_the_paper():
    model, training = PRESETS["paper"].model, PRESETS["paper"].training
    assert (model.hidden, model.heads, model.units, model.delta, model.density) == (256, 4, 8, 0.4, True)
    assert (training.learning_rate, training.decay, training.decay_every) == (0.002, 0.5, 100)
    assert (training.max_epochs, training.patience, training.weight_decay) == (3000, 100, 0.0)


def test_settings_are_frozen_and_keyword_only():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().heads = 2
    with pytest.raises(TypeError):
        ModelConfig(64)


def test_from_mapping_takes_known_keys():
    assert ModelConfig.from_mapping({"hidden": 64, "density": False}) == ModelConfig(hidden=64, density=False)


@pytest.mark.parametrize(
    ("key", "words"),
    [("neighborhood", "Did you mean 'neighbourhood'"), ("zzz", "It has: hidden, heads")],
)
def test_from_mapping_refuses_unknown_keys(key, words):
    with pytest.raises(ValueError, match=f"ModelConfig has no setting '{key}'. {words}"):
        ModelConfig.from_mapping({key: 1})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hidden": 0}, "'hidden' parameter of ModelConfig must be at least 1. Got 0"),
        (
            {"hidden": 99999999999},
            "'hidden' parameter of ModelConfig must be at most 65536. Got 99999999999.",
        ),
        (
            {"heads": 300, "units": 300},
            "'heads × units' .* at most 65536. Got 90000. Each row has so many numbers",
        ),
        ({"heads": 0}, "'heads'"),
        ({"units": -1}, "'units'"),
        ({"delta": 1.5}, "'delta'.*at least -1 and at most 1. Got 1.5"),
        ({"delta": float("nan")}, "'delta'"),
        ({"neighbourhood": "center"}, "one of 'centre', 'shared'. Got 'center'. Did you mean 'centre'"),
        ({"convolution": "type"}, "Did you mean 'typed'"),
    ],
)
def test_bad_model_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        ModelConfig(**settings)


@pytest.mark.parametrize("name", ["density", "density_gradient", "final_activation"])
def test_a_flag_is_true_or_false(name):
    with pytest.raises(TypeError, match=f"'{name}' parameter of ModelConfig must be True or False. Got 'no'"):
        ModelConfig(**{name: "no"})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"learning_rate": 0}, "greater than 0"),
        ({"learning_rate": float("inf")}, "finite"),
        ({"decay": 0}, "greater than 0 and at most 1"),
        ({"decay": 2}, "at most 1"),
        ({"weight_decay": -1}, "at least 0"),
        ({"decay_every": 0}, "at least 1"),
        ({"max_epochs": 0}, "at least 1"),
        ({"patience": 0}, "at least 1"),
    ],
)
def test_bad_training_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        TrainingConfig(**settings)
