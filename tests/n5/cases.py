"""Datasets of five writers in a table: types x compressions x shapes x kinds of blocks, and the bytes of one writer.

Nothing here uses jnrrdz.  `by_bytes` writes blocks byte by byte as the format's page and the Java, z5 and zarr 2
sources have them, Java's LZ4 with its checksums among them.
"""

import bz2
import gzip
import itertools
import json
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import imagecodecs
import numcodecs
import numpy as np
import xxhash
import zstandard

TYPES = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64")
GEOMETRIES = {
    "aligned": ((12, 6, 4, 4), (4, 3, 2, 2)),
    "ragged": ((11, 7, 5, 3), (4, 3, 2, 2)),
    "one block": ((5, 4, 3, 2), (8, 8, 4, 4)),
    "blocks of one": ((5, 3, 2, 2), (1, 1, 1, 1)),
    "odd": ((17, 13, 1, 1), (7, 5, 3, 1)),
}
BLOSC = [
    {"type": "blosc", "cname": cname, "clevel": 5, "shuffle": shuffle, "blocksize": 0}
    for cname in ("lz4", "lz4hc", "blosclz", "zlib", "zstd")
    for shuffle in range(3)
]
PLAIN = [
    {"type": "raw"},
    {"type": "gzip", "level": -1},
    {"type": "gzip", "level": 9},
    {"type": "gzip", "level": 1, "useZlib": True},
    {"type": "bzip2", "blockSize": 3},
    {"type": "xz", "preset": 1},
    {"type": "zstd", "level": 3},
]
Z5 = [
    {"type": "raw"},
    {"type": "gzip", "level": 5},
    {"type": "bzip2"},
    {"type": "xz"},
    {"type": "zstd"},
    {"type": "lz4"},
    *(
        {"type": "blosc", "codec": cname, "shuffle": shuffle}
        for cname in ("lz4", "zstd", "zlib")
        for shuffle in (0, 1, 2)
    ),
]
ZARR2 = [
    {"type": "raw"},
    {"type": "gzip", "level": 5},
    {"type": "zlib", "level": 3},
    {"type": "bz2", "level": 4},
    {"type": "lzma", "preset": 2},
    {"type": "zstd", "level": 3},
    {"type": "lz4"},
    *({"type": "blosc", "cname": cname, "shuffle": shuffle} for cname in ("lz4", "zstd") for shuffle in (0, 1, 2)),
]
OWN = [
    *PLAIN,
    {"type": "gzip", "level": 6, "made": "two members"},
    {"type": "zstd", "made": "no content size"},
    {"type": "zstd", "made": "two frames"},
    {"type": "lz4", "blockSize": 65536, "made": "java"},
    {"type": "lz4", "blockSize": 64, "made": "java, small"},
    {"type": "lz4", "level": 6, "made": "block"},
    {"type": "lz4", "id": "lz4", "acceleration": 1, "made": "frame"},
    {"type": "blosc", "cname": "lz4", "clevel": 6, "shuffle": 0, "nthreads": 1},
    {"type": "blosc", "cname": "zstd", "clevel": 0, "shuffle": 2},
    {"type": "gzip", "made": "version 0"},
    {"type": "raw", "made": "version 0"},
]
KINDS = (
    "cut",
    "padded",
    "mixed",
    "oversize",
    "short",
    "missing",
    "variable",
    "mixed modes",
    "no root",
)


@dataclass(frozen=True)
class Case:
    """One dataset."""

    number: int
    writer: str
    dtype: str
    shape: tuple[int, ...]
    """x first, as all of this module."""

    block: tuple[int, ...]
    compression: dict[str, Any]
    kind: str = ""
    geometry: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """What a report calls it."""
        return " ".join(
            [self.writer, self.dtype, str(self.shape), str(self.block), json.dumps(self.compression), self.kind]
        )

    def values(self) -> np.ndarray:
        """Return what is written, no element of it 0; runs and noise, extremes and, of floats, NaN."""
        draw = np.random.default_rng(self.number)
        kind = np.dtype(self.dtype)
        count = int(np.prod(self.shape))
        if kind.kind == "f":
            found = draw.standard_normal(count).astype(kind) + 9
            found[::7] = np.nan
            found[1::11] = -np.inf
        else:
            least, most = np.iinfo(kind).min, np.iinfo(kind).max
            found = draw.integers(least, most, count, kind, endpoint=True)
            found[::3] = 5
            found[found == 0] = most
            found[-1:] = least or 1
        return found.reshape(self.shape)

    def to_json(self) -> dict[str, Any]:
        """Return the case for another process."""
        return asdict(self)


def table() -> Iterator[Case]:
    """Yield all cases."""
    number = itertools.count(1)
    for writer, compressions in (("tensorstore", PLAIN + BLOSC), ("z5py", Z5), ("zarr2", ZARR2)):
        for dtype, axes, geometry, compression in itertools.product(TYPES, range(1, 5), GEOMETRIES, compressions):
            shape, block = (sizes[:axes] for sizes in GEOMETRIES[geometry])
            yield Case(next(number), writer, dtype, shape, block, compression, "", geometry)
    for dtype, axes, kind, compression in itertools.product(TYPES, range(1, 5), KINDS, OWN):
        geometry = list(GEOMETRIES)[next(number) % len(GEOMETRIES)]
        shape, block = (sizes[:axes] for sizes in GEOMETRIES[geometry])
        yield Case(next(number), "bytes", dtype, shape, block, compression, kind, geometry)


