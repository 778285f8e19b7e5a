"""Keep columns beside a fitted model: as values that JSON can hold, and arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from dahgnn.checks import check_choice
from dahgnn.tables.columns import Column
from dahgnn.tables.picture_encoder import PictureEncoder
from dahgnn.tables.texts import Encoder, SentenceEncoder, WordEncoder

_ENCODERS: Mapping[str, Callable[..., Encoder]] = {
    encoder.kind: encoder for encoder in (WordEncoder, SentenceEncoder, PictureEncoder)
}
_DEFAULTS = {each.name: each.default for each in fields(Column)}


def pack_columns(columns: Sequence[Column]) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Return each column as a mapping, and the arrays that belong to them, by name."""
    packed: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}
    for place, column in enumerate(columns):
        values = {name: getattr(column, name) for name in _DEFAULTS if name != "encoder"}
        said = {name: value for name, value in values.items() if value != _DEFAULTS[name]}
        said["categories"] = list(column.categories)  # earlier versions want it
        if column.encoder is not None:
            settings, own = column.encoder.parts()
            said["encoder"] = {"kind": column.encoder.kind, **settings}
            arrays |= {f"column.{place}.{name}": array for name, array in own.items()}
        packed.append(said)
    return packed, arrays


def unpack_columns(
    packed: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]
) -> tuple[Column, ...]:
    """Return the columns that `pack_columns` packed, now or in an earlier version."""
    columns: list[Column] = []
    for place, said in enumerate(packed):
        values = dict(said)
        if values.get("encoder") is not None:
            settings = dict(values["encoder"])
            prefix = f"column.{place}."
            own = {
                name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)
            }
            values["encoder"] = encoder_from_parts(settings.pop("kind"), settings, own)
        columns.append(Column(**values))
    return tuple(columns)


def encoder_from_parts(kind: str, settings: Mapping[str, Any], arrays: Mapping[str, Any]) -> Encoder:
    """Return the encoder that `Encoder.parts` told of."""
    check_choice("kind", kind, tuple(_ENCODERS), "Encoder")
    return _ENCODERS[kind](**settings, **arrays)
