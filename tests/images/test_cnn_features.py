import os
import resource
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from small_images import SMALL, TEST, TRAIN, striped_images

from dahgnn.files.tensors import read_tensors, tensors_digest, write_tensors
from dahgnn.images.cnn import CNN13, CONFIGS, accuracy_on
from dahgnn.images.cnn_features import (
    FeaturesHeader,
    extract,
    features_path,
    load_cnn,
    load_features,
    make_features,
    read_header,
    save_cnn,
    save_features,
)
from dahgnn.images.cnn_training import CNNEpoch, images_digest, train_cnn
from dahgnn.images.datasets import Dataset, Images
from dahgnn.images.published import PUBLISHED


@pytest.fixture(scope="module")
def trained():
    return train_cnn(TRAIN, SMALL, test=TEST)


@pytest.fixture
def folder(tmp_path):
    """A cache folder with finished features."""
    make_features("cifar10", TRAIN, TEST, tmp_path, SMALL)
    return tmp_path


def rewrite(path: Path, header: dict | None = None, tensors: dict | None = None, *, honest: bool = True):
    """Write the features again with some of them changed; an honest file has the digest of what it holds."""
    old, values = read_tensors(path, "dahgnn-features", "")
    values |= tensors or {}
    digest = {"digest": tensors_digest(values)} if honest else {}
    changed = {key: value for key, value in {**old, **digest, **(header or {})}.items() if value is not None}
    write_tensors(path, "dahgnn-features", changed, values)


def forbidden(_: CNNEpoch) -> None:
    raise AssertionError("nothing is to be trained")


