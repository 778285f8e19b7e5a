"""Ways to damage the bytes of any file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Random = np.random.Generator
Damage = Callable[[bytes, Random], bytes]


def cut(content: bytes, random: Random) -> bytes:
    """Keep the beginning up to a random place."""
    return content[: int(random.integers(len(content) + 1))]


def flip(content: bytes, random: Random) -> bytes:
    """Flip one to eight bits."""
    changed = bytearray(content)
    for _ in range(int(random.integers(1, 9))):
        if changed:
            changed[int(random.integers(len(changed)))] ^= 1 << int(random.integers(8))
    return bytes(changed)


def flip_early(content: bytes, random: Random) -> bytes:
    """Flip a bit in the first 200 bytes, where headers are."""
    return flip(content[:200], random) + content[200:]


def empty(_: bytes, __: Random) -> bytes:
    """Keep nothing."""
    return b""


def noise(content: bytes, random: Random) -> bytes:
    """Put random bytes in place of all."""
    return random.bytes(min(len(content), 5000))


def with_nulls(content: bytes, random: Random) -> bytes:
    """Insert NUL bytes at a random place."""
    place = int(random.integers(len(content) + 1))
    return content[:place] + bytes(int(random.integers(1, 50))) + content[place:]


def nulls_at_the_end(content: bytes, random: Random) -> bytes:
    """Replace the end by NUL bytes, as some file systems do after a crash."""
    place = int(random.integers(len(content) + 1))
    return content[:place] + bytes(len(content) - place)


def doubled(content: bytes, _: Random) -> bytes:
    """Write everything twice."""
    return content + content


def with_a_hole(content: bytes, random: Random) -> bytes:
    """Leave a part in the middle out."""
    start, end = sorted(int(place) for place in random.integers(len(content) + 1, size=2))
    return content[:start] + content[end:]


def shuffled_blocks(content: bytes, random: Random) -> bytes:
    """Exchange blocks of bytes."""
    size = max(1, len(content) // 8)
    blocks = [content[start : start + size] for start in range(0, len(content), size)]
    return b"".join(blocks[place] for place in random.permutation(len(blocks)))


def nested(_: bytes, random: Random) -> bytes:
    """Open brackets without an end, deeper than any parser should follow."""
    return (b"[" if random.random() < 0.5 else b'{"a":') * int(random.choice([500, 5000, 200_000]))


DAMAGES: dict[str, Damage] = {
    "cut": cut,
    "flipped bits": flip,
    "flipped bits at the start": flip_early,
    "empty": empty,
    "noise": noise,
    "NUL bytes": with_nulls,
    "NUL bytes at the end": nulls_at_the_end,
    "doubled": doubled,
    "a hole": with_a_hole,
    "shuffled blocks": shuffled_blocks,
    "deep nesting": nested,
}
