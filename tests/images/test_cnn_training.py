import copy
import math
import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from small_images import SMALL, striped_images

from dahgnn.checks import check_device
from dahgnn.files.tensors import read_tensors, tensors_digest, write_tensors
from dahgnn.images.cnn import CNN13, CNNConfig, accuracy_on, channel_statistics, recalibrate
from dahgnn.images.cnn_training import CNNEpoch, estimate_seconds, images_digest, train_cnn
from dahgnn.images.datasets import Images


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Bits are the same for the same number of threads, in this process and in those it starts."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def images() -> Images:
    return striped_images(40, seed=0)


@pytest.fixture(scope="module")
def uninterrupted(images) -> str:
    return train_cnn(images, SMALL).digest


def test_a_small_problem_is_learned():
    config = replace(SMALL, epochs=8, width=0.125, learning_rate=0.1)
    seen: list[CNNEpoch] = []
    test = striped_images(90, seed=2)
    trained = train_cnn(
        striped_images(192, seed=1), config, test=test, evaluate_every=4, callback=seen.append
    )
    assert trained.test_accuracy >= 0.95
    assert trained.test_accuracy == accuracy_on(trained.network, test)
    assert [epoch.epoch for epoch in seen] == list(range(9))
    assert [epoch.test_accuracy is not None for epoch in seen] == [epoch in (4, 8) for epoch in range(9)]
    assert seen[0].loss is None
    assert seen[0].seconds_left > 0
    assert seen[8].loss < seen[1].loss
    assert seen[8].seconds_left == 0
    assert all(epoch.images_per_second > 0 for epoch in seen[1:])
    assert not trained.network.training


def test_the_same_seed_gives_the_same_bits(images, uninterrupted):
    assert train_cnn(images, SMALL).digest == uninterrupted
    assert train_cnn(images, replace(SMALL, seed=1)).digest != uninterrupted


def test_the_generator_of_the_process_is_left_alone_and_does_not_matter(images, uninterrupted):
    torch.manual_seed(99)
    before = torch.random.get_rng_state()
    assert train_cnn(images, SMALL).digest == uninterrupted
    assert torch.equal(torch.random.get_rng_state(), before)


def test_watching_changes_nothing(images, uninterrupted, tmp_path):
    trained = train_cnn(
        images, SMALL, test=striped_images(6, 3), checkpoint=tmp_path / "c", checkpoint_seconds=0,
        evaluate_every=1, callback=lambda _: None,
    )  # fmt: skip
    assert trained.digest == uninterrupted


# The first lets the average forget quickly, the second is still in its slow beginning after five steps.
@pytest.mark.parametrize("averaging", [0.2, 0.99])
def test_updates_are_those_of_torch_and_the_average_is_that_of_the_formula(images, averaging):
    """All images in one batch, nothing random: five steps by torch.optim.SGD must give the same."""
    config = CNNConfig(
        epochs=5, batch_size=40, width=0.0625, learning_rate=0.05, padding=0, cutout=0, dropout=0.0,
        averaging=averaging, weight_decay=0.5, label_smoothing=0.2, warm_up=0.4, recalibrate=False,
    )  # fmt: skip
    first = train_cnn(images, replace(config, epochs=1, learning_rate=1e-12, weight_decay=0.0)).network
    network = CNN13(3, width=0.0625, dropout=0.0)
    network.load_state_dict(first.state_dict())
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.reset_running_stats()
    network.train()
    average = copy.deepcopy(network.state_dict())
    optimizer = torch.optim.SGD(network.parameters(), lr=1, momentum=0.9, nesterov=True, weight_decay=0.5)
    for step in range(5):
        rate = 0.025 * (step + 1) if step < 2 else 0.025 * (1 + math.cos(math.pi * (step - 2) / 3))
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        logits = network((images.pixels / 255 - first.mean[:, None, None]) / first.deviation[:, None, None])
        targets = torch.nn.functional.one_hot(images.labels, 3) * 0.8 + 0.2 / 3
        (-(targets * logits.log_softmax(1)).sum(1).mean()).backward()
        optimizer.step()
        decay = min(averaging, (1 + step) / (10 + step))
        for name, tensor in network.state_dict().items():
            average[name] = decay * average[name] + (1 - decay) * tensor
    start = dict(first.named_parameters())
    for name, weight in train_cnn(images, config).network.named_parameters():
        moved = (average[name] - start[name]).norm()
        # A rounding that tips one maximum of a pool over moves a gradient by a percent; a wrong rule by more.
        assert (weight - average[name]).norm() < 0.05 * moved, name
    for name, tensor in train_cnn(images, config).network.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            torch.testing.assert_close(tensor, average[name], rtol=0.02, atol=0.02, msg=name)


