"""The images of an application's pages: PNG files of noise with the sizes that a browser would fetch."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

__all__ = ["IMAGES", "write_images"]

_KB = 1024
_ITEM_KB = (5,) * 45 + (10,) * 35 + (50,) * 15 + (100,) * 4 + (250,)
"""Sizes of a hundred pictures of items; the shares are TPC-W's."""

IMAGES: Mapping[str, Mapping[str, int]] = {
    "rubis": {"logo": 6 * _KB, "bar": _KB},
    "tpcw": {
        "logo": 5 * _KB,
        **{f"thumbnail-{number}": 5 * _KB for number in range(100)},
        **{f"image-{number}": size * _KB for number, size in enumerate(_ITEM_KB)},
    },
}
"""Application -> image -> about how many bytes."""


def write_images(application: str, folder: Path) -> None:
    """Writes the application's images, the same each time."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, n_bytes) in enumerate(IMAGES[application].items()):
        (folder / f"{name}.png").write_bytes(_png(n_bytes, seed))


def _png(n_bytes: int, seed: int) -> bytes:
    """A square of grey noise, which no compression makes smaller."""
    side = max(1, int(n_bytes**0.5))
    noise = np.random.default_rng(seed).integers(0, 256, size=(side, side + 1), dtype="u1")
    noise[:, 0] = 0  # each line says first that it is not filtered
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunks(header, zlib.compress(noise.tobytes(), 0)))


def _chunks(header: bytes, data: bytes) -> Iterator[bytes]:
    for kind, body in ((b"IHDR", header), (b"IDAT", data), (b"IEND", b"")):
        yield struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
