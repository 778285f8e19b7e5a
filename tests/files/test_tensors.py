import json
import logging
import os
import random
import resource
import signal

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dahgnn.files.tensors import read_tensors, tensors_digest, write_tensors

TENSORS = {"a": torch.arange(600.0).view(20, 30), "b": torch.tensor([1, 2])}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "deep" / "some.safetensors"
    write_tensors(path, "kind", {"epoch": 3, "word": "é"}, TENSORS)
    return path


def test_what_is_read_is_what_was_written(path):
    header, tensors = read_tensors(path, "kind", "")
    assert header == {"epoch": 3, "word": "é"}
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
    assert os.listdir(path.parent) == [path.name]


def test_what_was_read_outlives_the_file(path):
    _, tensors = read_tensors(path, "kind", "")
    os.truncate(path, 0)
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


def test_the_digest_depends_on_all_but_the_layout_in_memory():
    digest = tensors_digest(TENSORS)
    assert digest == tensors_digest(dict(reversed(TENSORS.items())))
    assert digest == tensors_digest({**TENSORS, "a": TENSORS["a"].t().contiguous().t()})
    changed = TENSORS["a"].clone()
    changed[3, 4] += 1e-3
    others = [
        {"a": changed},
        {"a": TENSORS["a"].view(30, 20)},
        {"b": TENSORS["b"].int()},
        {"c": TENSORS["b"]},
    ]
    assert len({digest, *(tensors_digest({**TENSORS, **other}) for other in others)}) == 5


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_cut_file_is_refused_with_the_remedy(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(
        ValueError, match=r"some.safetensors is cut, damaged or not safetensors .* Do that\.$"
    ):
        read_tensors(path, "kind", "Do that.")


def test_a_file_of_another_kind_is_refused(path):
    with pytest.raises(ValueError, match=r"must be of the format 'other'. Got kind. Do that\.$"):
        read_tensors(path, "other", "Do that.")
    save_file({"a": torch.ones(1)}, path)
    with pytest.raises(ValueError, match="must be of the format 'kind'. Got a file without that word"):
        read_tensors(path, "kind", "")


@pytest.mark.parametrize("text", [None, "", "{", "[]", "3"])
def test_a_missing_or_damaged_header_is_refused(path, text):
    metadata = {"format": "kind", "format_version": "1"} | ({} if text is None else {"header": text})
    save_file(TENSORS, path, metadata=metadata)
    with pytest.raises(ValueError, match=r"header of the file .* is missing or damaged. Do that\.$"):
        read_tensors(path, "kind", "Do that.")


def test_a_newer_format_is_refused(path):
    metadata = {"format": "kind", "format_version": "3", "header": "{}", "written_by": "dahgnn 9"}
    save_file(TENSORS, path, metadata=metadata)
    with pytest.raises(ValueError, match="must be of format 2. Got 3, written by dahgnn 9"):
        read_tensors(path, "kind", "")


def flipped(content, bit):
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_no_flipped_bit_passes(path):
    content = path.read_bytes()
    header = 8 * (8 + int.from_bytes(content[:8], "little"))
    elsewhere = random.Random(0).sample(range(header, 8 * len(content)), 500)
    for bit in [*range(header), *elsewhere]:
        path.write_bytes(flipped(content, bit))
        with pytest.raises(ValueError, match=r"some.safetensors .* Do that\.$"):
            read_tensors(path, "kind", "Do that.")
    path.write_bytes(content)
    assert read_tensors(path, "kind", "Do that.")[0] == {"epoch": 3, "word": "é"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (rb"{\"epoch\": 3", rb"{\"epoch\": 4"),
        (b'"a":{"dtype":"F32","shape":[20,30]', b'"a":{"dtype":"F32","shape":[30,20]'),
        (b'"a":{"dtype":"F32"', b'"a":{"dtype":"I32"'),
        (b'"a":{', b'"c":{'),
        (b"written_by", b"Written_by"),
        (b'"digest":"', b'"Digest":"'),
    ],
)
def test_a_changed_file_is_refused(path, old, new):
    content = path.read_bytes()
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))
    with pytest.raises(ValueError, match=r"is damaged, or was changed since it was written. Do that\.$"):
        read_tensors(path, "kind", "Do that.")


def test_a_file_without_a_digest_is_read_with_a_warning(path, caplog):
    metadata = {"format": "kind", "format_version": "1"}
    save_file(TENSORS, path, metadata={**metadata, "header": json.dumps({"digest": "its own"})})
    read_tensors(path, "kind", "Do that.")
    assert caplog.messages == []
    save_file(TENSORS, path, metadata={**metadata, "header": json.dumps({"epoch": 5})})
    with caplog.at_level(logging.WARNING):
        header, tensors = read_tensors(path, "kind", "Do that.")
    assert header == {"epoch": 5}
    assert torch.equal(tensors["a"], TENSORS["a"])
    assert caplog.messages == [
        f"The file {path} has no digest: nothing tells whether it is damaged. Do that."
    ]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(3, dtype=torch.bfloat16),
        torch.tensor(2.5),
        torch.zeros(0, 4),
        torch.from_numpy(np.zeros(0)),  # whose stride is 0
        torch.tensor([True, False]),
    ],
)
def test_tensors_of_any_type_and_shape_are_checked(path, tensor):
    write_tensors(path, "kind", {}, {"a": tensor})
    back = read_tensors(path, "kind", "")[1]["a"]
    assert torch.equal(back, tensor)
    assert back.dtype == tensor.dtype


def test_a_missing_file_is_named(tmp_path):
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(FileNotFoundError, match=f"There is no file {path}. Do that."):
            read_tensors(path, "kind", "Do that.")


def test_a_full_disk_leaves_the_old_file(path):
    before = path.read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limit[1]))
    try:
        with pytest.raises(Exception, match="File too large|os error 27"):
            write_tensors(path, "kind", {}, TENSORS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
