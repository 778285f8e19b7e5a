import contextlib
import hashlib
import http.server
import io
import logging
import os
import resource
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path

import pooch
import pytest
from filelock import FileLock
from rights import plain_user

from dahgnn.images import downloads
from dahgnn.images.datasets import TITLES
from dahgnn.images.downloads import REGISTRY, RemoteFile, data_folder, fetch

CONTENT = bytes(range(256)) * 1200  # five chunks
FOLDER = "cifar-10-batches-bin"


class Server:
    """Serves what the tests put on it, and counts who asks for what."""

    def __init__(self):
        self.answers, self.asked, self.end = {}, [], threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.asked.append(self.path)
                self.close_connection = True
                if self.path not in outer.answers:
                    self.send_error(404)
                    return
                # The client may be gone, or give up in the middle.
                with contextlib.suppress(ConnectionError):
                    outer.answers[self.path](self)

            def log_message(self, *_):
                pass

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    def url(self, path):
        return f"http://127.0.0.1:{self._http.server_port}{path}"

    def put(self, path, content, *, announced=None, pieces=1, pause=0.0, stuck_after=None):
        """Serve the content in pieces; announce another length, or fall silent in the middle."""

        def answer(handler):
            handler.send_response(200)
            if announced != "nothing":
                handler.send_header("Content-Length", str(announced or len(content)))
            handler.end_headers()
            step = -(-len(content) // pieces)
            for number in range(pieces):
                if number == stuck_after:
                    self.end.wait()
                handler.wfile.write(content[number * step : (number + 1) * step])
                time.sleep(pause)

        self.answers[path] = answer
        return self.url(path)

    def close(self):
        self.end.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running = Server()
    yield running
    running.close()


def remote(*urls, name="images.bin", content=CONTENT, **settings):
    digest = hashlib.sha256(content).hexdigest()
    return RemoteFile(name=name, urls=urls, sha256=digest, size=len(content), **settings)


def registry(*files):
    return {"digits": files}


def left(folder):
    """The files in a folder, but for the lock, which stays."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.name != downloads._LOCK
    )


def test_a_file_comes_whole_with_progress(server, tmp_path):
    seen = []
    files = registry(remote(server.put("/a", CONTENT)))
    fetch("digits", tmp_path / "data", registry=files, progress=lambda *state: seen.append(state))
    target = tmp_path / "data" / "digits" / "images.bin"
    assert target.read_bytes() == CONTENT
    assert left(tmp_path / "data") == ["digits/images.bin"]
    assert [name for name, _, _ in seen] == ["images.bin"] * len(seen)
    received = [count for _, count, _ in seen]
    assert received == sorted(received)
    assert received[0] == downloads._CHUNK
    assert seen[-1][1:] == (len(CONTENT), len(CONTENT))


def test_a_file_is_readable_as_any_other(server, tmp_path):
    fetch("digits", tmp_path, registry=registry(remote(server.put("/a", CONTENT))))
    (tmp_path / "other").touch()
    assert (tmp_path / "digits" / "images.bin").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_server_that_announces_no_length(server, tmp_path):
    seen = []
    url = server.put("/a", CONTENT, announced="nothing", pieces=50)
    fetch("digits", tmp_path, registry=registry(remote(url)), progress=lambda *state: seen.append(state[1:]))
    assert (tmp_path / "digits" / "images.bin").read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_files_that_are_there_need_no_server(server, tmp_path):
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "images.bin").write_bytes(b"another copy")
    fetch("digits", tmp_path, registry=registry(remote(server.put("/a", CONTENT))), offline=True)
    fetch("digits", tmp_path, registry=registry(remote(server.url("/a"))))
    assert server.asked == []
    assert (tmp_path / "digits" / "images.bin").read_bytes() == b"another copy"


def test_only_the_files_that_are_wanted_are_asked_for(server, tmp_path):
    files = registry(
        remote(server.put("/a", CONTENT), name="a.bin"), remote(server.put("/b", CONTENT), name="b.bin")
    )
    fetch("digits", tmp_path, registry=files, files=["b.bin"])
    assert server.asked == ["/b"]
    fetch("digits", tmp_path, registry=files, files=["b.bin"], offline=True)
    with pytest.raises(FileNotFoundError, match="a.bin"):
        fetch("digits", tmp_path, registry=files, offline=True)


def test_only_what_is_missing_is_asked_for(server, tmp_path):
    files = registry(
        remote(server.put("/a", CONTENT), name="a"),
        remote(server.put("/b", CONTENT), name="b"),
    )
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "a").touch()
    fetch("digits", tmp_path, registry=files)
    fetch("digits", tmp_path, registry=files)
    assert server.asked == ["/b"]


BAD_COPIES = {
    "missing": (None, "404"),
    "cut": ({"content": CONTENT[:-1000], "announced": len(CONTENT)}, "failed|sent 306200 bytes"),
    "short": ({"content": CONTENT[:-1000]}, "sent 306200 bytes instead of 307200"),
    "long": ({"content": CONTENT + b"x"}, "sent more than the 307200 bytes"),
    "endless": (
        {"content": CONTENT * 40, "announced": "nothing", "pieces": 40},
        "sent more than the 307200 bytes",
    ),
    "wrong": ({"content": CONTENT[::-1]}, "sent a file of SHA-256 .* instead of"),
    "slow, then cut": (
        {"content": CONTENT[:-1000], "announced": len(CONTENT), "pieces": 20, "pause": 0.01},
        "failed|sent 306200 bytes",
    ),
    "stuck": ({"content": CONTENT, "pieces": 2, "stuck_after": 1}, "failed .*timed out"),
}


@pytest.mark.parametrize("kind", BAD_COPIES)
def test_a_bad_copy_leaves_nothing_and_the_next_home_serves(server, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(downloads, "_TIMEOUT", (5.0, 0.5))
    settings, words = BAD_COPIES[kind]
    bad = server.put("/bad", **settings) if settings else server.url("/bad")
    with pytest.raises(FileNotFoundError, match=words) as caught:
        fetch("digits", tmp_path, registry=registry(remote(bad)))
    assert bad in str(caught.value)
    assert str(tmp_path / "digits" / "images.bin") in str(caught.value)
    assert left(tmp_path) == []
    fetch("digits", tmp_path, registry=registry(remote(bad, server.put("/good", CONTENT))))
    assert (tmp_path / "digits" / "images.bin").read_bytes() == CONTENT
    assert left(tmp_path) == ["digits/images.bin"]
    assert server.asked == ["/bad", "/bad", "/good"]


def test_a_slow_server_is_waited_for(server, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "_TIMEOUT", (5.0, 0.5))  # less than the whole takes
    fetch("digits", tmp_path, registry=registry(remote(server.put("/a", CONTENT, pieces=30, pause=0.03))))
    assert (tmp_path / "digits" / "images.bin").read_bytes() == CONTENT


def test_a_dead_home_is_skipped(server, tmp_path):
    dead = Server()
    nobody = dead.url("/a")
    dead.close()
    with pytest.raises(FileNotFoundError, match=rf"Why: {nobody} failed \(.*[Rr]efused\)\.$"):
        fetch("digits", tmp_path, registry=registry(remote(nobody)))
    fetch("digits", tmp_path, registry=registry(remote(nobody, server.put("/a", CONTENT))))
    assert (tmp_path / "digits" / "images.bin").read_bytes() == CONTENT


def test_the_first_good_home_suffices(server, tmp_path):
    files = registry(remote(server.put("/a", CONTENT), server.put("/b", CONTENT)))
    fetch("digits", tmp_path, registry=files)
    assert server.asked == ["/a"]


def test_when_all_homes_fail_the_error_names_what_is_still_missing(server, tmp_path):
    files = registry(
        remote(server.put("/a", CONTENT), name="a"),
        remote(server.url("/b"), server.put("/c", b"?"), name="b"),
        remote(server.put("/d", CONTENT), name="d"),
    )
    with pytest.raises(FileNotFoundError) as caught:
        fetch("digits", tmp_path, registry=files)
    message = str(caught.value)
    assert "The dataset 'digits' lacks files that could not be downloaded" in message
    for name, paths in (("b", "bc"), ("d", "d")):
        assert f"  {tmp_path / 'digits' / name}\n" in message
        for path in paths:
            assert f"    from {server.url('/' + path)}\n" in message
    assert f"  {tmp_path / 'digits' / 'a'}\n" not in message
    assert "404" in message
    assert f"sent 1 bytes instead of {len(CONTENT)}" in message.splitlines()[-1]
    # What had come before stays.
    assert left(tmp_path) == ["digits/a"]


def test_offline_says_which_file_to_put_where(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        fetch("mnist", tmp_path / "data", offline=True)
    message = str(caught.value)
    for file in REGISTRY["mnist"]:
        assert f"  {tmp_path / 'data' / 'mnist' / file.name}\n" in message
        for url in file.urls:
            assert f"    from {url}\n" in message
    assert message.endswith("Why: downloads are turned off.")
    assert not (tmp_path / "data").exists()


def test_an_unknown_dataset_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match="one of 'mnist', 'cifar10', 'svhn'. Got 'minst'. Did you mean 'mnist'"
    ):
        fetch("minst", tmp_path)


def archive(members, kinds=None):
    """A .tar.gz of these members; ``kinds`` makes some of them links, whose content is the target."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.type = (kinds or {}).get(name, tarfile.REGTYPE)
            if entry.type == tarfile.REGTYPE:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
            else:
                entry.linkname = content
                tar.addfile(entry)
    return buffer.getvalue()


def archived(content, *urls):
    members = {f"{FOLDER}/{name}.bin": 1000 for name in "ab"}
    return remote(*urls, name="all.tar.gz", content=content, members=members)


GOOD = {f"{FOLDER}/a.bin": b"a" * 1000, f"{FOLDER}/b.bin": b"b" * 900}


def test_an_archive_gives_its_members_and_goes(server, tmp_path):
    content = archive({"readme.html": b"x", **GOOD})
    fetch("digits", tmp_path, registry=registry(archived(content, server.put("/a", content))))
    assert left(tmp_path) == [f"digits/{name}" for name in GOOD]
    for name, expected in GOOD.items():
        assert (tmp_path / "digits" / name).read_bytes() == expected


def test_members_that_are_there_stay(server, tmp_path):
    content = archive(GOOD)
    mine = tmp_path / "digits" / FOLDER / "a.bin"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")
    fetch("digits", tmp_path, registry=registry(archived(content, server.put("/a", content))))
    assert mine.read_bytes() == b"mine"
    assert (mine.parent / "b.bin").read_bytes() == b"b" * 900


def test_members_outside_stay_in_the_archive(server, tmp_path):
    evil = {"../evil.bin": b"x", str(tmp_path / "evil.bin"): b"x", f"{FOLDER}/../../evil.bin": b"x"}
    content = archive({**evil, **GOOD})
    fetch("digits", tmp_path / "data", registry=registry(archived(content, server.put("/a", content))))
    assert left(tmp_path) == [f"data/digits/{name}" for name in GOOD]


def test_the_first_of_two_equal_members_counts(server, tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for content in (b"first", b"second"):
            for name in GOOD:
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    content = buffer.getvalue()
    fetch("digits", tmp_path, registry=registry(archived(content, server.put("/a", content))))
    assert (tmp_path / "digits" / FOLDER / "a.bin").read_bytes() == b"first"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (archive({f"{FOLDER}/a.bin": b"a"}), f"lacks the members {FOLDER}/b.bin"),
        (archive({**GOOD, f"{FOLDER}/b.bin": b"b" * 1001}), "b.bin of 1001 bytes, which has 1000 at most"),
        (
            archive({**GOOD, f"{FOLDER}/b.bin": "/etc/passwd"}, {f"{FOLDER}/b.bin": tarfile.SYMTYPE}),
            "b.bin as a link or something else",
        ),
        (
            archive({**GOOD, f"{FOLDER}/b.bin": f"{FOLDER}/a.bin"}, {f"{FOLDER}/b.bin": tarfile.LNKTYPE}),
            "b.bin as a link or something else",
        ),
        (
            archive({**GOOD, f"{FOLDER}/b.bin": ""}, {f"{FOLDER}/b.bin": tarfile.DIRTYPE}),
            "b.bin as a link or something else",
        ),
        (archive(GOOD)[:-20], "is cut, damaged or not a .tar.gz archive"),
        (archive({**GOOD, f"{FOLDER}/b.bin": os.urandom(999)})[:700], "is cut, damaged or not a .tar.gz"),
        (archive(GOOD)[:-8] + b"\0" * 8, "is cut, damaged or not a .tar.gz archive"),
        (b"no archive", "is cut, damaged or not a .tar.gz archive"),
    ],
)
def test_a_bad_archive_leaves_nothing(server, tmp_path, content, words):
    # The checksum agrees: it was made of the bad file.
    with pytest.raises(FileNotFoundError, match=words) as caught:
        fetch("digits", tmp_path, registry=registry(archived(content, server.put("/a", content))))
    assert f"    or extracted: {FOLDER}/a.bin, {FOLDER}/b.bin\n" in str(caught.value)
    assert left(tmp_path) == []


