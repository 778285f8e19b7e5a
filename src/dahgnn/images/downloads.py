"""Get the official files of the datasets: from several homes, checked, whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import logging
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from dahgnn.checks import check_choice

# Where the data are, unless a command says otherwise.
ENVIRONMENT_VARIABLE = "DAHGNN_DATA"

# Called with a file's name, the bytes that are here and the bytes that it has.
Progress = Callable[[str, int, int], None]

_LOG = logging.getLogger(__name__)
_CHUNK = 2**16
# Seconds to connect, and between two bytes. A server that is silent for longer is given up.
_TIMEOUT = (10.0, 60.0)
# Holds what is not yet checked. The next call removes what a kill left there.
_STAGING = ".download"
_LOCK = ".lock"


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """A file that a dataset needs, or an archive of such files.

    Attributes
    ----------
    name : str
        The name of the file, at its home and here.
    urls : tuple of str
        Its homes, in the order in which they are tried.
    sha256 : str
        Its checksum; a download with another one is thrown away.
    size : int
        Its bytes; a download is given up when it gets longer.
    members : mapping of str to int
        For an archive: the members to extract, which keep their path, and the bytes that each may have.
    member_sha256 : mapping of str to str
        For an archive: the checksums of its members.
    """

    name: str
    urls: tuple[str, ...]
    sha256: str
    size: int
    members: Mapping[str, int] = field(default_factory=dict)
    member_sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def digests(self) -> Mapping[str, str]:
        """The checksum of what must lie in the dataset's folder in the end."""
        return self.member_sha256 if self.members else {self.name: self.sha256}

    @property
    def targets(self) -> tuple[str, ...]:
        """What must lie in the dataset's folder in the end."""
        return tuple(self.members) or (self.name,)


def _mnist(name: str, size: int, sha256: str) -> RemoteFile:
    homes = (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    )
    return RemoteFile(name=name, urls=tuple(home + name for home in homes), sha256=sha256, size=size)


def _svhn(name: str, size: int, sha256: str) -> RemoteFile:
    homes = (
        "http://ufldl.stanford.edu/housenumbers/",
        "https://ufldl.stanford.edu/housenumbers/",
        "https://cseweb.ucsd.edu/~weijian/static/datasets/svhn/",
    )
    return RemoteFile(name=name, urls=tuple(home + name for home in homes), sha256=sha256, size=size)


