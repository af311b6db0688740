"""One chunk of a virtual level against reading its sources with zarr and filtering them with numpy or scipy.

Run: python benchmarks/virtual_levels.py
"""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import scipy.ndimage
import zarr
from measure import Case, Sample, measure, table, timed
from numpy.typing import NDArray

import jnrrdz
from jnrrdz.core.pyramid import Method, VirtualLevel, virtual_levels_attribute

CHUNK = (64, 256, 256)
SHAPE = (128, 512, 512)
MOST = 1.2


def manifest(folder: Path, method: Method) -> str:
    """Return references to 2 x 2 x 2 zstd chunks of a smooth volume, whose half is one virtual chunk."""
    draw = np.random.default_rng(1)
    base = scipy.ndimage.zoom(draw.random((8, 32, 32)), 16, order=1)
    volume = (base * 200 + draw.random(SHAPE) * 8).astype(np.uint8)
    level = VirtualLevel("1", "0", "data", (2, 2, 2), CHUNK, CHUNK, method)
    array = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": SHAPE,
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": CHUNK}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 3, "checksum": False}}],
        "attributes": {},
    }
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    root = group | {"attributes": virtual_levels_attribute([level])}
    refs: dict[str, Any] = {"zarr.json": json.dumps(root), "0/zarr.json": json.dumps(group)}
    refs["0/data/zarr.json"] = json.dumps(array)
    with (folder / "tiles.bin").open("wb") as stream:
        for index in np.ndindex(2, 2, 2):
            part = volume[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, CHUNK, strict=True))]
            data = imagecodecs.zstd_encode(part.tobytes(), level=3)
            refs["0/data/c/{}/{}/{}".format(*index)] = ["tiles.bin", stream.tell(), len(data)]
            stream.write(data)
    path = folder / f"{method}.json"
    path.write_text(json.dumps({"version": 1, "refs": refs}))
    return str(path)


def average(source: NDArray[Any]) -> NDArray[Any]:
    """Return block means as numpy computes them."""
    z, y, x = CHUNK
    return np.rint(source.reshape(z, 2, y, 2, x, 2).mean((1, 3, 5))).astype(np.uint8)


def gaussian(source: NDArray[Any]) -> NDArray[Any]:
    """Return every second element of scipy's filter."""
    smooth = scipy.ndimage.gaussian_filter(source.astype(np.float64), 2 / 3, truncate=1.5)
    return np.rint(smooth[::2, ::2, ::2]).astype(np.uint8)


def maximum(source: NDArray[Any]) -> NDArray[Any]:
    """Return block maxima as numpy computes them."""
    z, y, x = CHUNK
    return source.reshape(z, 2, y, 2, x, 2).max((1, 3, 5))


def case(folder: Path, method: Method, by_hand: Callable[[NDArray[Any]], NDArray[Any]]) -> Case:
    """Return one method's case; each round opens anew, so that no chunk is kept."""
    refs = manifest(folder, method)

    def virtual() -> Sample:
        array = jnrrdz.open_group(refs)["1/data"]
        return timed(lambda: array[...])

    def read_and_filter() -> Sample:
        array: zarr.Array[Any] = jnrrdz.open_group(refs)["0/data"]
        return timed(lambda: by_hand(array[...]))

    return Case(f"virtual chunk, {method}", "read and filter", {"read and filter": read_and_filter, "virtual": virtual})


def main() -> None:
    """Print the table, and fail where a virtual chunk costs too much."""
    with tempfile.TemporaryDirectory() as name:
        ways: dict[Method, Callable[[NDArray[Any]], NDArray[Any]]] = {
            "average": average,
            "max": maximum,
            "gaussian": gaussian,
        }
        rows = [row for method, way in ways.items() for row in measure(case(Path(name), method, way))]
    print(table(rows))
    slow = [row.case for row in rows if row.contender == "virtual" and row.ratios["seconds"] > MOST]
    if slow:
        raise SystemExit(f"more than {MOST} times reading and filtering: {', '.join(slow)}")


if __name__ == "__main__":
    main()
