"""Raw binary sources whose chunks zarr's own codecs decode, with what a reader has to see in them."""

import gzip
import itertools
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import zarr

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.refs import ChunkRefs

GZIP = CodecSpec("gzip", {"level": 1})


@dataclass
class RawSource:
    """A file that chunks are appended to, with junk before and between them."""

    path: Path
    url: str
    data: bytearray = field(default_factory=lambda: bytearray(b"a header that is no pixel"))

    def put(self, chunk, pieces):
        """Append bytes in so many pieces, the later ones first; return the ranges in the chunk's order."""
        step = math.ceil(len(chunk) / pieces)
        ranges = []
        for start in reversed(range(0, len(chunk), step)):
            piece = chunk[start : start + step]
            ranges.insert(0, (len(self.data), len(piece)))
            self.data += piece + b"junk"
        self.path.write_bytes(self.data)
        return ranges

    def array(self, values, chunks, *, fill=0, missing=(), inline=(), scattered=(), compress=False, **more):  # noqa: PLR0913 - a chunk of every kind
        """Return a virtual array and the values that it has to show."""
        padded = np.full([math.ceil(n / c) * c for n, c in zip(values.shape, chunks, strict=True)], 77, values.dtype)
        padded[tuple(slice(n) for n in values.shape)] = values
        expected, rows, held = padded.copy(), [], {}
        grid = [n // c for n, c in zip(padded.shape, chunks, strict=True)]
        for number, index in enumerate(itertools.product(*map(range, grid))):
            place = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))
            chunk = padded[place].tobytes()
            chunk = gzip.compress(chunk) if compress else chunk
            rows.append([])
            if number in missing:
                expected[place] = fill
            elif number in inline:
                held[number] = chunk
            else:
                rows[-1] = self.put(chunk, 2 if number in scattered else 1)
        array = VirtualArray(
            shape=values.shape,
            dtype=values.dtype,
            chunks=chunks,
            codecs=(bytes_("little"), *([GZIP] if compress else [])),
            refs=self.refs(rows, held),
            dimension_names=more.pop("dims", tuple("tzyx"[4 - values.ndim :])),
            fill_value=fill,
            **more,
        )
        return array, expected[tuple(slice(n) for n in values.shape)]

    def refs(self, rows, inline):
        flat = np.array([r for row in rows for r in row], np.int64).reshape(-1, 2)
        indptr = np.cumsum([0, *map(len, rows)])
        return ChunkRefs((self.url,), indptr, np.zeros(len(flat), np.int32), flat[:, 0], flat[:, 1], inline)


@pytest.fixture(params=["path", "uri"])
def source(tmp_path, request):
    path = tmp_path / "data" / "raw file.bin"
    path.parent.mkdir()
    return RawSource(path, str(path) if request.param == "path" else f"file://{path}")


@pytest.fixture
def stock():
    """What opens references with fsspec and zarr alone."""

    def open_group(target, **options):
        return zarr.open_group(
            "reference://", mode="r", storage_options={"fo": str(target), "remote_protocol": "file", **options}
        )

    return open_group


@pytest.fixture
def tree(source):
    """A root that holds every kind of chunk, by path the expected values."""
    rng = np.random.default_rng(5)
    a, a_seen = source.array(
        rng.integers(0, 60000, (5, 7)).astype("<u2"), (2, 3), fill=9, missing={1, 8}, inline={3}, dims=("y", "x")
    )
    b, b_seen = source.array(
        rng.normal(size=(3, 4, 9)).astype("<f4"), (1, 4, 4), fill=np.nan, compress=True, missing={0}
    )
    c, c_seen = source.array(np.array(41, "<i8"), ())
    nothing, nothing_seen = source.array(np.empty((0, 3), "<u2"), (2, 2))
    seen = {"1/nothing": nothing_seen, "data": a_seen, "0/data": b_seen, "0/deep/scalar": c_seen}
    return {"data": a, "0": {"data": b, "deep": {"scalar": c}}, "1": {"nothing": nothing}}, seen