def test_without_averaging_the_result_is_the_network_itself(images, tmp_path):
    for averaging, same in ((0.0, True), (0.5, False)):
        path = tmp_path / f"{averaging}.safetensors"
        trained = train_cnn(images, replace(SMALL, averaging=averaging), checkpoint=path)
        saved = read_tensors(path, "dahgnn-cnn-checkpoint", "")[1]
        weight = trained.network.block1[0].weight
        assert torch.equal(weight, saved["average.block1.0.weight"])
        assert torch.equal(weight, saved["network.block1.0.weight"]) == same


def test_recalibration_changes_the_batch_statistics_alone(images, uninterrupted):
    plain = train_cnn(images, replace(SMALL, recalibrate=False)).network
    trained = train_cnn(images, SMALL)
    assert trained.digest == uninterrupted
    weights = dict(trained.network.named_parameters())
    assert all(torch.equal(weight, weights[name]) for name, weight in plain.named_parameters())
    recalibrate(plain, images.pixels)
    for name, buffer in trained.network.named_buffers():
        torch.testing.assert_close(buffer, plain.get_buffer(name), msg=name)


def test_the_normalisation_is_stored_with_the_weights(images):
    trained = train_cnn(images, replace(SMALL, epochs=1))
    mean, deviation = channel_statistics(images.pixels)
    assert torch.equal(trained.network.mean, mean)
    assert torch.equal(trained.network.deviation, deviation)


CHILD = """
import os, signal, sys
import torch
from small_images import SMALL, striped_images
from dahgnn.images import cnn_steps, cnn_training
import safetensors.torch, pathlib

torch.set_num_threads(1)
moment, count = sys.argv[2], int(sys.argv[3])
calls = 0
def die_at_last(function):
    def wrapped(*arguments, **named):
        global calls
        calls += 1
        if calls == count:
            if moment == "writing":
                function(*arguments, **named)
                os.truncate(arguments[1], os.path.getsize(arguments[1]) // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **named)
    return wrapped
if moment == "writing":
    safetensors.torch.save_file = die_at_last(safetensors.torch.save_file)
elif moment == "renaming":
    pathlib.Path.replace = die_at_last(pathlib.Path.replace)
else:
    cnn_steps.augment = die_at_last(cnn_steps.augment)
cnn_training.train_cnn(striped_images(40, seed=0), SMALL, checkpoint=sys.argv[1], checkpoint_seconds=0)
"""


@pytest.mark.parametrize(
    ("moment", "count", "step"),
    [("writing", 4, 3), ("renaming", 1, None), ("updating", 4, 3), ("updating", 6, 5)],
)
def test_a_training_that_was_killed_ends_with_the_same_bits(
    images, uninterrupted, tmp_path, moment, count, step
):
    checkpoint = tmp_path / "c.safetensors"
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(checkpoint), moment, str(count)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])},
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    assert checkpoint.exists() == (step is not None)
    if step is not None:
        assert read_tensors(checkpoint, "dahgnn-cnn-checkpoint", "")[0]["step"] == step
    trained = train_cnn(images, SMALL, checkpoint=checkpoint)
    assert trained.digest == uninterrupted
    assert read_tensors(checkpoint, "dahgnn-cnn-checkpoint", "")[0]["step"] == 6


def stop_after(epoch: int):
    def callback(reached: CNNEpoch) -> None:
        if reached.epoch == epoch:
            raise KeyboardInterrupt

    return callback


@pytest.fixture
def interrupted(images, tmp_path):
    """A checkpoint after the first of three epochs."""
    checkpoint = tmp_path / "c.safetensors"
    with pytest.raises(KeyboardInterrupt):
        train_cnn(images, SMALL, checkpoint=checkpoint, checkpoint_seconds=0, callback=stop_after(1))
    return checkpoint


def test_a_resumed_training_reports_where_it_stands(images, uninterrupted, interrupted):
    seen: list[CNNEpoch] = []
    before = read_tensors(interrupted, "dahgnn-cnn-checkpoint", "")[0]["seconds"]
    trained = train_cnn(images, SMALL, checkpoint=interrupted, callback=seen.append)
    assert [epoch.epoch for epoch in seen] == [1, 2, 3]
    assert trained.digest == uninterrupted
    assert trained.seconds > before


def test_a_finished_training_is_not_repeated(images, uninterrupted, tmp_path):
    checkpoint, test = tmp_path / "c.safetensors", striped_images(9, seed=4)
    first = train_cnn(images, SMALL, test=test, checkpoint=checkpoint)
    content = checkpoint.read_bytes()
    again = train_cnn(images, SMALL, test=test, checkpoint=checkpoint)
    assert first.digest == again.digest == uninterrupted
    assert first.test_accuracy == again.test_accuracy
    assert checkpoint.read_bytes() == content