def test_an_archive_that_somebody_put_there_is_extracted_offline_and_kept(tmp_path):
    given = tmp_path / "digits" / "all.tar.gz"
    given.parent.mkdir()
    given.write_bytes(archive(GOOD))
    files = registry(archived(b"of another checksum"))
    fetch("digits", tmp_path, registry=files, offline=True)
    assert left(tmp_path) == ["digits/all.tar.gz", *(f"digits/{name}" for name in GOOD)]
    (given.parent / FOLDER / "a.bin").unlink()
    given.write_bytes(b"no archive")
    with pytest.raises(FileNotFoundError, match="all.tar.gz is cut, damaged or not a .tar.gz archive"):
        fetch("digits", tmp_path, registry=files, offline=True)


CHILD = """
import sys
from dahgnn.images.downloads import RemoteFile, fetch
url, sha256, size, folder = sys.argv[1:]
file = RemoteFile(name="images.bin", urls=(url,), sha256=sha256, size=int(size))
fetch("digits", folder, registry={"digits": (file,)})
"""


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


def test_a_kill_leaves_nothing_and_the_next_call_starts_anew(server, tmp_path):
    url = server.put("/a", CONTENT, pieces=2, stuck_after=1)
    file = remote(url)
    command = [sys.executable, "-c", CHILD, url, file.sha256, str(file.size), str(tmp_path)]
    staged = tmp_path / "digits" / downloads._STAGING / "images.bin"
    with subprocess.Popen(command) as child:
        wait_for(lambda: child.poll() is not None or (staged.exists() and staged.stat().st_size > 0))
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    assert left(tmp_path) == [f"digits/{downloads._STAGING}/images.bin"]
    server.put("/a", CONTENT)
    fetch("digits", tmp_path, registry=registry(file))
    assert (tmp_path / "digits" / "images.bin").read_bytes() == CONTENT
    assert left(tmp_path) == ["digits/images.bin"]


