from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from dahgnn.images.cnn import (
    CNN13,
    CONFIGS,
    Augmentation,
    CNNConfig,
    accuracy_on,
    augment,
    channel_statistics,
    check_images,
    draw_augmentation,
    pooled_features,
    recalibrate,
)
from dahgnn.images.datasets import Images


def random_images(n: int = 12, channels: int = 3, side: int = 32, name: str = "cifar10") -> Images:
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (n, channels, side, side), generator=generator, dtype=torch.uint8)
    return Images(name, pixels, torch.arange(n) % 3)


def small_network(seed: int = 0) -> CNN13:
    return CNN13(3, width=0.0625, generator=torch.Generator().manual_seed(seed)).eval()


def layers(network: CNN13) -> list[tuple]:
    """List what an image passes, in the order of the forward pass."""
    seen = []

    def note(module, inputs, output):
        match module:
            case nn.Conv2d():
                seen.append(("conv", module.kernel_size[0], module.out_channels, output.shape[-1]))
            case nn.BatchNorm2d():
                seen.append("batch norm")
            case nn.LeakyReLU():
                seen.append(("leaky", module.negative_slope))
            case nn.MaxPool2d():
                seen.append(("pool", output.shape[-1]))
            case nn.Linear():
                seen.append(("linear", *output.shape))

    hooks = [module.register_forward_hook(note) for module in network.modules()]
    network(torch.zeros(1, 3, 32, 32))
    for hook in hooks:
        hook.remove()
    return seen


def test_the_layers_are_those_of_the_paper():
    def convolutions(*sizes):
        return [layer for size in sizes for layer in (("conv", *size), "batch norm", ("leaky", 0.1))]

    assert layers(CNN13().eval()) == [
        *convolutions((3, 128, 32), (3, 128, 32), (3, 128, 32)), ("pool", 16),
        *convolutions((3, 256, 16), (3, 256, 16), (3, 256, 16)), ("pool", 8),
        *convolutions((3, 512, 6), (1, 256, 6), (1, 128, 6)), ("linear", 1, 10),
    ]  # fmt: skip


def test_the_number_of_parameters_is_that_counted_by_hand():
    convolutions = 9 * (3 * 128 + 2 * 128 * 128 + 128 * 256 + 2 * 256 * 256 + 256 * 512)
    convolutions += 512 * 256 + 256 * 128
    normalisation = 2 * (3 * 128 + 3 * 256 + 512 + 256 + 128)
    assert convolutions + normalisation + 128 * 10 + 10 == 3_121_802
    assert sum(weight.numel() for weight in CNN13().parameters()) == 3_121_802


def test_the_width_leaves_the_last_convolution():
    sizes = [module.out_channels for module in small_network().modules() if isinstance(module, nn.Conv2d)]
    assert sizes == [8, 8, 8, 16, 16, 16, 32, 16, 128]


def test_the_features_are_the_mean_before_the_linear_layer():
    network = small_network()
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    maps = network.block3(network.pool(network.block2(network.pool(network.block1(images)))))
    expected = maps.sum((2, 3)) / 36
    torch.testing.assert_close(network.features(images), expected)
    torch.testing.assert_close(
        network(images), expected @ network.classifier.weight.T + network.classifier.bias
    )


