import json
import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from dahgnn import DAHGNN, HGNN, ModelConfig, TrainingConfig, fit
from dahgnn.files.tensors import FORMAT_VERSION
from dahgnn.nn.saving import load_model, save_model
from dahgnn.threads import threads_for


def small_model(seed: int = 0) -> DAHGNN:
    return DAHGNN(6, 3, ModelConfig(hidden=8), generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(small_model(), path)
    return path


def rewrite(path, header=None, weights=None) -> None:
    """Write the file again with some of it changed, and without a digest that would tell."""
    with safe_open(path, framework="pt") as file:
        old = file.metadata() | {"format_version": "1"}
    changed = {key: value for key, value in {**old, **(header or {})}.items() if value is not None}
    save_file({**load_file(path), **(weights or {})}, path, metadata=changed)


def describing(**changes) -> dict[str, str]:
    return {"header": json.dumps({"model": "DAHGNN", "settings": small_model().settings} | changes)}


@pytest.mark.parametrize("kind", [DAHGNN, HGNN])
def test_a_loaded_model_predicts_the_same_bits(tmp_path, blobs, blob_hypergraph, blob_split, kind):
    features, labels = blobs
    generator = torch.Generator().manual_seed(0)
    model = small_model() if kind is DAHGNN else HGNN(6, 3, hidden=8, generator=generator)
    result = fit(model, features, blob_hypergraph, labels, blob_split, TrainingConfig(max_epochs=5))
    save_model(model, tmp_path / "deep" / "model.safetensors")
    loaded = load_model(tmp_path / "deep" / "model.safetensors")
    assert type(loaded) is kind
    assert loaded.settings == model.settings
    with threads_for(len(features)):  # as in the fit: more threads round otherwise
        assert torch.equal(loaded(features, blob_hypergraph), result.embedding)


def test_every_setting_survives(tmp_path):
    config = ModelConfig(
        hidden=3, heads=2, units=5, delta=0.1, density=False, neighbourhood="shared",
        density_gradient=True, convolution="printed", final_activation=False,
        activation=True, dropout=0.25, shortcut=True,
    )  # fmt: skip
    model = DAHGNN(4, 2, config).double()
    save_model(model, tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors")
    assert loaded.settings == model.settings
    assert str(loaded) == str(model)
    assert loaded.convolution.weight.dtype == torch.float64


def test_numbers_of_numpy_survive(tmp_path):
    config = ModelConfig(hidden=np.int64(3), delta=np.float32(0.5), density=np.bool_(False))
    model = DAHGNN(np.int64(4), 2, config)
    save_model(model, tmp_path / "model.safetensors")
    assert load_model(tmp_path / "model.safetensors").settings == model.settings


def test_a_file_with_the_flat_settings_of_earlier_versions_is_read(saved):
    settings = {
        "in_features": 6, "n_classes": 3, "hidden": 8, "heads": 4, "units": 8, "delta": 0.4, "density": True,
        "neighbourhood": "centre", "density_gradient": False, "convolution": "typed",
        "final_activation": False, "activation": False, "dropout": 0.0, "shortcut": False,
    }  # fmt: skip
    rewrite(saved, describing(settings=settings))
    loaded = load_model(saved)
    assert settings.items() <= loaded.settings.items()
    assert loaded.config == ModelConfig(hidden=8, final_activation=False)
    # Switches that a version before this one did not have keep their defaults.
    rewrite(saved, describing(settings={"in_features": 6, "n_classes": 3, "hidden": 8}))
    assert load_model(saved).config == ModelConfig(hidden=8)


def test_a_loaded_model_can_be_trained_further(saved, blobs, blob_hypergraph, blob_split):
    features, labels = blobs
    result = fit(
        load_model(saved), features, blob_hypergraph, labels, blob_split, TrainingConfig(max_epochs=3)
    )
    assert len(result.history) == 4


def test_the_header_states_format_and_settings(saved):
    with safe_open(saved, framework="pt") as file:
        header = file.metadata()
    assert header["format"] == "dahgnn-model"
    assert header["format_version"] == str(FORMAT_VERSION)
    assert json.loads(header["header"])["settings"]["hidden"] == 8


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_cut_file_is_refused(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match="model.safetensors is cut, damaged or not safetensors"):
        load_model(saved)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_text("hello")
    with pytest.raises(ValueError, match="not safetensors"):
        load_model(path)
    save_file({"a": torch.ones(1)}, path)
    with pytest.raises(ValueError, match="must be of the format 'dahgnn-model'"):
        load_model(path)


def test_a_missing_file_is_named(tmp_path):
    for path in (tmp_path / "nothing.safetensors", tmp_path):
        with pytest.raises(
            FileNotFoundError, match=f"There is no file {path}. Write it anew with save_model"
        ):
            load_model(path)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"format_version": "3"}, "must be of format 2. Got 3, written by dahgnn"),
        ({"header": None}, "header of the file .* is missing or damaged"),
        ({"header": "{"}, "is missing or damaged"),
        ({"header": "[]"}, "is missing or damaged"),
        (describing(settings=None), "header of the model file .* is damaged"),
        (describing(settings={"in_features": 6, "n_classes": 3, "colour": 1}), "is damaged .*colour"),
        (describing(settings={"in_features": 6, "n_classes": 1}), "is damaged .*n_classes"),
        (describing(model="Exec"), "is damaged .*Exec"),
        (describing(model=["DAHGNN"]), "is damaged"),
        # A network of a million gigabytes is recognised by its shapes, before any memory is taken.
        (
            describing(settings={"in_features": 1000000000000, "n_classes": 3, "hidden": 60000}),
            "convolution.weight",
        ),
    ],
)
def test_a_bad_header_is_refused(saved, header, words):
    rewrite(saved, header)
    with pytest.raises(ValueError, match=words):
        load_model(saved)