def test_an_interrupt_leaves_nothing(server, tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("digits", tmp_path, registry=registry(remote(server.put("/a", CONTENT))), progress=interrupt)
    assert left(tmp_path) == []


def test_the_second_process_waits_and_uses_what_the_first_brought(server, tmp_path, caplog):
    place = tmp_path / "digits"
    place.mkdir()
    files = registry(remote(server.put("/a", CONTENT)))
    caplog.set_level(logging.WARNING)
    second = threading.Thread(target=fetch, args=("digits", tmp_path), kwargs={"registry": files})
    with FileLock(place / downloads._LOCK):
        second.start()
        wait_for(lambda: "Another process is downloading" in caplog.text)
        (place / "images.bin").write_bytes(b"brought by the first")
    second.join(60)
    assert not second.is_alive()
    assert server.asked == []
    assert left(tmp_path) == ["digits/images.bin"]


@pytest.mark.skipif(os.name != "posix", reason="other rights elsewhere")
def test_a_folder_that_must_not_be_written_to(server):
    files = registry(remote(server.put("/a", CONTENT)))
    expected = r"'digits' cannot be written to .*digits \(Permission denied\)\. .* by DAHGNN_DATA"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "digits").mkdir()
        (folder / "digits").chmod(0o555)
        folder.chmod(0o755)
        with plain_user(), pytest.raises(PermissionError, match=expected):
            fetch("digits", folder, registry=files)
        (folder / "digits").rmdir()
        folder.chmod(0o555)
        with plain_user(), pytest.raises(PermissionError, match=expected):
            fetch("digits", folder, registry=files)
        assert server.asked == []