_CIFAR_MEMBERS = {
    f"cifar-10-batches-bin/{name}.bin": sha256
    for name, sha256 in {
        "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    }.items()
}

REGISTRY: Mapping[str, tuple[RemoteFile, ...]] = MappingProxyType(
    {
        "mnist": (
            _mnist(
                "train-images-idx3-ubyte.gz",
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            _mnist(
                "train-labels-idx1-ubyte.gz",
                28_881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            _mnist(
                "t10k-images-idx3-ubyte.gz",
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            _mnist(
                "t10k-labels-idx1-ubyte.gz",
                4_542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
        "cifar10": (
            RemoteFile(
                name="cifar-10-binary.tar.gz",
                urls=(
                    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                    "https://cave.cs.toronto.edu/kriz/cifar-10-binary.tar.gz",
                    "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/cifar-10-binary.tar.gz",
                ),
                sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                size=170_052_171,
                members=dict.fromkeys(_CIFAR_MEMBERS, 30_730_000),
                member_sha256=_CIFAR_MEMBERS,
            ),
        ),
        "svhn": (
            _svhn(
                "train_32x32.mat",
                182_040_794,
                "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
            ),
            _svhn(
                "test_32x32.mat",
                64_275_384,
                "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
            ),
        ),
    }
)


class _BadCopyError(Exception):
    """What a home sent, or did not send, is of no use; another home may do better."""


def data_folder(given: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of all data: the given one, else that of DAHGNN_DATA, else the platform's cache.

    Examples
    --------
    >>> data_folder("data").name
    'data'
    """
    chosen = given if given is not None else os.environ.get(ENVIRONMENT_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    import pooch

    return Path(pooch.os_cache("dahgnn"))


def fetch(
    name: str,
    folder: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    offline: bool = False,
    files: Collection[str] | None = None,
    registry: Mapping[str, Sequence[RemoteFile]] = REGISTRY,
) -> None:
    """Make the files of a dataset present in ``folder/name``.

    Files that are there stay as they are, without any network; `load_images` checks them. The others
    are downloaded, each to its place only when its checksum agrees; after a kill the next call starts that
    file anew. A second process waits for the first. An archive that lies in ``folder/name`` is extracted and
    kept.

    Parameters
    ----------
    name : {"mnist", "cifar10", "svhn"}
        Which dataset.
    folder : path
        The data folder, as `data_folder` gives it. Missing folders are made.
    progress : callable, optional
        Called as ``progress(file, received, size)`` while a file comes, in bytes.
    offline : bool
        Whether to refuse every download.
    files : collection of str, optional
        The files that must be there, by their path in ``folder/name``; all by default.
    registry : mapping of str to sequence of RemoteFile
        The files of each dataset.

    Raises
    ------
    FileNotFoundError
        If a file is missing and no home gives it; says what to put where, and from which addresses.
    OSError
        If the folder cannot be written to.
    """
    check_choice("name", name, tuple(registry), "fetch")
    place, remotes = Path(folder) / name, registry[name]
    if files is not None:
        remotes = [remote for remote in remotes if set(_missing_targets(remote, place)) & set(files)]
    if not _missing(remotes, place):
        return
    try:
        _obtain(name, place, remotes, progress, offline=offline)
    except _BadCopyError as error:
        missing = _missing(remotes, place)
        raise FileNotFoundError(_advice(name, place, missing, str(error))) from error


def _obtain(
    name: str, place: Path, remotes: Sequence[RemoteFile], progress: Progress | None, *, offline: bool
) -> None:
    """Extract the archives that are there, and download the rest."""
    if offline and not all(_is_given(remote, place) for remote in _missing(remotes, place)):
        raise _BadCopyError("downloads are turned off")
    with _writing(name, place), _lock(place):
        # Another process may have brought them while this one waited for the lock.
        for remote in _missing(remotes, place):
            if _is_given(remote, place):
                _unpack_given(remote, place)
            else:
                _download_any(remote, place, progress)


def _is_given(remote: RemoteFile, place: Path) -> bool:
    """Whether somebody put the archive itself into the folder."""
    return bool(remote.members) and (place / remote.name).exists()


def _missing(remotes: Sequence[RemoteFile], place: Path) -> list[RemoteFile]:
    return [remote for remote in remotes if _missing_targets(remote, place)]


def _missing_targets(remote: RemoteFile, place: Path) -> list[str]:
    return [target for target in remote.targets if not (place / target).exists()]


def _advice(name: str, place: Path, missing: Sequence[RemoteFile], reason: str) -> str:
    """Say what to put where."""
    lines = [f"The dataset '{name}' lacks files that could not be downloaded. Put them in place by hand:"]
    for remote in missing:
        lines.append(f"  {place / remote.name}")
        lines += [f"    from {url}" for url in remote.urls]
        if remote.members:
            lines.append(f"    or extracted: {', '.join(_missing_targets(remote, place))}")
    return "\n".join([*lines, f"Why: {reason}."])


@contextlib.contextmanager
def _writing(name: str, place: Path) -> Iterator[None]:
    """Make the folder, and say what to do when it cannot be written to."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise type(error)(
            f"The files of '{name}' cannot be written to {place} ({error.strerror or error}). Free space "
            f"there, let your user write to it, or choose another folder by {ENVIRONMENT_VARIABLE}."
        ) from error


@contextlib.contextmanager
def _lock(place: Path) -> Iterator[None]:
    """Let one process at a time write to the folder. The lock ends with its process, even when killed."""
    from filelock import FileLock, Timeout

    lock = FileLock(place / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _LOG.warning("Another process is downloading to %s. Waiting for it.", place)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _unpack_given(remote: RemoteFile, place: Path) -> None:
    """Extract an archive that somebody put into the folder."""
    archive = place / remote.name
    with _staging(place) as staging:
        try:
            _extract(archive, remote, place, staging)
        except _BadCopyError as error:
            raise _BadCopyError(f"{archive} {error}") from error


def _download_any(remote: RemoteFile, place: Path, progress: Progress | None) -> None:
    """Take a file from the first home that has a good copy of it."""
    reasons = []
    for url in remote.urls:
        try:
            with _staging(place) as staging:
                copy = staging / remote.name
                _download(url, copy, remote, progress)
                if remote.members:
                    _extract(copy, remote, place, staging)
                else:
                    _put(copy, place / remote.name)
            return
        except _BadCopyError as error:
            _LOG.info("%s %s", url, error)
            reasons.append(f"{url} {error}")
    raise _BadCopyError("; ".join(reasons) or f"{remote.name} has no known home")


@contextlib.contextmanager
def _staging(place: Path) -> Iterator[Path]:
    """Yield an empty folder on the same disk, so that what is complete can be moved at once."""
    folder = place / _STAGING
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _download(url: str, path: Path, remote: RemoteFile, progress: Progress | None) -> None:
    """Write to ``path`` what the home sends, and check it."""
    import pooch
    import requests

    get = pooch.HTTPDownloader(
        progressbar=_Watch(path, remote, progress),
        chunk_size=_CHUNK,
        timeout=_TIMEOUT,
        # The files are compressed already; a server that compresses once more would spoil checksum and bar.
        headers={"Accept-Encoding": "identity"},
    )
    try:
        get(url, str(path), None)
    except (requests.RequestException, ValueError) as error:
        raise _BadCopyError(f"failed ({_why(error)})") from error
    if path.stat().st_size != remote.size:
        raise _BadCopyError(f"sent {path.stat().st_size} bytes instead of {remote.size}")
    digest = pooch.file_hash(str(path))
    if digest != remote.sha256:
        raise _BadCopyError(f"sent a file of SHA-256 {digest} instead of {remote.sha256}")


def _why(error: Exception) -> str:
    """Take the heart out of what urllib3 wraps in pools and retries."""
    inner = getattr(error.args[0], "reason", None) if error.args else None
    return str(inner or error).rsplit("): ", 1)[-1].rstrip(".")


class _Watch:
    """What pooch takes for a progress bar; it also gives up on a file that does not end."""

    def __init__(self, path: Path, remote: RemoteFile, progress: Progress | None) -> None:
        self.total = 0  # pooch sets it to what the server announces, which may be wrong
        self._path = path
        self._remote = remote
        self._progress = progress

    def update(self, _: int) -> None:
        """Look at the file itself: pooch counts every chunk as a whole one."""
        received = self._path.stat().st_size
        if received > self._remote.size:
            raise _BadCopyError(f"sent more than the {self._remote.size} bytes of {self._remote.name}")
        if self._progress is not None:
            self._progress(self._remote.name, received, self._remote.size)

    def reset(self) -> None:
        """Do nothing: the file keeps the count."""

    def close(self) -> None:
        """Do nothing: the caller owns the display."""


def _extract(archive: Path, remote: RemoteFile, place: Path, staging: Path) -> None:
    """Extract the members that are missing, by name; whatever else the archive holds stays in it."""
    wanted = {member: remote.members[member] for member in _missing_targets(remote, place)}
    copies: dict[str, Path] = {}
    try:
        with gzip.open(archive) as content, tarfile.open(fileobj=content, mode="r:") as tar:
            for entry in tar:
                if entry.name in wanted and entry.name not in copies:
                    _check_entry(entry, wanted[entry.name])
                    copies[entry.name] = staging / f"member-{len(copies)}"
                    _copy_entry(tar, entry, copies[entry.name])
            # gzip compares its checksum at the end, which tarfile does not reach.
            while content.read(_CHUNK):
                pass
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _BadCopyError(f"is cut, damaged or not a .tar.gz archive ({error})") from error
    lacking = sorted(wanted.keys() - copies.keys())
    if lacking:
        raise _BadCopyError(f"lacks the members {', '.join(lacking)}")
    # Only now, so that a bad archive leaves nothing in place.
    for member, copy in copies.items():
        _put(copy, place / member)


def _check_entry(entry: tarfile.TarInfo, limit: int) -> None:
    if not entry.isreg():
        raise _BadCopyError(f"holds {entry.name} as a link or something else that is no regular file")
    if entry.size > limit:
        raise _BadCopyError(f"holds {entry.name} of {entry.size} bytes, which has {limit} at most")


def _copy_entry(tar: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> None:
    content = tar.extractfile(entry)
    assert content is not None  # noqa: S101, it is a regular file
    with content, path.open("wb") as file:
        shutil.copyfileobj(content, file)


def _put(copy: Path, target: Path) -> None:
    """Move a complete file to its place at once."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # Without this, a power cut after the move may leave an empty file under the final name.
    with copy.open("rb") as file:
        os.fsync(file.fileno())
    copy.replace(target)