def test_features_are_those_of_the_network_on_plain_images(trained):
    features = extract(trained, TEST)
    assert features.shape == (15, 128)
    assert features.dtype == torch.float32
    for row, pixels in zip(features, TEST.pixels, strict=True):
        image = (pixels / 255 - trained.network.mean[:, None, None]) / trained.network.deviation[
            :, None, None
        ]
        torch.testing.assert_close(trained.network.features(image[None])[0], row, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(extract(trained, TEST, batch_size=4), features, rtol=1e-4, atol=1e-5)


def test_features_say_of_which_files_they_are_and_these_must_be_published(tmp_path):
    PUBLISHED["cifar10"] = {"a.bin": "aa", "b.bin": "bb"}
    train, test = replace(TRAIN, files={"a.bin": "aa"}), replace(TEST, files={"b.bin": "bb"})
    path = make_features("cifar10", train, test, tmp_path, replace(SMALL, epochs=1))
    assert read_header(path, "cifar10").files == {"a.bin": "aa", "b.bin": "bb"}
    rewrite(path, {"files": {"a.bin": "other"}})
    with pytest.raises(
        ValueError, match=r"made of a file a.bin that is not the published one \(SHA-256 other"
    ):
        load_features(path, "cifar10")
    rewrite(path, {"files": 3})
    with pytest.raises(ValueError, match="must have a table of files"):
        load_features(path, "cifar10")
    rewrite(path, {"files": None})  # as in earlier versions
    assert read_header(path, "cifar10").files == {}


def test_images_of_other_channels_are_refused(trained):
    grey = Images("cifar10", TEST.pixels[:, :1], TEST.labels)
    with pytest.raises(ValueError, match=r"channels = 3, height, width\). Got shape \(15, 1, 16, 16\)"):
        extract(trained, grey)


def test_a_loaded_cnn_gives_the_same_bits(trained, tmp_path):
    save_cnn(trained, tmp_path / "cnn.safetensors")
    loaded = load_cnn(tmp_path / "cnn.safetensors")
    assert torch.equal(extract(loaded, TEST), extract(trained, TEST))
    assert loaded.digest == trained.digest
    for name in ("config", "dataset", "images_digest", "test_accuracy", "seconds"):
        assert getattr(loaded, name) == getattr(trained, name)


def test_a_damaged_cnn_is_refused(trained, tmp_path):
    path = tmp_path / "cnn.safetensors"
    save_cnn(trained, path)
    header, weights = read_tensors(path, "dahgnn-cnn", "")
    changed = weights["classifier.bias"] + 1
    cases = [
        (header, {**weights, "classifier.bias": changed}, "are not those that were written"),
        (header, {name: tensor for name, tensor in weights.items() if name != "mean"}, "does not hold a CNN"),
        ({**header, "config": asdict(SMALL) | {"width": 2.0}}, weights, "does not hold a CNN"),
        ({**header, "config": asdict(SMALL) | {"width": 1e9}}, weights, "does not hold a CNN .*width"),
        ({**header, "config": {"colour": 1}}, weights, "does not hold a CNN .*colour"),
        ({**header, "seconds": None}, weights, "does not hold a CNN"),
    ]
    for wrong_header, wrong_weights, words in cases:
        write_tensors(path, "dahgnn-cnn", wrong_header, wrong_weights)
        with pytest.raises(ValueError, match=words + ".*Make it again with `dahgnn features`"):
            load_cnn(path)


def test_make_features_trains_extracts_and_says_where_it_is_from(folder, trained):
    path = features_path(folder, "cifar10")
    assert sorted(os.listdir(path.parent)) == ["cifar10-cnn.safetensors", "cifar10.safetensors"]
    dataset = load_features(path, "cifar10")
    assert dataset.name == "cifar10"
    network = load_cnn(path.with_name("cifar10-cnn.safetensors"))
    assert torch.equal(dataset.features, extract(network, TEST))
    assert torch.equal(dataset.labels, TEST.labels)
    header = read_header(path, "cifar10")
    assert (header.dataset, header.part, header.n_images) == ("cifar10", "test", 15)
    assert header.images_digest == images_digest(TEST)
    assert header.training_digest == images_digest(TRAIN)
    assert header.cnn_digest == network.digest
    assert header.cnn_test_accuracy == accuracy_on(network.network, TEST)
    assert header.config == asdict(SMALL)
    assert header.device["type"] == "cpu"
    assert header.versions["torch"] == torch.__version__
    assert header.seconds > 0


def test_what_is_there_is_not_made_again(folder):
    path = features_path(folder, "cifar10")
    before = path.read_bytes()
    assert make_features("cifar10", TRAIN, TEST, folder, SMALL, callback=forbidden) == path
    assert path.read_bytes() == before


@pytest.mark.parametrize("harm", ["missing", "cut", "nan"])
def test_missing_or_damaged_features_come_from_the_finished_network(folder, harm):
    path = features_path(folder, "cifar10")
    before = load_features(path, "cifar10").features
    if harm == "missing":
        path.unlink()
    elif harm == "cut":
        os.truncate(path, 900)
    else:
        rewrite(path, tensors={"features": torch.full((15, 128), torch.nan)})
    make_features("cifar10", TRAIN, TEST, folder, SMALL, callback=forbidden)
    assert torch.equal(load_features(path, "cifar10").features, before)


def test_other_test_images_need_no_training(folder):
    other = striped_images(9, seed=8)
    path = make_features("cifar10", TRAIN, other, folder, SMALL, callback=forbidden)
    header = read_header(path, "cifar10")
    assert (header.n_images, header.images_digest) == (9, images_digest(other))
    assert header.cnn_test_accuracy == accuracy_on(
        load_cnn(path.with_name("cifar10-cnn.safetensors")).network, other
    )


def test_other_training_images_or_settings_train_anew(folder):
    path = features_path(folder, "cifar10")
    before = read_header(path, "cifar10").cnn_digest
    seen: list[CNNEpoch] = []
    make_features("cifar10", TRAIN, TEST, folder, replace(SMALL, epochs=1), callback=seen.append)
    assert read_header(path, "cifar10").config["epochs"] == 1
    make_features("cifar10", striped_images(40, 6), TEST, folder, SMALL, callback=seen.append)
    assert [epoch.epoch for epoch in seen] == [0, 1, 0, 1, 2, 3]
    assert read_header(path, "cifar10").cnn_digest != before


def test_damaged_weights_are_trained_again(folder):
    path = features_path(folder, "cifar10")
    before = load_features(path, "cifar10").features
    os.truncate(path.with_name("cifar10-cnn.safetensors"), 5000)
    path.unlink()
    make_features("cifar10", TRAIN, TEST, folder, SMALL)
    assert torch.equal(load_features(path, "cifar10").features, before)


@pytest.mark.parametrize(("epochs", "stays"), [(3, False), (2, True)])
def test_the_checkpoint_of_a_training_that_is_done_does_not_stay(folder, epochs, stays):
    """A kill may leave it after the weights are written; that of another training may still be wanted."""
    path = features_path(folder, "cifar10")
    checkpoint = path.with_name("cifar10-cnn-checkpoint.safetensors")
    train_cnn(TRAIN, replace(SMALL, epochs=epochs), checkpoint=checkpoint)
    path.unlink()
    make_features("cifar10", TRAIN, TEST, folder, SMALL, callback=forbidden)
    assert checkpoint.exists() == stays


KILLED = """
import os, signal, sys
from small_images import SMALL, TEST, TRAIN
from dahgnn.images import cnn_features as features
from dahgnn.images.cnn_steps import CNNSteps
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
name = sys.argv[2]
if name == "training":
    begin = CNNSteps.update
    def update(self):
        begin(self)
        if self.step == 4 and self.batch_size == 16:
            die()
    CNNSteps.update = update
    train = features.train_cnn
    features.train_cnn = lambda *a, **k: train(*a, **k, checkpoint_seconds=0)
else:
    setattr(features, name, die)
features.make_features("cifar10", TRAIN, TEST, sys.argv[1], SMALL)
"""


@pytest.mark.parametrize(
    ("moment", "left"),
    [
        ("training", ["cifar10-cnn-checkpoint.safetensors"]),
        ("save_cnn", ["cifar10-cnn-checkpoint.safetensors"]),
        ("extract", ["cifar10-cnn.safetensors"]),
        ("save_features", ["cifar10-cnn.safetensors"]),
    ],
)
def test_a_kill_loses_only_the_last_seconds(tmp_path, trained, moment, left):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), moment],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])},
    )
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path / "features") == left
    seen: list[CNNEpoch] = []
    path = make_features("cifar10", TRAIN, TEST, tmp_path, SMALL, callback=seen.append)
    assert [epoch.epoch for epoch in seen] == {"training": [1, 2, 3], "save_cnn": [3]}.get(moment, [])
    assert read_header(path, "cifar10").n_images == 15
    assert sorted(os.listdir(path.parent)) == ["cifar10-cnn.safetensors", "cifar10.safetensors"]