def test_a_file_in_place_of_the_folder(server, tmp_path):
    (tmp_path / "digits").touch()
    with pytest.raises(OSError, match="'digits' cannot be written to"):
        fetch("digits", tmp_path, registry=registry(remote(server.put("/a", CONTENT))))


def test_a_disk_without_room(server, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    files = registry(remote(server.put("/a", CONTENT), server.put("/b", CONTENT)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match=r"cannot be written to .* \(File too large\)\. Free space there"):
            fetch("digits", tmp_path, registry=files)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert left(tmp_path) == []
    assert server.asked == ["/a"]  # another home would not help
    fetch("digits", tmp_path, registry=files)
    assert left(tmp_path) == ["digits/images.bin"]


def test_the_data_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("DAHGNN_DATA", str(tmp_path / "of the environment"))
    assert data_folder(tmp_path / "given") == tmp_path / "given"
    assert data_folder("~/given") == Path.home() / "given"
    assert data_folder() == tmp_path / "of the environment"
    for unset in (lambda: monkeypatch.setenv("DAHGNN_DATA", ""), lambda: monkeypatch.delenv("DAHGNN_DATA")):
        unset()
        assert data_folder(None) == pooch.os_cache("dahgnn")


def test_the_registry_is_complete():
    assert REGISTRY.keys() == TITLES.keys()
    for files in REGISTRY.values():
        for file in files:
            assert len(file.urls) > 1
            assert all(url.startswith("http") and url.endswith("/" + file.name) for url in file.urls)
            assert len(bytes.fromhex(file.sha256)) == 32
            assert file.size > 0
    targets = [target for file in REGISTRY["cifar10"] for target in file.targets]
    assert targets == [
        *(f"cifar-10-batches-bin/data_batch_{number}.bin" for number in range(1, 6)),
        "cifar-10-batches-bin/test_batch.bin",
    ]


def test_the_registry_agrees_with_the_official_files(mnist_folder):
    for file in REGISTRY["mnist"]:
        content = (mnist_folder / file.name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file.size, file.sha256)
