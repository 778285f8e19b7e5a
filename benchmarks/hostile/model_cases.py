"""Models that were damaged or tampered with: refused, or as good as before, bit for bit."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostile.damage import DAMAGES, flip
from hostile.prepared import copied
from hostile.results import MODEL
from hostile.sheets import NEW, OLD
from hostile.trial import OK, Trial


def tampered_model(trial: Trial) -> None:
    """Change the model of a fit, then predict, explain or suggest from it."""
    names = [*DAMAGES, *TAMPERINGS, *["one flipped bit"] * 8]
    name = trial.in_turn(names)
    trial.tell(name)
    folder = copied(trial.ready, OLD, trial.folder)
    path = folder / MODEL
    before = path.read_bytes()
    if name in TAMPERINGS:
        path.write_bytes(TAMPERINGS[name](before, trial))
    elif name in DAMAGES:
        path.write_bytes(DAMAGES[name](before, trial.random))
    else:
        path.write_bytes(_one_bit(before, trial))
    changed = path.read_bytes() != before
    table = copied(trial.ready, f"{OLD}.csv", trial.folder)
    ended = trial.command("predict", folder, table, "--out", "labels.csv")
    if ended.status == OK:
        expected = (trial.ready / f"{OLD}-again.csv").read_bytes()
        same = (trial.folder / "labels.csv").read_bytes() == expected
        trial.demand(same, "wrong result", "a changed model gave other predictions")
        trial.demand(not changed or name not in TAMPERINGS, "wrong result", "a tampered model was taken")
    for words in (("explain", folder, "--row", "3"), ("suggest", folder)):
        other = trial.command(*words)
        trial.demand(
            other.status == ended.status,
            "wrong result",
            f"predict ended with {ended.status}, {words[0]} did not",
        )


def _one_bit(content: bytes, trial: Trial) -> bytes:
    place = int(trial.random.integers(len(content)))
    changed = bytearray(content)
    changed[place] ^= 1 << int(trial.random.integers(8))
    trial.tell(f"byte {place} of {len(content)}")
    return bytes(changed)


def _parts(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header of a safetensors file, and the bytes of its tensors."""
    (size,) = struct.unpack("<Q", content[:8])
    return dict(json.loads(content[8 : 8 + size])), content[8 + size :]


def _joined(header: dict[str, Any], tensors: bytes) -> bytes:
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + tensors


def _edit(content: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Change our own header within that of safetensors."""
    header, tensors = _parts(content)
    own = json.loads(header["__metadata__"]["header"])
    change(own)
    header["__metadata__"]["header"] = json.dumps(own)
    return _joined(header, tensors)


def _permute_classes(content: bytes, _: Trial) -> bytes:
    return _edit(content, lambda own: own.update(classes=own["classes"][::-1]))


def _rename_a_class(content: bytes, _: Trial) -> bytes:
    return _edit(content, lambda own: own.update(classes=["renamed", *own["classes"][1:]]))


def _drop_a_key(content: bytes, trial: Trial) -> bytes:
    def change(own: dict[str, Any]) -> None:
        del own[trial.pick(sorted(own))]

    return _edit(content, change)


def _spoil_a_value(content: bytes, trial: Trial) -> bytes:
    def change(own: dict[str, Any]) -> None:
        key = trial.pick(sorted(own))
        value = trial.pick([None, -1, 10**12, "x", [], {}, [None], 1.5, True, [[[]]], float("nan")])
        trial.tell(f"{key} = {value!r}")
        own[key] = value

    return _edit(content, change)


def _tensor_names(header: dict[str, Any]) -> list[str]:
    return sorted(name for name in header if name != "__metadata__")


def _drop_a_tensor(content: bytes, trial: Trial) -> bytes:
    header, tensors = _parts(content)
    del header[trial.pick(_tensor_names(header))]
    return _joined(header, tensors)


def _swap_tensors(content: bytes, trial: Trial) -> bytes:
    """Exchange the places of two tensors of one type and shape."""
    header, tensors = _parts(content)
    names = _tensor_names(header)
    pairs = [
        (one, other)
        for one in names
        for other in names
        if one < other and all(header[one][key] == header[other][key] for key in ("dtype", "shape"))
    ]
    one, other = trial.pick(pairs)
    places = "data_offsets"
    trial.tell(f"{one} for {other}")
    header[one][places], header[other][places] = header[other][places], header[one][places]
    return _joined(header, tensors)


def _reshape_a_tensor(content: bytes, trial: Trial) -> bytes:
    header, tensors = _parts(content)
    name = trial.pick(_tensor_names(header))
    header[name]["shape"] = [*header[name]["shape"], 1]
    return _joined(header, tensors)


def _flip_in_tensors(content: bytes, trial: Trial) -> bytes:
    header, tensors = _parts(content)
    return _joined(header, flip(tensors, trial.random))


def _other_format(content: bytes, trial: Trial) -> bytes:
    header, tensors = _parts(content)
    header["__metadata__"]["format"] = trial.pick(["dahgnn-features", "pt", ""])
    return _joined(header, tensors)


def _other_version(content: bytes, trial: Trial) -> bytes:
    header, tensors = _parts(content)
    header["__metadata__"]["format_version"] = trial.pick(["0", "99", "x", ""])
    return _joined(header, tensors)


def _without_words(content: bytes, _: Trial) -> bytes:
    header, tensors = _parts(content)
    del header["__metadata__"]
    return _joined(header, tensors)


def _huge_header(_: bytes, __: Trial) -> bytes:
    return struct.pack("<Q", 1 << 60) + b"{}"


def _pickle(_: bytes, __: Trial) -> bytes:
    return b"\x80\x04cos\nsystem\n(S'false'\ntR."


TAMPERINGS: dict[str, Callable[[bytes, Trial], bytes]] = {
    "permuted classes": _permute_classes,
    "a class of another name": _rename_a_class,
    "a key that is missing": _drop_a_key,
    "a value that is spoilt": _spoil_a_value,
    "another spoilt value": _spoil_a_value,
    "a tensor that is missing": _drop_a_tensor,
    "two tensors exchanged": _swap_tensors,
    "a tensor of another shape": _reshape_a_tensor,
    "flipped bits in tensors": _flip_in_tensors,
    "another format": _other_format,
    "another version": _other_version,
    "no metadata": _without_words,
    "a header of 2^60 bytes": _huge_header,
    "a pickle": _pickle,
}


def swapped_files(trial: Trial) -> None:
    """Exchange files between two fits: what is told is of the model alone, or it is refused."""
    folders: list[Path] = [copied(trial.ready, mark, trial.folder) for mark in (OLD, NEW)]
    names = sorted(path.name for path in folders[0].iterdir() if path.is_file())
    name = trial.in_turn(names)
    trial.tell(f"{name} of the other fit")
    paths = [folder / name for folder in folders]
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, reversed(contents), strict=True):
        path.write_bytes(content)
    of_model = NEW if name == MODEL else OLD
    table = copied(trial.ready, f"{of_model}.csv", trial.folder)
    ended = trial.command("predict", folders[0], table, "--out", "labels.csv")
    if ended.status == OK:
        expected = (trial.ready / f"{of_model}-again.csv").read_bytes()
        found = (trial.folder / "labels.csv").read_bytes()
        trial.demand(found == expected, "wrong result", "predictions that are of neither fit")
    shown = trial.command("suggest", folders[0])
    trial.demand((OLD if of_model == NEW else NEW) not in shown.out, "mixed", "suggest told of the other fit")
