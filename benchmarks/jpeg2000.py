"""The full read of a tiled lossless JPEG 2000 image against its own decoder.

The bound has a codestream for every tile in memory before the clock
starts, made of the file's own tile-parts, and decodes them into an array that exists already.

osml-imagery-io takes part where it has its environment:
`python -m venv .benchmarks/osml && .benchmarks/osml/bin/pip install osml-imagery-io virtualizarr fsspec "zarr<3.2"`
"""

import atexit
import hashlib
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import data
import imagecodecs
import numpy as np
import rasterio
import rasterio.shutil
import readers
from measure import Case, Sample, timed
from numpy.typing import NDArray

import jnrrdz
from jnrrdz.formats.jpeg2000.codestream import find_codestream, parse_codestream
from jnrrdz.formats.jpeg2000.decode import Header, parts_of

OPTIONS = {"driver": "JP2OpenJPEG", "QUALITY": 100, "REVERSIBLE": "YES", "YCBCR420": "NO", "NUM_THREADS": 2}


def tiled_jp2(size: int) -> Path:
    """Return a lossless JP2 of size x size RGB pixels in tiles."""
    path = data.cache() / f"rgb_{size}.jp2"
    if not path.exists():
        made = path.with_suffix(".part.jp2")
        blocks = {"BLOCKXSIZE": data.TILE, "BLOCKYSIZE": data.TILE}
        rasterio.shutil.copy(str(data.jpeg_cog(size)), str(made), **OPTIONS, **blocks)
        made.rename(path)
    return path


class Decoder:
    """Decode the tiles of an image, each a codestream of its own, from memory."""

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        """Read every tile, and touch every page of the array that they go to."""
        self.out = np.zeros(shape, np.uint8)
        source = path.read_bytes()
        start, stop, _ = find_codestream(lambda first, last: source[first:last], 0, len(source))
        found = parse_codestream(lambda first, last: source[first:last], start, stop)
        header = Header(found.header, found.siz, ())
        corners = product(*(range(0, size, data.TILE) for size in shape[-2:]))
        self.places = [np.s_[:, row : row + data.TILE, column : column + data.TILE] for row, column in corners]
        self.tiles = []
        for number in range(found.siz.tiles):
            own = found.parts.tile == number
            spans = zip(found.parts.offset[own], found.parts.length[own], strict=True)
            tile = b"".join(source[offset : offset + length] for offset, length in spans)
            self.tiles.append(header.codestream(tile, parts_of(tile, found.siz.tiles)))

    def into(self, number: int) -> None:
        """Decode one tile to its place."""
        self.out[self.places[number]] = imagecodecs.jpeg2k_decode(self.tiles[number], planar=True)

    def read(self, threads: int = 2) -> NDArray[Any]:
        """Decode all tiles on that many threads."""
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(self.into, range(len(self.tiles))):
                pass
        return self.out


class Peer:
    """osml-imagery-io in a process of its own, which reads when it is told to."""

    PYTHON = data.CACHE / "osml" / "bin" / "python"

    def __init__(self, path: Path, work: Path) -> None:
        """Start it; it indexes the file before anything is measured."""
        child = Path(__file__).with_name("osml_child.py")
        command = [self.PYTHON, "-W", "ignore", child, path, work]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self.close)

    def ask(self, way: str) -> tuple[float, str]:
        """Return the seconds of a read, and the digest of its pixels."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("no pipes")
        self._process.stdin.write(way + "\n")
        self._process.stdin.flush()
        seconds, _, digest = self._process.stdout.readline().strip().partition(" ")
        if seconds == "failed" or not digest:
            raise RuntimeError(f"osml-imagery-io, {way}: {digest or 'no answer'}")
        return float(seconds), digest

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()


def peers(path: Path, work: Path, expected: NDArray[Any]) -> dict[str, Callable[[], Sample]]:
    """Return osml-imagery-io's ways of reading that give the right pixels, as contenders."""
    if not Peer.PYTHON.exists():
        return {}
    peer, right = Peer(path, work), hashlib.sha256(np.ascontiguousarray(expected).tobytes()).hexdigest()
    found: dict[str, Callable[[], Sample]] = {}
    for way in ("zarr", "imread"):
        try:
            _, digest = peer.ask(way)
        except RuntimeError as error:
            sys.stderr.write(f"{error}\n")
            continue
        name = f"osml-imagery-io, {way}"
        if digest == right:
            found[name] = lambda way=way: Sample(seconds=peer.ask(way)[0])
        else:
            sys.stderr.write(f"{name}: other pixels\n")
    return found


def full_read(size: int, work: Path, same: Callable[[NDArray[Any], NDArray[Any], str], None]) -> Case:
    """Return the full read of the tiled JP2 at two threads; `same` stops the run where pixels differ."""
    path, manifest = tiled_jp2(size), work / "jp2.json"
    title = f"full read, {size} squared RGB, tiled lossless JPEG 2000"
    jnrrdz.index(str(path), str(manifest))
    group = jnrrdz.open_group(str(manifest))
    array = group["0/data"] if "0" in group else group["data"]
    expected = readers.rasterio_full(path)
    decoder = Decoder(path, expected.shape)
    same(decoder.read(), expected, title)
    same(array[...], expected, title)
    return Case(
        title,
        "decode only",
        {
            "decode only": lambda: timed(decoder.read),
            "jnrrdz": lambda: timed(lambda: array[...]),
            "rasterio": lambda: timed(readers.rasterio_full, path),
            **peers(path, work, expected),
        },
        rounds=3,
        goals={"jnrrdz": {"seconds": 1.1}},
    )