def test_the_checkpoint_of_another_training_is_refused_and_kept(images, interrupted):
    before = interrupted.read_bytes()
    with pytest.raises(
        ValueError, match="is of a training with epochs = 3, not 5; seed = 0, not 7. .* or remove it"
    ):
        train_cnn(images, replace(SMALL, epochs=5, seed=7), checkpoint=interrupted)
    with pytest.raises(ValueError, match="is of a training on other images"):
        train_cnn(striped_images(40, seed=1), SMALL, checkpoint=interrupted)
    assert interrupted.read_bytes() == before


def test_a_damaged_checkpoint_is_refused(images, interrupted):
    header, tensors = read_tensors(interrupted, "dahgnn-cnn-checkpoint", "")
    for key, words in (("step", "header of the file .* is damaged"), ("config", "with averaging = None")):
        broken = {name: value for name, value in header.items() if name != key}
        write_tensors(interrupted, "dahgnn-cnn-checkpoint", broken, tensors)
        with pytest.raises(ValueError, match=words):
            train_cnn(images, SMALL, checkpoint=interrupted)
    write_tensors(interrupted, "dahgnn-cnn-checkpoint", header, {"loss": tensors["loss"]})
    with pytest.raises(ValueError, match="does not hold a training of this network. Remove it"):
        train_cnn(images, SMALL, checkpoint=interrupted)
    save_file(tensors, interrupted)
    with pytest.raises(ValueError, match="must be of the format .* Remove it to train from the start"):
        train_cnn(images, SMALL, checkpoint=interrupted)
    os.truncate(interrupted, 1000)
    with pytest.raises(ValueError, match="is cut, damaged .* Remove it to train from the start"):
        train_cnn(images, SMALL, checkpoint=interrupted)


def test_a_full_disk_leaves_the_old_checkpoint(images, uninterrupted, interrupted):
    before = interrupted.read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limit[1]))
    try:
        with pytest.raises(Exception, match="File too large|os error 27"):
            train_cnn(images, SMALL, checkpoint=interrupted, checkpoint_seconds=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert interrupted.read_bytes() == before
    assert os.listdir(interrupted.parent) == [interrupted.name]
    assert train_cnn(images, SMALL, checkpoint=interrupted).digest == uninterrupted


def test_a_loss_that_is_lost_ends_the_training_and_is_not_saved(images, tmp_path):
    config = replace(SMALL, epochs=6, learning_rate=1e30)
    with pytest.raises(ValueError, match="'learning_rate' .* loss stays finite. Got 1e\\+30. Lower it."):
        train_cnn(images, config, checkpoint=tmp_path / "c.safetensors", checkpoint_seconds=0)
    if (tmp_path / "c.safetensors").exists():
        _, tensors = read_tensors(tmp_path / "c.safetensors", "dahgnn-cnn-checkpoint", "")
        assert torch.isfinite(tensors["loss"])


def test_fewer_images_than_a_batch_are_one_batch(images):
    trained = train_cnn(images, replace(SMALL, batch_size=512, epochs=2, recalibrate=False))
    assert trained.network.block1[1].num_batches_tracked == 2


def test_grey_images_can_be_trained_on():
    grey = Images("mnist", striped_images(20, 0).pixels[:, :1].contiguous(), torch.arange(20) % 2)
    trained = train_cnn(grey, replace(SMALL, epochs=1))
    assert trained.dataset == "mnist"
    assert trained.network.classifier.weight.shape == (2, 128)


def test_the_estimate_is_of_the_order_of_the_time(images):
    config = replace(SMALL, epochs=20)
    estimate = estimate_seconds(images, config)
    assert estimate_seconds(images, replace(config, epochs=2000)) > 20 * estimate
    assert estimate_seconds(images, replace(config, epochs=1, warm_up=1.0)) > 0
    seconds = train_cnn(images, config).seconds
    assert seconds / 10 < estimate < seconds * 10


def test_the_digest_names_the_images(images):
    assert images_digest(images) == images_digest(striped_images(40, seed=0))
    other = Images(images.name, images.pixels, images.labels.flip(0))
    assert images_digest(other) != images_digest(images)
    assert images_digest(images) == tensors_digest({"labels": images.labels, "pixels": images.pixels})


def test_a_device_that_is_not_there_is_named(images):
    assert check_device("cpu", "f") == torch.device("cpu")
    with pytest.raises(
        ValueError, match="'device' parameter of train_cnn must be one that torch has here. Got 'cuda:77'"
    ):
        train_cnn(images, SMALL, device="cuda:77")