def by_bytes(case: Case, folder: Path) -> np.ndarray:
    """Write the dataset of a case block by block, and return what is to be read."""
    values, expected = case.values(), np.zeros(case.shape, case.dtype)
    folder.mkdir(parents=True)
    (folder / "attributes.json").write_text(json.dumps(_document(case)))
    grid = [range(-(-size // step)) for size, step in zip(case.shape, case.block, strict=True)]
    for number, place in enumerate(itertools.product(*grid)):
        where = tuple(slice(at * step, (at + 1) * step) for at, step in zip(place, case.block, strict=True))
        header, part = _part(case, number, values[where])
        if header is None:
            continue
        file = folder.joinpath(*map(str, place))
        file.parent.mkdir(parents=True, exist_ok=True)
        body = part.T.astype(part.dtype.newbyteorder(">")).tobytes()
        file.write_bytes(header + _ENCODERS[_encoder(case)](body, case))
        there = expected[where]
        common = tuple(slice(min(sizes)) for sizes in zip(there.shape, part.shape, strict=True))
        there[common] = part[common]
    return expected


def _document(case: Case) -> dict[str, Any]:
    told = {name: value for name, value in case.compression.items() if name != "made"}
    own = {"dimensions": list(case.shape), "blockSize": list(case.block), "dataType": case.dtype}
    if case.compression.get("made") == "version 0":
        return own | {"compressionType": told["type"]}
    return own | {"compression": told}


def _part(case: Case, number: int, part: np.ndarray) -> tuple[bytes | None, np.ndarray]:
    """Return a block's header, none for a block that is left out, and the elements in it."""
    padded = [(0, step - size) for size, step in zip(part.shape, case.block, strict=True)]
    odd = number % 2
    if case.kind == "missing" and odd:
        return None, part
    if case.kind == "oversize":
        part = np.pad(part, [(before, after + 1 + odd) for before, after in padded], constant_values=99)
    elif case.kind == "short" and part.shape[0] > 1:
        part = part[:-1]
    elif case.kind == "padded" or (case.kind == "mixed" and odd):
        part = np.pad(part, padded)
    head = struct.pack(f">H{part.ndim}I", part.ndim, *part.shape)
    if case.kind == "variable" or (case.kind == "mixed modes" and odd):
        return b"\0\1" + head + struct.pack(">I", part.size), part
    return b"\0\0" + head, part


def _java(data: bytes, size: int) -> bytes:
    """Return LZ4BlockOutputStream's framing, a block raw where LZ4 does not make it smaller."""
    level = max(0, (size - 1).bit_length() - 10)
    parts = []
    for first in range(0, len(data), size):
        part = data[first : first + size]
        packed = imagecodecs.lz4_encode(part)
        method, stored = (0x20, packed) if len(packed) < len(part) else (0x10, part)
        check = xxhash.xxh32_intdigest(part, 0x9747B28C) & 0x0FFFFFFF
        parts.append(b"LZ4Block" + struct.pack("<BIII", method | level, len(stored), len(part), check) + stored)
    return b"".join(parts) + b"LZ4Block" + struct.pack("<BIII", 0x10 | level, 0, 0, 0)


def _blosc(data: bytes, case: Case) -> bytes:
    told = case.compression
    codec = numcodecs.Blosc(told["cname"], told["clevel"], told["shuffle"])
    return codec.encode(np.frombuffer(data, case.dtype))


def _encoder(case: Case) -> str:
    told = case.compression
    made = told.get("made", "")
    return "zlib" if told.get("useZlib") else f"{told['type']} {made}".strip().replace(" version 0", "")


_HALVES: Callable[[bytes], tuple[bytes, bytes]] = lambda data: (data[: len(data) // 2], data[len(data) // 2 :])  # noqa: E731
_ENCODERS: dict[str, Callable[[bytes, Case], bytes]] = {
    "raw": lambda data, _: data,
    "gzip": lambda data, _: gzip.compress(data),
    "gzip two members": lambda data, _: b"".join(map(gzip.compress, _HALVES(data))),
    "zlib": lambda data, _: zlib.compress(data),
    "bzip2": lambda data, _: bz2.compress(data),
    "xz": lambda data, _: lzma.compress(data),
    "zstd": lambda data, _: zstandard.compress(data),
    "zstd no content size": lambda data, _: zstandard.ZstdCompressor(write_content_size=False).compress(data),
    "zstd two frames": lambda data, _: b"".join(map(zstandard.compress, _HALVES(data))),
    "blosc": _blosc,
    "lz4 java": lambda data, case: _java(data, case.compression["blockSize"]),
    "lz4 java, small": lambda data, case: _java(data, case.compression["blockSize"]),
    "lz4 block": lambda data, _: bytes(imagecodecs.lz4_encode(data)),
    "lz4 frame": lambda data, _: struct.pack("<I", len(data)) + bytes(imagecodecs.lz4_encode(data)),
}
