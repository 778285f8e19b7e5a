"""The launchers of the CPU and of the GPU offer what the protocol says; mypy compares the types."""

import inspect

import pytest

from dahgnn.kernels.cpu import launch as cpu_kernels
from dahgnn.kernels.gpu import launch as gpu_kernels
from dahgnn.kernels.protocol import Kernels, MessageSettings

SURFACE = [name for name in vars(Kernels) if inspect.isfunction(vars(Kernels)[name]) and name[0] != "_"]


def test_the_protocol_names_every_kernel_that_both_have():
    assert SURFACE == [
        "supports",
        "gather_sum",
        "grouped_product",
        "grouped_product_backward",
        "dropout",
        "messages_forward",
        "messages_backward",
        "attend",
        "attend_backward",
        "similarity_sum",
    ]


@pytest.mark.parametrize("kernels", [cpu_kernels, gpu_kernels], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", SURFACE)
def test_a_launcher_takes_what_the_protocol_says(kernels, name):
    _, *expected = inspect.signature(getattr(Kernels, name)).parameters.values()
    actual = inspect.signature(getattr(kernels, name)).parameters.values()
    assert [(each.name, each.kind) for each in actual] == [(each.name, each.kind) for each in expected]


def test_settings_cannot_be_changed():
    settings = MessageSettings(slope=0.2, delta=None, tolerance=1e-6, activation=True)
    with pytest.raises(AttributeError):
        settings.slope = 0.3