def test_a_changed_weight_is_refused(saved):
    content = bytearray(saved.read_bytes())
    content[-1] ^= 1
    saved.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged, or was changed since it was written. Write it anew"):
        load_model(saved)


@pytest.mark.parametrize(
    "weights", [{"convolution.weight": torch.ones(2, 2)}, {"more": torch.ones(1)}], ids=["shape", "name"]
)
def test_weights_that_do_not_fit_are_named(saved, weights):
    rewrite(saved, weights=weights)
    with pytest.raises(
        ValueError, match=f"does not hold the weights of its header: see {next(iter(weights))}"
    ):
        load_model(saved)


def test_weights_of_two_precisions_are_refused(saved):
    rewrite(saved, weights={"convolution.weight": torch.ones(6, 8, dtype=torch.float64)})
    with pytest.raises(ValueError, match="must hold weights of one precision"):
        load_model(saved)


def test_only_known_networks_are_saved(tmp_path):
    impostor = type("HGNN", (torch.nn.Linear,), {})
    for model, name in ((torch.nn.Linear(1, 1), "Linear"), (impostor(1, 1), "HGNN")):
        with pytest.raises(TypeError, match=f"one of DAHGNN, HGNN. Got {name}"):
            save_model(model, tmp_path / "model.safetensors")
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_the_old_file(saved):
    before = saved.read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limit[1]))
    try:
        with pytest.raises(Exception, match="File too large|os error 27"):
            save_model(small_model(seed=1), saved)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


@pytest.mark.parametrize("moment", ["in the middle of writing", "before the rename"])
def test_a_kill_while_saving_leaves_the_old_file(saved, moment):
    before = saved.read_bytes()
    code = f"""
import os, signal, sys, pathlib, safetensors.torch
from dahgnn import DAHGNN, save_model
whole = safetensors.torch.save_file
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def half(weights, path, metadata):
    whole(weights, path, metadata)
    os.truncate(path, os.path.getsize(path) // 2)
    die()
if {moment == "before the rename"}:
    pathlib.Path.replace = die
else:
    safetensors.torch.save_file = half
save_model(DAHGNN(9, 3), sys.argv[1])
"""
    done = subprocess.run([sys.executable, "-c", code, str(saved)])
    assert done.returncode == -signal.SIGKILL
    assert saved.read_bytes() == before
