"""The description of where something was measured."""

import platform
from datetime import UTC, datetime, timedelta

import pytest
import torch

from dahgnn import __version__
from dahgnn.environment import describe_device, describe_environment, installed_versions, name_device


def test_an_environment_says_when_where_and_with_what():
    environment = describe_environment()
    assert environment.keys() == {"finished", "device", "versions"}
    finished = datetime.fromisoformat(environment["finished"])
    assert abs(datetime.now(UTC) - finished) < timedelta(minutes=1)
    assert environment["device"] == {
        "type": "cpu",
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
    }
    assert environment["versions"]["dahgnn"] == __version__
    assert environment["versions"]["torch"] == torch.__version__


def test_a_line_may_change_its_versions_without_changing_those_of_others():
    describe_environment()["versions"]["torch"] = "0"
    assert installed_versions()["torch"] == torch.__version__


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_is_named():
    assert describe_device("cuda") == {"type": "cuda", "name": torch.cuda.get_device_name()}


def test_older_lines_have_the_words_themselves():
    assert name_device("2 CPU threads, x86_64") == "2 CPU threads, x86_64"