def test_weights_come_from_the_generator_alone():
    before = torch.random.get_rng_state()
    one, same, other = (small_network(seed).block1[0].weight for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_dropout_comes_from_the_generator_and_only_in_training():
    network = small_network()
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(network(images), network(images, torch.Generator().manual_seed(0)))
    network.train()
    before = torch.random.get_rng_state()
    one, same, other = (network(images, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.allclose(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_dropout_halves_the_units_and_doubles_the_rest():
    network = small_network().train()
    hidden = torch.ones(8, 16, 16, 16)
    dropped = network._drop(hidden, torch.Generator().manual_seed(0))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert abs(dropped.mean().item() - 1) < 0.02
    network.dropout = 1.0
    assert network._drop(hidden, None).abs().max() == 0


def test_normalise_is_by_mean_and_deviation_of_the_training_set():
    images = random_images()
    network = small_network()
    network.mean, network.deviation = channel_statistics(images.pixels)
    values = images.pixels.numpy() / 255
    np.testing.assert_allclose(network.mean, values.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(network.deviation, values.std((0, 2, 3)), rtol=1e-6)
    normalised = network.normalise(images.pixels)
    np.testing.assert_allclose(normalised.mean((0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(normalised.std((0, 2, 3)), 1, rtol=1e-3)


def test_a_channel_of_one_value_is_not_divided_by_zero():
    network = small_network()
    pixels = torch.full((2, 3, 32, 32), 7, dtype=torch.uint8)
    network.mean, network.deviation = channel_statistics(pixels)
    assert torch.isfinite(network.normalise(pixels)).all()


def looped_augmentation(image, top, left, mirrored, cover_top, cover_left, config, colour):
    """Do it with numpy.pad and slices, an image at a time."""
    _, height, width = image.shape
    wide = ((0, 0), (config.padding, config.padding), (config.padding, config.padding))
    result = np.pad(image, wide, mode="reflect")[:, top : top + height, left : left + width].copy()
    if mirrored:
        result = result[:, :, ::-1].copy()
    for channel, value in enumerate(colour):
        result[channel, cover_top : cover_top + config.cutout, cover_left : cover_left + config.cutout] = (
            value
        )
    return result


@pytest.mark.parametrize(
    "config",
    [
        CNNConfig(flip=True),
        CNNConfig(flip=False, cutout=0, padding=2),
        CNNConfig(flip=True, padding=0, cutout=20),
    ],
)
def test_augmentation_is_that_of_a_loop(config):
    pixels = random_images(40).pixels[:, :, :, :20].contiguous()  # not square
    colour = torch.tensor([1, 2, 3], dtype=torch.uint8)
    drawn = draw_augmentation(40, 32, 20, config, torch.Generator().manual_seed(3))
    result = augment(pixels, drawn, config, colour)
    assert result.dtype == torch.uint8
    for number, image in enumerate(pixels.numpy()):
        happens = [int(part[number]) for part in drawn]
        expected = looped_augmentation(image, *happens, config, colour.tolist())
        np.testing.assert_array_equal(result[number].numpy(), expected)


def test_every_shift_flip_and_place_is_drawn():
    config = CNNConfig(flip=True, padding=4, cutout=12)
    drawn = draw_augmentation(4000, 32, 20, config, torch.Generator().manual_seed(0))
    for part, last in ((drawn.top, 8), (drawn.left, 8), (drawn.cover_top, 20), (drawn.cover_left, 8)):
        assert part.unique().tolist() == list(range(last + 1))
    assert abs(drawn.mirrored.float().mean().item() - 0.5) < 0.05


def test_digits_are_never_mirrored():
    assert CONFIGS["cifar10"].flip
    assert not CONFIGS["svhn"].flip
    drawn = draw_augmentation(1000, 32, 32, CONFIGS["svhn"], torch.Generator().manual_seed(0))
    assert not drawn.mirrored.any()
    for name in ("svhn", "mnist"):
        with pytest.raises(
            ValueError, match=f"'flip' parameter of train_cnn must be False for {name}. Got True"
        ):
            check_images(random_images(name=name), None, CNNConfig(flip=True))


def test_nothing_drawn_leaves_the_image():
    pixels = random_images(2).pixels
    config = CNNConfig(padding=0, cutout=0)
    drawn = Augmentation(*(torch.zeros(2, dtype=torch.int64),) * 2, torch.tensor([False, False]), *(torch.zeros(2, dtype=torch.int64),) * 2)  # fmt: skip
    assert torch.equal(augment(pixels, drawn, config, torch.zeros(3, dtype=torch.uint8)), pixels)


def test_features_do_not_depend_on_the_batch_size():
    images, network = random_images(13), small_network()
    whole = pooled_features(network, images.pixels)
    assert whole.shape == (13, 128)
    for size in (1, 4, 13):
        torch.testing.assert_close(
            pooled_features(network, images.pixels, batch_size=size), whole, rtol=1e-4, atol=1e-6
        )


def test_features_are_those_of_evaluation():
    images, network = random_images(8), small_network()
    expected = pooled_features(network, images.pixels)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    assert torch.equal(pooled_features(network.train(), images.pixels), expected)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


def test_accuracy_is_the_share_of_largest_logits():
    images, network = random_images(30), small_network()
    logits = network(network.normalise(images.pixels))
    predictions = logits.argmax(1)
    assert accuracy_on(network, images) == pytest.approx((predictions == images.labels).sum().item() / 30)
    assert accuracy_on(network, Images("cifar10", images.pixels, predictions)) == 1


def test_recalibration_measures_every_layer_on_plain_images():
    images, network = random_images(20), small_network()
    before = {name: weight.clone() for name, weight in network.named_parameters()}
    recalibrate(network, images.pixels, batch_size=10)
    assert not network.training
    assert all(torch.equal(weight, before[name]) for name, weight in network.named_parameters())
    assert network.block2[1].momentum == 0.1
    # By hand: each batch goes through all layers, normalised by its own statistics.
    seen: dict[nn.Module, list[tuple]] = {}

    def note(module, inputs):
        values = inputs[0].transpose(0, 1).flatten(1)
        seen.setdefault(module, []).append((values.mean(1), values.var(1)))

    normalisations = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    result = [(module.running_mean.clone(), module.running_var.clone()) for module in normalisations]
    hooks = [module.register_forward_pre_hook(note) for module in normalisations]
    network.train().dropout = 0.0
    for part in images.pixels.split(10):
        network(network.normalise(part))
    for hook in hooks:
        hook.remove()
    assert len(result) == 9
    for module, (mean, variance) in zip(normalisations, result, strict=True):
        (mean1, variance1), (mean2, variance2) = seen[module]
        torch.testing.assert_close(mean, (mean1 + mean2) / 2, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(variance, (variance1 + variance2) / 2, rtol=1e-4, atol=1e-5)


def test_grey_images_of_another_size_have_features_too():
    network = CNN13(10, 1, width=0.0625).eval()
    assert pooled_features(network, random_images(2, 1, 28).pixels).shape == (2, 128)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0), ("batch_size", 1), ("learning_rate", 0.0), ("warm_up", 1.5), ("momentum", -0.1),
        ("weight_decay", -1.0), ("label_smoothing", 2.0), ("padding", -1), ("flip", 1), ("cutout", -1),
        ("dropout", 1.1), ("recalibrate", 0), ("averaging", float("nan")), ("width", 0.0), ("precision", "float16"), ("seed", -1),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(name, value):
    with pytest.raises((ValueError, TypeError), match=f"'{name}' parameter of CNNConfig must be"):
        replace(CNNConfig(), **{name: value})


def test_images_that_do_not_fit_are_refused():
    images, config = random_images(), CNNConfig()
    cases = [
        (replace(images, pixels=images.pixels.float()), None, config, "must be images of uint8"),
        (replace(images, pixels=images.pixels[:, 0]), None, config, r"of 12 pixels or more each way. Got shape \(12, 32, 32\)"),
        (random_images(side=11), None, config, "of 12 pixels or more each way"),
        (replace(images, labels=images.labels[:5]), None, config, "must be images with 12 labels"),
        (replace(images, labels=images.labels - 1), None, config, "labels of at least 0. Got -1"),
        (replace(images, labels=images.labels * 2), None, config, "every class from 0 on.*Got none of class 1"),
        (replace(images, labels=images.labels * 0), None, config, "Got none of class 1"),
        (images, random_images(side=28), config, r"'test' .* of shape \(3, 32, 32\) like those of training. Got \(3, 28, 28\)"),
        (images, replace(images, labels=images.labels + 1), config, "'test' .* n_classes - 1 = 2. Got 3"),
        (images, None, replace(config, padding=32), "'padding' .* at most 31 for images of 32 pixels. Got 32"),
        (images, None, replace(config, cutout=33), "'cutout' .* at most 32 for images of 32 pixels. Got 33"),
    ]  # fmt: skip
    for train, test, settings, words in cases:
        with pytest.raises((ValueError, TypeError), match=words):
            check_images(train, test, settings)