def test_the_checkpoint_of_other_settings_is_not_mixed_in(tmp_path):
    def stop(epoch: CNNEpoch) -> None:
        if epoch.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_features("cifar10", TRAIN, TEST, tmp_path, SMALL, callback=stop)
    with pytest.raises(
        ValueError, match="epochs = 3, not 2. Train as it was begun to continue it, or remove it"
    ):
        make_features("cifar10", TRAIN, TEST, tmp_path, replace(SMALL, epochs=2))


def test_a_full_disk_leaves_the_old_features(folder, trained):
    path = features_path(folder, "cifar10")
    before = path.read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limit[1]))
    try:
        with pytest.raises(Exception, match="File too large|os error 27"):
            make_features("cifar10", TRAIN, striped_images(15, 9), folder, SMALL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before


def test_the_default_settings_are_those_of_the_dataset(tmp_path, monkeypatch):
    asked = []

    def pretend(images, config, **_):
        asked.append((images.name, config))
        raise KeyboardInterrupt

    monkeypatch.setattr("dahgnn.images.cnn_features.train_cnn", pretend)
    for name in ("cifar10", "svhn"):
        parts = [Images(name, part.pixels, part.labels) for part in (TRAIN, TEST)]
        with pytest.raises(KeyboardInterrupt):
            make_features(name, *parts, tmp_path)
    assert asked == list(CONFIGS.items())


def test_parts_of_another_dataset_are_refused(tmp_path):
    other = Images("svhn", TEST.pixels, TEST.labels)
    with pytest.raises(
        ValueError, match="'test' parameter of make_features must be images of 'cifar10'. Got 'svhn'"
    ):
        make_features("cifar10", TRAIN, other, tmp_path, SMALL)
    with pytest.raises(ValueError, match="one of 'cifar10', 'svhn'. Got 'cifar'. Did you mean 'cifar10'?"):
        make_features("cifar", TRAIN, TEST, tmp_path, SMALL)
    with pytest.raises(ValueError, match="'device' parameter of make_features"):
        make_features("cifar10", TRAIN, TEST, tmp_path, SMALL, device="cuda:77")
    assert os.listdir(tmp_path) == []


AGAIN = r".*Make it again with `dahgnn features cifar10`\.$"


@pytest.mark.parametrize(
    ("header", "tensors", "words"),
    [
        ({"dataset": "svhn"}, {}, "must hold features of 'cifar10'. Got 'svhn'."),
        ({"cnn_digest": None}, {}, "header of the file .* is incomplete .*cnn_digest"),
        ({"colour": 1}, {}, "header of the file .* is incomplete .*colour"),
        ({"n_images": 14}, {}, r"must hold 14 rows and labels. Got shapes \(15, 128\) and \(15,\)"),
        ({}, {"labels": torch.zeros(3, dtype=torch.int64)}, r"Got shapes \(15, 128\) and \(3,\)"),
        ({}, {"features": torch.zeros(15, 128).double()}, "must hold float32 and int64. Got torch.float64"),
        ({}, {"features": torch.full((15, 128), torch.nan)}, "must be finite. Got NaN or infinity"),
        ({}, {"more": torch.ones(1)}, "must hold features and labels. Got .*more"),
    ],
)
def test_wrong_features_are_refused_with_the_way_out(folder, header, tensors, words):
    path = features_path(folder, "cifar10")
    rewrite(path, header, tensors)
    for read in (load_features, read_header):
        with pytest.raises(ValueError, match=words + AGAIN):
            read(path, "cifar10")


def test_changed_values_are_noticed(folder):
    path = features_path(folder, "cifar10")
    rewrite(path, tensors={"features": torch.ones(15, 128)}, honest=False)
    with pytest.raises(ValueError, match="are not those that were written" + AGAIN):
        load_features(path, "cifar10")


def test_a_file_that_is_missing_cut_or_of_another_kind_is_refused(folder):
    path = features_path(folder, "cifar10")
    with pytest.raises(ValueError, match="must be of the format 'dahgnn-features'. Got dahgnn-cnn" + AGAIN):
        load_features(path.with_name("cifar10-cnn.safetensors"), "cifar10")
    save_file(load_file(path), path)  # without a header
    with pytest.raises(ValueError, match="must be of the format" + AGAIN):
        load_features(path, "cifar10")
    os.truncate(path, 3000)
    with pytest.raises(ValueError, match="is cut, damaged or not safetensors" + AGAIN):
        load_features(path, "cifar10")
    path.unlink()
    with pytest.raises(FileNotFoundError, match="There is no file" + AGAIN):
        load_features(path, "cifar10")


def test_nothing_wrong_is_saved(folder, tmp_path):
    header = read_header(features_path(folder, "cifar10"), "cifar10")
    good = torch.zeros(15, 128)
    cases = [
        (Dataset("svhn", good, TEST.labels), header, "must be that of 'svhn'. Got 'cifar10'"),
        (Dataset("cifar10", good[:9], TEST.labels[:9]), header, "must be that of 9 images. Got 15"),
        (Dataset("cifar10", good + torch.nan, TEST.labels), header, "must be finite"),
        (Dataset("cifar10", good, TEST.labels[:9]), header, "length n_nodes = 15. Got length 9"),
    ]
    for dataset, described, words in cases:
        with pytest.raises(ValueError, match=words):
            save_features(tmp_path / "wrong.safetensors", dataset, described)
    assert not (tmp_path / "wrong.safetensors").exists()


def test_a_header_survives(tmp_path):
    header = FeaturesHeader(
        dataset="svhn", part="test", n_images=2, images_digest="a", training_digest="b", cnn_digest="c",
        cnn_test_accuracy=0.973, config=asdict(CONFIGS["svhn"]), versions={"torch": "2"},
        device={"type": "cuda", "name": "NVIDIA H200"}, seconds=90.5,
    )  # fmt: skip
    path = tmp_path / "deep" / "svhn.safetensors"
    save_features(path, Dataset("svhn", torch.ones(2, 128), torch.tensor([0, 1])), header)
    assert read_header(path, "svhn") == header
    with safe_open(path, framework="pt") as file:
        assert '"cnn_test_accuracy": 0.973' in file.metadata()["header"]


def test_the_network_has_no_gradients(trained):
    assert isinstance(trained.network, CNN13)
    assert not extract(trained, TEST).requires_grad
