import hashlib
import json
import os
import tempfile
from pathlib import Path

import pytest
from rights import plain_user

from dahgnn.images import published
from dahgnn.images.downloads import REGISTRY
from dahgnn.images.published import MEMORY, PUBLISHED, check_published, file_digests


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "one.bin").write_bytes(b"one")
    (tmp_path / "inner" / "two.bin").write_bytes(b"two")
    return tmp_path


@pytest.fixture
def hashed(monkeypatch):
    """The names of the files that are read."""
    seen, read = [], published._sha256
    monkeypatch.setattr(published, "_sha256", lambda path: seen.append(path.name) or read(path))
    return seen


def sha256(content):
    return hashlib.sha256(content).hexdigest()


FILES = ("one.bin", "inner/two.bin")


def test_every_file_that_is_downloaded_has_a_digest():
    for name, remotes in REGISTRY.items():
        targets = {target for remote in remotes for target in remote.targets}
        assert PUBLISHED[name].keys() == targets
        assert all(len(bytes.fromhex(digest)) == 32 for digest in PUBLISHED[name].values())
    assert PUBLISHED["mnist"]["t10k-labels-idx1-ubyte.gz"].startswith("f7ae60f9")
    assert PUBLISHED["cifar10"]["cifar-10-batches-bin/test_batch.bin"].startswith("8e2eb146")


def test_a_file_is_read_once(folder, hashed):
    expected = {"one.bin": sha256(b"one"), "inner/two.bin": sha256(b"two")}
    assert file_digests(folder, FILES) == expected
    assert file_digests(folder, FILES) == expected
    assert hashed == ["one.bin", "two.bin"]


def test_a_file_that_changed_is_read_again(folder, hashed):
    file_digests(folder, FILES)
    state = (folder / "one.bin").stat()
    (folder / "one.bin").write_bytes(b"two")  # as long, and with the times of the old one
    os.utime(folder / "one.bin", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert file_digests(folder, FILES)["one.bin"] == sha256(b"two")
    os.utime(folder / "inner" / "two.bin")
    assert file_digests(folder, FILES)["inner/two.bin"] == sha256(b"two")
    assert hashed == ["one.bin", "two.bin", "one.bin", "two.bin"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"files": 3}',
        '{"files": {"one.bin": 3}}',
        '{"files": {"one.bin": {"stamp": [3, 1, 1], "sha256": 5}}}',
        "[" * 100_000,
    ],
)
def test_a_damaged_memory_is_an_empty_one(folder, content):
    (folder / MEMORY).write_text(content)
    assert file_digests(folder, ["one.bin"]) == {"one.bin": sha256(b"one")}
    assert json.loads((folder / MEMORY).read_text())["files"].keys() == {"one.bin"}


@pytest.mark.skipif(os.name != "posix", reason="other rights elsewhere")
def test_where_nobody_may_write_the_users_cache_remembers(hashed, monkeypatch):
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name) / "data", Path(name) / "cache"
        for place in (folder, cache):
            place.mkdir()
        (folder / "one.bin").write_bytes(b"one")
        folder.chmod(0o555)
        cache.chmod(0o777)
        Path(name).chmod(0o755)
        monkeypatch.setattr("pooch.os_cache", lambda _: cache)
        with plain_user():
            for _ in range(2):
                assert file_digests(folder, ["one.bin"]) == {"one.bin": sha256(b"one")}
        assert hashed == ["one.bin"]
        assert not (folder / MEMORY).exists()
        (cache / "digests").chmod(0o555)
        (folder / "one.bin").touch()
        with plain_user():  # nowhere to remember: it is read each time
            for _ in range(2):
                assert file_digests(folder, ["one.bin"]) == {"one.bin": sha256(b"one")}
        assert hashed == ["one.bin"] * 3


def test_the_message_names_file_digests_and_the_way_out(folder):
    digests = {"one.bin": sha256(b"one"), "inner/two.bin": "0" * 64}
    assert check_published("any", "Any", folder, ["one.bin"], digests) == {"one.bin": sha256(b"one")}
    with pytest.raises(ValueError, match="not the published one") as refused:
        check_published("any", "Any", folder, FILES, digests)
    message = str(refused.value)
    for part in (
        "The Any file",
        str(folder / "inner" / "two.bin"),
        "0" * 64,
        sha256(b"two"),
        "[dataset.mine]",
    ):
        assert part in message
